"""The file that the engine argument ``calibration`` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamo import _core
from dynamo.calibrate.fit import LEVELS, Estimate, FactorKey, Fit
from dynamo.calibrate.knobs import NAMES, Vector, engine_arguments, rounded
from dynamo.calibrate.response import Response
from dynamo.replay import files
from dynamo.validate.measurement import Measurement, Replay

FORMAT = "dynosim-calibration/1"
# Less than any knob that has an effect.
LEAST = 0.02


def build(
    fit: Fit,
    responses: Sequence[Response],
    about: Mapping[str, Any],
    kv_tokens: int = 0,
    error: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Returns a profile with an entry for each estimate, in their order.

    Args:
        fit: What was found.
        responses: Those that it was fitted to.
        about: How it was made, for people.
        kv_tokens: Size of the KV pool that was measured; 0 if that is not known.
        error: What was measured of runs that were held out, which is to be expected of the model that was measured.
    """
    entries = [_entry(estimate, _members(estimate, responses), kv_tokens) for estimate in fit.estimates.values()]
    for entry in entries:
        if error and entry["level"] == "model":
            entry["held_out_error"] = dict(error)
    factors = [_factor(key, values, rows, responses) for key, (values, rows) in sorted(fit.factors.items())]
    return {"format": FORMAT, "fit": dict(about), "entries": entries, **({"factors": factors} if factors else {})}


class Choice(NamedTuple):
    """The knobs that an engine reads from a profile, and the level of the entry."""

    knobs: tuple[float, ...]
    level: str


def chosen(fit: Fit, responses: Sequence[Response], replays: Sequence[Replay]) -> list[Choice | None]:
    """Returns what the engines of replays read from the profile of a fit; None where nothing in it is for one.

    The choice is that of engines (gocore/calibration/select.go), so that scores are of what users get.
    """
    views = _core.calibrations([r.engine for r in replays], json.dumps(build(fit, responses, {})))
    return [
        Choice(tuple(view.get("knobs", {}).get(name, 0.0) for name in NAMES), view["level"])
        if view["entry"] >= 0
        else None
        for view in views
    ]


def _members(estimate: Estimate, responses: Sequence[Response]) -> list[Response]:
    """Returns the responses that an estimate is about; for "kin", those of the model on all GPUs."""
    if estimate.level == "kin":
        engine, _, model = estimate.key
        return [r for r in responses if (r.subject.engine, r.subject.model) == (engine, model)]
    (key,) = (level.key for level in LEVELS if level.name == estimate.level)
    return [r for r in responses if key(r.subject) == estimate.key]


def _entry(estimate: Estimate, members: Sequence[Response], kv_tokens: int) -> dict[str, Any]:
    engine, m, subject = members[0].replay.engine, members[0].replay.measurement, members[0].subject
    entry: dict[str, Any] = {
        "level": estimate.level,
        "engine": subject.engine,
        "timing": _timing(engine),
        "scheduler": str(engine.get("scheduler", "dynamo")),
    }
    if estimate.level != "engine":
        entry["system"] = estimate.key[1]
    if estimate.level in ("kin", "model") and (kernels := _kernels(members)):
        entry["kernels"] = kernels
    if estimate.level == "kin":
        entry["model"] = subject.model
        entry["note"] = "the model was measured on other GPUs or in other precisions"
    if estimate.level == "model":
        entry["model"] = _model(engine, m)
        entry["precision"] = subject.precision
        words = sorted({word for r in members for word in r.replay.stand_ins})
        if words:
            entry["note"] = "fitted with " + "; ".join(words)
        if kv_tokens:
            entry["kv_tokens"] = kv_tokens
    if all(r.replay.engine.get("pass_time") == "fused" for r in members):
        entry["pass_time"] = "fused"
    entry["measurements"] = estimate.measurements
    return {**entry, "knobs": _shown(estimate.knobs)}


def _kernels(members: Sequence[Response]) -> dict[str, Any]:
    """Returns which other kernels all durations were of; empty if they were the engines' own, or not all the same."""
    first, *others = [dict(r.replay.kernels) for r in members]
    return first if all(kernels == first for kernels in others) else {}


def _factor(key: FactorKey, values: Vector, rows: int, responses: Sequence[Response]) -> dict[str, Any]:
    """Returns what multiplies the knobs of an entry for a release of the engine, or for a model on a number of GPUs."""
    timing = _timing(next(r.replay.engine for r in responses if r.subject.engine == key.engine))
    about = {name: value for name, value in key._asdict().items() if value}
    return {**about, "timing": timing, "measurements": rows, "knobs": engine_arguments(rounded(np.exp(values)))}


def _shown(values: Sequence[float]) -> dict[str, float]:
    """Knobs as engine arguments, without those of next to no effect: engines hide them."""
    return {name: value for name, value in engine_arguments(values).items() if value >= LEAST}


def _model(engine: Mapping[str, Any], measurement: Measurement) -> str:
    return os.path.basename(str(engine.get("aic_model_path", measurement.model)).rstrip("/"))


def _timing(engine: Mapping[str, Any]) -> str:
    if engine.get("aic_backend"):
        return "aic"
    return "interpolated" if engine.get("planner_profile_data") else "polynomial"


def write(profile: Mapping[str, Any], path: str) -> None:
    """Writes a profile whole or not at all. Raises OSError."""
    files.write_whole(path, json.dumps(profile, indent=1) + "\n")
