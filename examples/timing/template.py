"""A timing model to begin with. Copy it, change the figures, and try it:

python -m dynamo.replay TRACE --timing-model my_timing.py:roofline
"""

from __future__ import annotations

from dynamo.replay.timings import Batch

WEIGHTS, KV_BYTES, BANDWIDTH = 16e9, 131_072, 3.35e12  # bytes, of a token, in a second
FLOPS, PEAK = 16e9, 0.6 * 989e12  # of a token, in a second
LAUNCH_MS = 0.4


def roofline(batch: Batch) -> list[float]:
    """Milliseconds of each part: it reads weights and KV, or computes, whichever takes longer."""
    durations = []
    for requests, tokens, context in zip(batch.requests, batch.tokens, batch.context, strict=True):
        read = (WEIGHTS + KV_BYTES * requests * (context + tokens)) / BANDWIDTH
        durations.append(LAUNCH_MS + 1000 * max(read, FLOPS * requests * tokens / PEAK))
    return durations


roofline.pure = True  # type: ignore[attr-defined]  # equal parts take equal times: each is asked for once
