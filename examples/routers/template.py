"""A router to begin with. Copy it, change choose, and try it:

python -m dynamo.replay TRACE --num-workers 4 --router my_router.py:MyRouter --router-config '{"most": 12}'
"""

from __future__ import annotations

from dynamo.replay.routers import Request, Workers


class MyRouter:
    """Sends a request where most of its prompt is cached, among workers that have less than ``most`` requests."""

    def __init__(self, most: int = 16) -> None:
        self.most = most

    def choose(self, request: Request, workers: Workers) -> int | None:
        """Returns the index of a worker; None keeps the request waiting until something has changed."""
        free = [i for i in range(len(workers)) if workers.queue[i] < self.most]
        return min(free, key=lambda i: (-workers.cached[i], workers.tokens[i])) if free else None
