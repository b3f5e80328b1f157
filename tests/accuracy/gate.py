"""The measurements of the gate against regressions, and the errors of their replays with recorded durations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dynamo import _core
from dynamo.calibrate.folds import fold_of
from dynamo.validate import mapping, runner, scores, sources
from dynamo.validate.measurement import Replay
from dynamo.validate.runner import Result

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
MEASURED = EXAMPLES / "measured"
FOLDS = sorted((EXAMPLES / "calibration" / "folds").glob("fold-*.json"))


@dataclass(frozen=True)
class Case:
    """Measurements of one model on one GPU with one engine."""

    name: str
    source: str
    # Words that the names and groups of the measurements have in common.
    words: Sequence[str]
    # Where the KV pool is not what limits a measurement, a large one stands for it.
    engine: dict[str, Any] = field(default_factory=lambda: {"num_gpu_blocks": 65536, "block_size": 16})

    @property
    def table(self) -> Path:
        return MEASURED / "durations" / f"{self.name}.npz"

    def replays(self, engine: dict[str, Any] | None = None) -> list[Replay]:
        found = sources.read([str(MEASURED / self.source)])
        chosen = [m for m in found if all(word in f"{m.id} {' '.join(m.group)}" for word in self.words)]
        assert chosen, self
        return [mapping.replay_of(m, mapping.Rules(engine=engine or {})) for m in chosen]


CASES = (
    Case("llama-8b-vllm", "llmservingsim/RTXPRO6000/Llama-3.1-8B/requests.jsonl", ()),
    Case("qwen3-32b-vllm", "silicon_sample.csv", ("Qwen3-32B", "h100_sxm", "vllm", "tp4_")),
    Case(
        "qwen3-32b-sglang",
        "silicon_sample.csv",
        ("Qwen3-32B", "h100_sxm", "sglang", "tp4_"),
        {"num_gpu_blocks": 1 << 20, "block_size": 1},
    ),
)


def measured_errors(case: Case) -> dict[str, float]:
    """Mean absolute errors in percent, and the KS distances of single requests.

    Of the silicon table also the errors that are left with the committed profile that has not seen a row.
    """
    durations = {**case.engine, "planner_profile_data": str(case.table)}
    results = _carried_out(case.replays(durations))
    found = {**_errors(results), **_distances(results)}
    if case.source.endswith(".csv"):
        calibrated = _carried_out(
            [
                replace(replay, engine={**replay.engine, **knobs})
                for replay, knobs in zip(case.replays(durations), _held_out_knobs(case.replays()), strict=True)
            ]
        )
        found |= {f"held_out_{name}": error for name, error in _errors(calibrated).items()}
    return found


def _carried_out(replays: Sequence[Replay]) -> list[Result]:
    results = runner.run_all(replays, jobs=1)
    assert not any(result.refusal for result in results), results
    return results


def _held_out_knobs(replays: Sequence[Replay]) -> list[dict[str, Any]]:
    """What each engine reads from the profile that was fitted without its configuration."""
    found = []
    for replay in replays:
        text = FOLDS[fold_of(replay.measurement.configuration, len(FOLDS))].read_text()
        (view,) = _core.calibrations([replay.engine], text)
        assert view["entry"] >= 0, replay
        entry = json.loads(text)["entries"][view["entry"]]
        found.append({**view["knobs"], **({"pass_time": entry["pass_time"]} if "pass_time" in entry else {})})
    return found


def _errors(results: Sequence[Result]) -> dict[str, float]:
    found = {metric: scores.summary(scores.errors_of(r)[metric] for r in results) for metric in scores.METRICS}
    return {f"{metric}_percent": summary.mean_abs for metric, summary in found.items() if summary is not None}


def _distances(results: Sequence[Result]) -> dict[str, float]:
    return {
        f"{metric}_ks": distance
        for result in results
        for metric, distance in scores.distances_of(result).items()
        if distance is not None
    }
