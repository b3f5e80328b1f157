"""A tenant has workers of its own, where its prefixes stay cached; what overflows goes to the emptiest worker.

Requests without a tenant are pinned by their session, those without either go to the emptiest worker.
"""

from __future__ import annotations

import zlib

from dynamo.replay.routers import Request, Workers


class PinTenants:
    def __init__(self, workers_each: int = 1, most: int = 16) -> None:
        self.workers_each, self.most = workers_each, most

    def choose(self, request: Request, workers: Workers) -> int:
        everyone = range(len(workers))
        key = request.tenant or request.session
        if key:
            first = zlib.crc32(key.encode())  # hash() differs between processes
            home = [(first + k) % len(workers) for k in range(min(self.workers_each, len(workers)))]
            best = min(home, key=lambda i: workers.queue[i])
            if workers.queue[best] < self.most:
                return best
        return min(everyone, key=lambda i: workers.queue[i])
