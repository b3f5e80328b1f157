"""Writes the two generated traces of this folder, always the same ones: python examples/traces/make.py [FOLDER]

agentic_240: 240 sessions of 4 to 16 calls. A prompt is the whole session so far, after one of 12 system prompts; what a
tool returns is appended, and takes 0.5 to 8 s. shared_prefix_3200: 3,200 requests with one of 48 system prompts, of
which some are much more frequent than others, and a question of their own.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

BLOCK = 512
Row = dict[str, Any]


def agentic(draw: random.Random) -> Iterator[Row]:
    fresh = count(1)
    systems = [[next(fresh) for _ in range(draw.randint(4, 12))] for _ in range(12)]
    start_ms = 0.0
    for session in range(240):
        start_ms += draw.expovariate(1 / 1000)
        blocks = list(systems[min(int(draw.expovariate(0.4)), 11)])
        for call in range(draw.randint(4, 16)):
            blocks += [next(fresh) for _ in range(draw.randint(1, 5))]
            output = draw.randint(20, 400)
            row: Row = {"session_id": f"agent-{session}"}
            row |= {"delay": float(draw.randint(500, 8000))} if call else {"timestamp": round(start_ms, 1)}
            yield row | {"input_length": BLOCK * len(blocks), "output_length": output, "hash_ids": list(blocks)}


def shared_prefix(draw: random.Random) -> Iterator[Row]:
    fresh = count(1)
    systems = [[next(fresh) for _ in range(draw.randint(2, 16))] for _ in range(48)]
    weights = [1 / (1 + rank) for rank in range(len(systems))]
    now_ms = 0.0
    for _ in range(3200):
        now_ms += draw.expovariate(1 / 45)
        blocks = draw.choices(systems, weights)[0] + [next(fresh) for _ in range(draw.randint(1, 4))]
        tokens = BLOCK * len(blocks) - draw.randrange(BLOCK)
        yield {
            "timestamp": round(now_ms, 1),
            "input_length": tokens,
            "output_length": draw.randint(20, 400),
            "hash_ids": blocks,
        }


def write(folder: Path) -> None:
    for name, rows in (("agentic_240", agentic), ("shared_prefix_3200", shared_prefix)):
        text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows(random.Random(name)))
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
