"""The request that can wait least goes first, to the worker with the fewest prompt tokens to compute.

A worker gets a request only while it has less than ``most`` tokens to compute: the others wait in the router, where a
later request that is more urgent can still overtake them.
"""

from __future__ import annotations

from dynamo.replay.routers import Request, Workers


class LeastSlack:
    in_order = True  # no request overtakes the most urgent one

    def __init__(self, most: int = 8192, tokens_per_ms: float = 10.0) -> None:
        self.most, self.tokens_per_ms = most, tokens_per_ms

    def order(self, request: Request) -> float:
        """The last moment to begin with the prompt."""
        return request.deadline_ms - request.prompt_tokens / self.tokens_per_ms

    def choose(self, request: Request, workers: Workers) -> int | None:
        best = min(range(len(workers)), key=lambda i: workers.tokens[i])
        return best if workers.tokens[best] < self.most else None
