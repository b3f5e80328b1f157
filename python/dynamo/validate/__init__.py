"""Compares simulations with measurements of real engines: ``python -m dynamo.validate``.

A file of measurements is read by ``sources`` into ``Measurement`` records; ``mapping`` turns each into a ``Replay``,
the run that does the same in simulation, or a ``Refusal`` that says why there is none; ``simulate`` carries it out;
``scores`` sums up the errors.
"""

import dynamo._start  # first: Ctrl-C during the other imports prints no traceback

# isort: split
import dynamo._alone  # noqa: F401  # refuses to share an environment with ai-dynamo
