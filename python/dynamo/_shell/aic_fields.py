"""The types of the description of GPUs for a router.

Code generated from gocore/aic/config.go by go generate ./gocore/aic. DO NOT EDIT.
"""

from __future__ import annotations

import os
from typing import TypedDict


class AicFields(TypedDict, total=False):
    """The keywords of AicPerfConfig and their types, also for a dict in its place: see help(AicPerfConfig)."""

    aic_backend: str
    aic_system: str
    aic_model_path: str | os.PathLike[str]
    aic_tp_size: int | None
    aic_backend_version: str | None
    aic_moe_tp_size: int | None
    aic_moe_ep_size: int | None
    aic_attention_dp_size: int | None
    aic_nextn: int | None
    aic_nextn_accept_rates: str | None
    aic_gemm_dtype: str | None
    aic_moe_dtype: str | None
    aic_fmha_dtype: str | None
    aic_kv_cache_dtype: str | None
    aic_comm_dtype: str | None
