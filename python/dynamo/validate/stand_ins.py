"""Where the AIC SDK has no data for what was measured, or wrong data, and what takes their place.

Every replay lists what stands in for what; a measurement without an entry here uses the SDK's data for its own GPU, engine
and data types.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dynamo.validate.measurement import Measurement

_BLACKWELL = ("b200_sxm", "b300_sxm")


class StandIn(NamedTuple):
    """Engine arguments that replace those of a measurement, and what is replaced, in words."""

    words: str
    engine: dict[str, Any]


def stand_in(row: Measurement) -> StandIn | None:
    """What stands in for the data of a row of the silicon table, or None."""
    if "MiniMax" in row.model and row.precision == "fp8" and row.system in _BLACKWELL:
        # The SDK's block-wise FP8 on Blackwell takes 2.4 times as long as what was measured, and B300 has no plain FP8.
        return StandIn(
            f"MiniMax FP8 on {row.system}: plain FP8 kernels of b200_sxm for block-wise ones",
            {"aic_system": "b200_sxm", "aic_gemm_dtype": "fp8", "aic_moe_dtype": "fp8"},
        )
    return None
