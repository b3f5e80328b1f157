"""The file that the engine argument ``calibration`` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from dynamo.calibrate.fit import KEYS, Estimate, Fit
from dynamo.calibrate.knobs import engine_arguments
from dynamo.replay import files
from dynamo.validate.measurement import Measurement, Replay

FORMAT = "dynosim-calibration/1"


def build(fit: Fit, replays: Sequence[Replay], about: Mapping[str, Any], kv_tokens: int = 0) -> dict[str, Any]:
    """A profile with an entry for each estimate.

    Args:
        fit: What was found.
        replays: Those that it was fitted to.
        about: How it was made, for people.
        kv_tokens: Size of the KV pool that was measured; 0 if that is not known.
    """
    entries: list[dict[str, Any]] = []
    for estimate in fit.estimates.values():
        some = _replays_of(estimate, replays)
        entries += [_entry(estimate, of, kv_tokens) for of in _by_model(estimate.level, some)]
    return {"format": FORMAT, "fit": dict(about), "entries": entries}


def _replays_of(estimate: Estimate, replays: Sequence[Replay]) -> list[Replay]:
    """The replays that an estimate is about; for "kin", those of the model on other GPUs."""
    if estimate.level == "kin":
        engine, system, model = estimate.key
        here = [r for r in replays if (r.measurement.engine, r.measurement.group[1]) == (engine, model)]
        return [] if any(r.measurement.system == system for r in here) else here
    return [r for r in replays if KEYS[estimate.level](r.measurement) == estimate.key]


def _by_model(level: str, replays: Sequence[Replay]) -> list[list[Replay]]:
    """Replays that are simulated as one model of the AIC SDK; above the level of models they are not told apart."""
    if level not in ("kin", "model"):
        return [list(replays)]
    groups: dict[object, list[Replay]] = {}
    for replay in replays:
        groups.setdefault(replay.engine.get("aic_model_path"), []).append(replay)
    return list(groups.values())


def _entry(estimate: Estimate, replays: Sequence[Replay], kv_tokens: int) -> dict[str, Any]:
    engine, m = replays[0].engine, replays[0].measurement
    entry: dict[str, Any] = {
        "level": estimate.level,
        "engine": str(engine.get("engine_type", "vllm")),
        "timing": _timing(engine),
        "scheduler": str(engine.get("scheduler", "dynamo")),
    }
    if estimate.level != "engine":
        entry["system"] = estimate.key[1]
    if estimate.level == "kin":
        entry["model"] = _model(engine, m)
        entry["note"] = "the model was measured on other GPUs only"
    if estimate.level == "model":
        entry["model"] = _model(engine, m)
        entry["precision"] = m.precision or ("bf16" if m.model else "")
        words = sorted({word for r in replays for word in r.stand_ins})
        if words:
            entry["note"] = "fitted with " + "; ".join(words)
        if kv_tokens:
            entry["kv_tokens"] = kv_tokens
    entry["measurements"] = len(replays)
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
