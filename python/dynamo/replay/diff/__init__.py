"""What differs between two runs: figures, where latencies come from, single requests, routing decisions.

``python -m dynamo.replay.diff A B`` prints it, ``compare(a, b)`` returns it. docs/why.md has examples.
"""

from typing import TYPE_CHECKING, Any

from dynamo.replay.diff.conditions import Condition, parse_condition

if TYPE_CHECKING:
    from dynamo.replay.diff.comparison import Comparison, compare

__all__ = ["Comparison", "Condition", "compare", "parse_condition"]


def __getattr__(name: str) -> Any:
    """Loads the comparison, and NumPy with it, at first use: the command line reads its options before."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dynamo.replay.diff import comparison

    return getattr(comparison, name)
