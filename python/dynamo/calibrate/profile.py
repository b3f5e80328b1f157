"""The file that the engine argument ``calibration`` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from dynamo import _core
from dynamo.calibrate.fit import LEVELS, Estimate, Fit
from dynamo.calibrate.knobs import engine_arguments
from dynamo.calibrate.response import Response
from dynamo.replay import files
from dynamo.validate.measurement import Measurement, Replay

FORMAT = "dynosim-calibration/1"


def build(fit: Fit, responses: Sequence[Response], about: Mapping[str, Any], kv_tokens: int = 0) -> dict[str, Any]:
    """A profile with an entry for each estimate, in their order.

    Args:
        fit: What was found.
        responses: Those that it was fitted to.
        about: How it was made, for people.
        kv_tokens: Size of the KV pool that was measured; 0 if that is not known.
    """
    entries = [_entry(estimate, _members(estimate, responses), kv_tokens) for estimate in fit.estimates.values()]
    return {"format": FORMAT, "fit": dict(about), "entries": entries}


def chosen(fit: Fit, responses: Sequence[Response], replays: Sequence[Replay]) -> list[Estimate | None]:
    """The estimates that the engines of replays read from the profile of a fit; None where nothing in it is for one.

    The choice is that of engines (gocore/calibration/select.go), so that scores are of what users get.
    """
    estimates = list(fit.estimates.values())
    views = _core.calibrations([r.engine for r in replays], json.dumps(build(fit, responses, {})))
    return [estimates[view["entry"]] if view["entry"] >= 0 else None for view in views]


def _members(estimate: Estimate, responses: Sequence[Response]) -> list[Response]:
    """The responses that an estimate is about; for "kin", those of the model on all GPUs."""
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
    entry["measurements"] = estimate.measurements
    return {**entry, "knobs": engine_arguments(estimate.knobs)}


def _model(engine: Mapping[str, Any], measurement: Measurement) -> str:
    return os.path.basename(str(engine.get("aic_model_path", measurement.model)).rstrip("/"))


def _timing(engine: Mapping[str, Any]) -> str:
    if engine.get("aic_backend"):
        return "aic"
    return "interpolated" if engine.get("planner_profile_data") else "polynomial"


def write(profile: Mapping[str, Any], path: str) -> None:
    """Writes a profile whole or not at all. Raises OSError."""
    files.write_whole(path, json.dumps(profile, indent=1) + "\n")
