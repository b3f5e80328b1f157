"""Names of the two latencies between tokens, and what they mean: the same on tables, on pages and in sweeps.

``tpot`` is one number of each request, the mean gap between its tokens. AIPerf calls it inter-token latency, and rows
have it as ``itl_ms``. ``token_gap`` is every single gap; reports have its statistics under ``itl_ms``.
"""

from __future__ import annotations

from collections.abc import Mapping

TPOT, TOKEN_GAP = "Time per Output Token (ms)", "Token Gap (ms)"
MEANINGS: Mapping[str, str] = {
    TPOT: "One number of each request: the mean gap between its tokens, (last - first) / (tokens - 1)."
    " AIPerf calls it inter-token latency.",
    TOKEN_GAP: "Every single gap between two tokens of a request, so that a long stall shows. AIPerf does not have it.",
}
_RECORDED, _NAMED = "_itl_ms", "_token_gap_ms"


def recorded(name: str) -> str:
    """Returns the key of a report for a statistic: ``p99_itl_ms`` for ``p99_token_gap_ms``."""
    return name.removesuffix(_NAMED) + _RECORDED if name.endswith(_NAMED) else name


def shown(name: str) -> str:
    """Returns the name of a statistic as people read it: ``p99_token_gap_ms`` for ``p99_itl_ms``."""
    return name.removesuffix(_RECORDED) + _NAMED if name.endswith(_RECORDED) and not name.startswith("sla_") else name


def meaning(name: str) -> str:
    """Returns what a statistic is over if it is of one of the two, else ``""``."""
    if name.endswith((_RECORDED, _NAMED)):
        return MEANINGS[TOKEN_GAP]
    return MEANINGS[TPOT] if name.endswith("_tpot_ms") else ""
