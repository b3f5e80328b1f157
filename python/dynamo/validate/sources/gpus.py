"""Names of GPUs: what sources write, and what the AIC SDK calls them."""

from __future__ import annotations

import re

# In this order: what comes first is more special.
_SYSTEMS = (
    (r"rtx.?pro.?6000", "rtx_pro_6000_server"),
    (r"gb300", "gb300"),
    (r"gb200", "gb200"),
    (r"b300", "b300_sxm"),
    (r"b200", "b200_sxm"),
    (r"h200", "h200_sxm"),
    (r"h100.*pcie", "h100_pcie"),
    (r"h100", "h100_sxm"),
    (r"a100.*pcie", "a100_pcie"),
    (r"a100", "a100_sxm"),
    (r"a30$", "a30"),
    (r"l40s", "l40s"),
    (r"\bl4\b", "l4"),
    (r"rtx.?4090", "rtx_4090"),
)


def aic_system(name: str) -> str:
    """Returns the AIC SDK's spelling of a GPU's name, or the name itself in lower case if it has none."""
    plain = name.lower()
    return next((system for pattern, system in _SYSTEMS if re.search(pattern, plain)), plain)
