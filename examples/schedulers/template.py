"""A scheduler policy to begin with. Copy it, change its methods, and try it:

python -m dynamo.replay TRACE --scheduler-policy my_policy.py:ShortestFirst
"""

from __future__ import annotations

from collections.abc import Sequence

from dynamo.replay.schedulers import Engine, Request


class ShortestFirst:
    """Admits the shortest prompt first, but nobody waits longer than ``patience_ms`` for shorter ones."""

    patience_ms = 2000.0

    def next(self, waiting: Sequence[Request], engine: Engine) -> int:
        """Returns the index of the waiting request that is to be admitted next."""
        late = engine.now_ms - self.patience_ms
        return min(range(len(waiting)), key=lambda i: (waiting[i].arrival_ms > late, waiting[i].prompt_tokens))

    def victim(self, running: Sequence[Request], engine: Engine) -> int:
        """Returns the index of the running request that gives up its blocks: the one that loses the least work."""
        return min(range(len(running)), key=lambda i: running[i].computed)
