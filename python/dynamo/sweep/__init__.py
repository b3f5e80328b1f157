"""Sweeps: which deployment serves this traffic best, and how sure is that?

``run(spec)`` varies what a specification says, replays the workload for each point, and returns a ``Sweep``. The
command line is ``python -m dynamo.sweep``. docs/sweeps.md describes both.
"""

from dynamo.sweep.progress import Progress
from dynamo.sweep.sweep import Sweep, load, resume, run

__all__ = ["Progress", "Sweep", "load", "resume", "run"]
