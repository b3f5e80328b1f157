"""The control: what AIC predicts for a measurement without any simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from dynamo._core import aic
from dynamo.validate.measurement import ClosedLoop, Replay, longest


class Static(NamedTuple):
    """The time of one prompt alone, and of one decode step of all clients in the middle of their answers, in ms."""

    ttft_ms: float
    tpot_ms: float


def static_prediction(replay: Replay) -> Static | None:
    """Returns AIC's prediction for a closed loop that this process has replayed; None for others, splits and timing
    models.
    """
    load = replay.workload
    if not isinstance(load, ClosedLoop) or replay.split is not None:
        return None
    session = session_of(replay.engine)
    if session is None:
        return None
    ranks = int(replay.engine.get("aic_attention_dp_size", 1))
    running = min(load.clients, int(replay.engine.get("max_num_seqs", load.clients)))
    isl, osl = longest(load.isl), longest(load.osl)
    with aic.asking():
        predictor = session.predictor
        try:
            return Static(
                predictor.prefill(1, isl, 0),
                predictor.decode(math.ceil(running / ranks), isl + osl // 2),
            )
        except Exception:  # the SDK's errors have no common base
            return None


def session_of(engine: Mapping[str, Any]) -> aic.Session | None:
    """Returns the AIC session that a run with these engine arguments has opened in this process, None without one."""
    asked = {name.removeprefix("aic_"): value for name, value in engine.items() if name.startswith("aic_")}
    if "model_path" not in asked:
        return None
    asked["model"] = asked.pop("model_path")
    return aic.opened(asked)
