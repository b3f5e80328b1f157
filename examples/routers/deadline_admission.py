"""A request that would miss its deadline is rejected at once, so that others keep theirs.

The time until a first token is guessed from what the worker has to compute before it, at ``tokens_per_ms``.
"""

from __future__ import annotations

from dynamo.replay.routers import REJECT, Request, Workers


class DeadlineAdmission:
    def __init__(self, tokens_per_ms: float = 10.0, spare: float = 1.0) -> None:
        self.tokens_per_ms, self.spare = tokens_per_ms, spare

    def choose(self, request: Request, workers: Workers) -> object:
        ahead = [int(workers.tokens[i] - workers.cached[i] * workers.block_size) for i in range(len(workers))]
        best = min(range(len(workers)), key=ahead.__getitem__)
        first_token_ms = workers.now_ms + self.spare * (ahead[best] + request.prompt_tokens) / self.tokens_per_ms
        return REJECT if first_token_ms > request.deadline_ms else best
