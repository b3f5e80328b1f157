"""Fixed times with a deviation: prompts of a pass take 40 ms and a decode step 8 ms, each normally distributed.

python -m dynamo.replay TRACE --timing-model examples/timing/jitter.py:Jitter
"""

from __future__ import annotations

import random

from dynamo.replay.timings import Batch


class Jitter:
    """Draws each part of a pass anew, from a seed, so that equal runs are equal."""

    def __init__(self, prompt_ms: float = 40.0, step_ms: float = 8.0, deviation: float = 0.2, seed: int = 0) -> None:
        self.means = (prompt_ms, step_ms)
        self.deviation = deviation
        self.draw = random.Random(seed)

    def __call__(self, batch: Batch) -> list[float]:
        """Milliseconds of each part, never less than a tenth of the mean."""
        means = [self.means[part] for part in batch.decode]
        return [max(mean / 10, self.draw.gauss(mean, self.deviation * mean)) for mean in means]
