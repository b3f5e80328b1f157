"""The constants that are fitted, their physical bounds, and what is expected of them before anything was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Knob:
    """An engine argument that is fitted. It is positive, and what is known of it beforehand is a factor.

    Attributes:
        name: Of the engine argument.
        low, high: Physical bounds.
        expected: Its value if nothing is measured.
        spread: How much engines differ, then GPUs of an engine, then models of an engine, then models on a GPU, then
            releases of an engine, then a model in a release, then a model on a number of GPUs: standard deviations of
            logarithms.
    """

    name: str
    low: float
    high: float
    expected: float
    spread: tuple[float, float, float, float, float, float, float]


# Predicted kernels are too fast or too slow model by model, those of prompts most of all by the GPU that a model runs
# on, but hardly by GPU or engine whatever the model; host time comes with the engine and the host of a GPU, and carries
# over between models, except for that of tokens, as tokenizers are of a model. Decoding is bound by memory, so a factor
# far from 1 mostly means that host time was taken for GPU time: it would fit the same measurements with a larger
# overhead, and be wrong for other batch sizes. So it is held near 1.
KNOBS = (
    Knob("prefill_scale", 0.5, 3, 1, (0.05, 0.05, 0.2, 0.4, 0.08, 0.11, 0.045)),
    Knob("decode_scale", 0.6, 1.7, 1, (0.02, 0.02, 0.25, 0.08, 0.05, 0.08, 0.03)),
    Knob("step_overhead_us", 20, 20_000, 500, (0.6, 0.6, 0.15, 0.15, 0.2, 0.35, 0.2)),
    Knob("seq_overhead_us", 0.5, 300, 10, (0.5, 0.3, 0.1, 0.1, 0.15, 0.3, 0.12)),
    Knob("request_overhead_us", 300, 600_000, 30_000, (1.0, 0.5, 0.2, 0.2, 0.25, 0.4, 0.3)),
    Knob("request_token_overhead_us", 0.05, 60, 2, (0.6, 0.4, 0.6, 0.6, 0.3, 0.5, 0.2)),
)
NAMES = tuple(knob.name for knob in KNOBS)
# The way of a request shifts arrivals; all other knobs stretch passes.
REQUEST = NAMES.index("request_overhead_us")
TOKEN = NAMES.index("request_token_overhead_us")
WAY = (REQUEST, TOKEN)
# The host's time for each request of a pass. Engines that compose a pass while another one runs hide it behind the GPU:
# fits that let it add to each pass find passes too long beyond 64 clients.
SEQUENCE = NAMES.index("seq_overhead_us")

EXPECTED: Vector = np.array([math.log(knob.expected) for knob in KNOBS])
# Of the parts that engine, GPU, model, and model on the GPU add, in this order.
SPREADS: list[Vector] = [np.array([knob.spread[level] for knob in KNOBS]) for level in range(7)]
LOW: Vector = np.array([math.log(knob.low) for knob in KNOBS])
HIGH: Vector = np.array([math.log(knob.high) for knob in KNOBS])

# No knob changes anything.
NEUTRAL: Vector = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])


def engine_arguments(values: Sequence[float]) -> dict[str, float]:
    """Values of the knobs as engine arguments."""
    return dict(zip(NAMES, map(float, values), strict=True))


def rounded(values: Sequence[float] | Vector) -> tuple[float, ...]:
    """Values as a profile has them: four significant digits."""
    return tuple(float(f"{value:.4g}") for value in values)
