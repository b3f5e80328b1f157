"""What differs between two runs: figures, where latencies come from, single requests, routing decisions.

``python -m dynamo.replay.diff A B`` prints it, ``compare(a, b)`` returns it. docs/why.md has examples.
"""

from dynamo.replay.diff.comparison import Comparison, compare
from dynamo.replay.diff.conditions import Condition, parse_condition

__all__ = ["Comparison", "Condition", "compare", "parse_condition"]
