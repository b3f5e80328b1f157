"""Fits physical constants of a simulated engine to measurements of real ones: ``python -m dynamo.calibrate``.

Measurements are those of ``dynamo.validate``. ``trials`` replays each of them with a few values of the knobs;
``response`` makes a formula of that, which says what any values would come to; ``fit`` finds the values that agree
best, for each engine, then for each GPU, then for each model; ``folds`` says how well that predicts configurations
that it has not seen; ``profile`` writes the file that the engine argument ``calibration`` reads.
"""

import dynamo._start  # first: Ctrl-C during the other imports prints no traceback

# isort: split
import dynamo._alone  # noqa: F401  # refuses to share an environment with ai-dynamo
