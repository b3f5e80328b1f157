"""What was measured: one benchmark of one deployment of a real engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

PERCENTILES = (50, 90, 99)
POOLS = ("prefill", "decode")
# Tokens of a prompt or an answer: a number, or a distribution as the options of a replay spell it.
Length: TypeAlias = int | str


def longest(length: Length) -> int:
    """The number in a length, or the last one in a distribution: the upper end of ``uniform(a,b)``, or near enough."""
    return int(re.findall(r"\d+", str(length))[-1])


def mean_length(length: Length) -> float:
    """The number in a length, or about the mean of a distribution: that of the numbers that describe it."""
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", str(length))]
    return sum(numbers) / len(numbers)


class Refusal(Exception):
    """Why a measurement is not replayed, in words that are the same for all measurements with that cause."""


@dataclass(frozen=True)
class Figures:
    """A quantity over the requests of a run, in milliseconds; None where the source does not say."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


@dataclass(frozen=True)
class Requests:
    """Single requests of a run, in the order in which they arrived. All sequences have the same length."""

    isl: Sequence[int]
    osl: Sequence[int]
    ttft_ms: Sequence[float]
    # Mean gap after the first token; NaN where the answer has one token.
    tpot_ms: Sequence[float]
    # From the first arrival; empty if the source does not say.
    arrival_ms: Sequence[float] = ()


@dataclass(frozen=True)
class Parallelism:
    """How a model was spread over GPUs, as the source says it."""

    tp: int = 1
    attention_dp: int = 1
    moe_tp: int = 1
    moe_ep: int = 1


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One benchmark run: what ran, under which load, and what was measured.

    Fields say what the source says, also where it is known to be wrong; ``mapping`` corrects that. An empty text or
    None means that the source does not say.
    """

    id: str
    # The kind of source, see sources.FORMATS, or the campaign: "inferencex" and "gap" for rows of the silicon table.
    source: str
    file: str
    engine: str = ""
    version: str = ""
    model: str = ""
    # GPU in AIC's spelling where there is one ("h200_sxm"), otherwise as the source has it.
    system: str = ""
    precision: str = ""
    mode: str = "agg"
    parallelism: Parallelism = Parallelism()
    # The load: a closed loop of clients, a rate in requests per second, or single requests with arrivals.
    concurrency: int | None = None
    request_rate: float | None = None
    request_count: int | None = None
    isl: Length | None = None
    osl: Length | None = None
    ttft: Figures = Figures()
    tpot: Figures = Figures()
    itl: Figures = Figures()
    requests: Requests | None = None
    # Runs of one configuration stay together when data are split for a fit: all but load and engine decide it.
    configuration: str = ""
    # The model under whose name errors are listed, if that is another one.
    listed_as: str = ""
    # What the source says about the engine, as engine arguments.
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    # Further facts that a rule of the mapping needs, by name.
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def group(self) -> tuple[str, str, str, str]:
        """Engine, model without its owner, GPU and precision: what errors are listed by."""
        model = self.listed_as or self.model
        return self.engine, model.rpartition("/")[2], self.system, self.precision or "bf16"

    def refuse_unknown_workers(self) -> None:
        """Raises Refusal for a run in two pools of which the number of workers is not known."""
        if not all(self.facts.get(f"{pool}_num_workers") for pool in POOLS):
            raise Refusal("disaggregated: number of workers unknown")


@dataclass(frozen=True)
class ClosedLoop:
    """Clients that each send the next request when the one before has ended."""

    clients: int
    requests: int
    isl: Length
    osl: Length
    # How many prompts they choose from; 0 if no two requests have the same.
    prompts: int = 0


@dataclass(frozen=True)
class OpenLoop:
    """Requests that arrive at a mean rate, whatever the engine does."""

    rate: float
    requests: int
    isl: Length
    osl: Length


@dataclass(frozen=True)
class Recorded:
    """Requests of known lengths; they arrive at their times, or as a closed loop of clients."""

    requests: Requests
    clients: int | None = None


@dataclass(frozen=True)
class Split:
    """Prefill workers before decode workers: the engine arguments of the former, and how many there are of both."""

    prefill: Mapping[str, Any]
    prefill_workers: int
    decode_workers: int


@dataclass(frozen=True)
class Replay:
    """The run that simulates a measurement."""

    measurement: Measurement
    # Of the one worker, or of decode workers.
    engine: Mapping[str, Any]
    workload: ClosedLoop | OpenLoop | Recorded
    # What stands in for what was measured, in words; empty if nothing does.
    stand_ins: tuple[str, ...] = ()
    # Engine arguments of which the KV pool is estimated, where those in `engine` describe another GPU or backend.
    pool: Mapping[str, Any] | None = None
    # Those of the engine arguments that say of which other kernels durations are.
    kernels: Mapping[str, Any] = field(default_factory=dict)
    split: Split | None = None
    # How often a load that is not recorded is run: after the first time, its lengths vary.
    seeds: int = 1
