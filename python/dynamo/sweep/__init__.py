"""Sweeps: which deployment serves this traffic best, and how sure is that?

``run(spec)`` varies what a specification says, replays the workload for each point, and returns a ``Sweep``. The
command line is ``python -m dynamo.sweep``. docs/sweeps.md describes both.
"""

import dynamo._start  # first: Ctrl-C during the other imports prints no traceback

# isort: split
from typing import TYPE_CHECKING, Any

import dynamo._alone  # noqa: F401  # refuses to share an environment with ai-dynamo

if TYPE_CHECKING:
    from dynamo.sweep.advice.api import Recommendation, recommend
    from dynamo.sweep.exports.export import Export, export
    from dynamo.sweep.progress import Progress
    from dynamo.sweep.sweep import Sweep, load, resume, run

__all__ = ["Export", "Progress", "Recommendation", "Sweep", "export", "load", "recommend", "resume", "run"]


def __getattr__(name: str) -> Any:
    """Loads functions and classes at first use: the command line starts here too, and may only ask for help."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Progress":
        from dynamo.sweep.progress import Progress

        return Progress
    if name.lower().startswith("recommend"):
        from dynamo.sweep.advice import api

        return getattr(api, name)
    from dynamo.sweep import sweep
    from dynamo.sweep.exports import export

    return getattr(export if name in ("Export", "export") else sweep, name)
