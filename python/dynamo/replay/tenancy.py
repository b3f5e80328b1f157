"""What each tenant of a trace got, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dynamo.replay import table

TITLE = "Tenants"
_COLUMNS = {
    "requests": "requests",
    "rejected_requests": "rejected",
    "share": "share of tokens",
    "mean_ttft_ms": "mean TTFT (ms)",
    "p99_ttft_ms": "p99 TTFT (ms)",
    "goodput_completed_requests": "goodput",
    "deadline_met_requests": "in time",
}
# Columns that are left out on a narrow terminal, in this order.
_EXPENDABLE = ("rejected_requests", "p99_ttft_ms", "requests")


def format_tenants(
    tenants: Sequence[Mapping[str, Any]], jain: float, *, width: int | None = None, ascii_only: bool = False
) -> str:
    """Returns the tenants of a report as text: a title, a table and the Jain index, without a final newline."""
    known = [key for key in _COLUMNS if key in tenants[0]]
    cells: table.Rows = [
        ["Tenant", *(_COLUMNS[key] for key in known)],
        *([tenant["tenant"] or "(none)", *(_cell(key, tenant) for key in known)] for tenant in tenants),
    ]
    border = table.ASCII if ascii_only else table.BOXES
    if width is not None:
        cells = table.fit(cells, width, [1 + known.index(key) for key in _EXPENDABLE], border)
    return "\n".join([TITLE, table.draw(cells, border), f"Jain Index of Tokens: {jain:.3f}"])


def _cell(key: str, tenant: Mapping[str, Any]) -> str:
    value = tenant[key]
    if value is None:
        return "N/A"
    if key == "deadline_met_requests":
        return f"{value} of {tenant['deadline_requests']}"
    if key == "share":
        return f"{100 * value:.1f}%"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
