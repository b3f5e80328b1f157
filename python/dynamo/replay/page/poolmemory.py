"""How the memory of a GPU is divided where a KV pool is estimated as the engine does: a section of a run's page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PARTS = {
    "weights": "weights",
    "activations": "activations",
    "graphs": "CUDA graphs",
    "other": "libraries",
    "kv_cache": "KV cache",
}
_POOLS = {"prefill_engine_args": "Prefill workers: ", "decode_engine_args": "Decode workers: "}
_GIB = 1 << 30


def section(report: Mapping[str, Any]) -> str:
    """Returns a table of the parts for each pool, nothing if no pool was estimated so."""
    found = report.get("provenance", {}).get("kv_pool_memory", {})
    if not found:
        return ""
    tables = "\n".join(_table(_POOLS.get(name, ""), parts) for name, parts in found.items())
    return (
        '<section aria-labelledby="memory-title">\n<h2 id="memory-title">KV pool</h2>\n'
        '<p class="hint">Estimated as the engine does: what the other parts leave of the memory of a GPU that it may '
        f"use; docs/kv_pools.md says how.</p>\n{tables}\n</section>"
    )


def _table(pool: str, parts: Mapping[str, Any]) -> str:
    usable = parts["usable"]
    rows = "".join(
        f"<tr><td class=text>{words}</td><td>{parts[name] / _GIB:,.1f}</td><td>{100 * parts[name] / usable:.0f}</td>"
        f"<td><meter max=1 value={parts[name] / usable:.3f}></meter></td></tr>\n"
        for name, words in _PARTS.items()
    )
    heads = "".join(
        f"<th scope=col class={'number' if at else 'text'}>{words}</th>"
        for at, words in enumerate(("of each GPU", "GiB", "%"))
    )
    return (
        f"<p>{pool}{parts['tokens']:,} tokens, of {parts['bytes_per_token']:,} bytes on each GPU; "
        f"{usable / _GIB:,.1f} GiB of it may be used.</p>\n"
        f'<div class="scroll" tabindex="0"><table class="memory"><thead><tr>{heads}<th scope=col>share</th></tr>'
        f"</thead><tbody>{rows}</tbody></table></div>"
    )
