"""DYN_MOCKER_KV_CACHE_TRACE: a line for each batch of blocks that enters or leaves a cache."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, write_trace

FOUR = [(1000 * i, 16, 2, ids) for i, ids in enumerate(([1, 2], [3, 4], [5, 6], [1, 2]))]
TWO = [(0, 16, 12, [1, 2]), (0, 16, 12, [1, 3])]
THREE = [(0, 16, 4, [1, 2]), (1000, 16, 4, [1, 3]), (2000, 20, 6, [1, 2, 4])]

# What the reference logs: rows, arguments, event(free, active, inactive).
LINES = [
    (THREE, {"num_gpu_blocks": 6}, "A(4,2,0) A(3,2,1) A(2,3,1)"),
    (FOUR, {"num_gpu_blocks": 4}, "A(2,2,0) A(0,2,2) E(0,3,1) A(0,2,2) E(0,2,2) E(0,3,1) A(0,2,2) E(0,2,2) E(0,3,1)"),
    (FOUR, {"num_gpu_blocks": 5}, "A(3,2,0) A(1,2,2) A(0,2,3) E(0,2,3) E(0,3,2) A(0,2,3) E(0,2,3) E(0,3,2)"),
    (FOUR, {"num_gpu_blocks": 6}, "A(4,2,0) A(2,2,2) A(0,2,4) E(0,3,3) A(0,2,4) E(0,3,3)"),
    (FOUR, {"num_gpu_blocks": 7}, "A(5,2,0) A(3,2,2) A(1,2,4)"),
    (
        FOUR,
        {"num_gpu_blocks": 6, "enable_prefix_caching": False},
        "A(4,2,0) A(2,2,2) A(0,2,4) E(0,3,3) A(0,2,4) E(0,2,4) E(0,3,3)",
    ),
    (TWO, {"num_gpu_blocks": 5}, "A(3,2,0) A(2,3,0) A(0,5,0) A(0,3,2) E(0,4,1)"),
    (TWO, {"num_gpu_blocks": 6}, "A(4,2,0) A(3,3,0) A(1,5,0) A(0,6,0)"),
    (TWO, {"num_gpu_blocks": 7}, "A(5,2,0) A(4,3,0) A(2,5,0) A(1,6,0)"),
    ([(0, 32, 2, [1, 2, 3, 4])] * 2, {"num_gpu_blocks": 20}, "A(16,4,0)"),
    ([(0, 32, 2, [1, 2, 3, 4])] * 2, {"num_gpu_blocks": 20, "max_num_batched_tokens": 16}, "A(18,2,0) A(16,4,0)"),
    ([(0, 16, 8, [1, 2])], {"num_gpu_blocks": 3}, "A(1,2,0)"),
]


@pytest.mark.parametrize(("rows", "arguments", "lines"), LINES)
def test_lines(folder: Path, cli: Cli, rows: list[Any], arguments: dict[str, Any], lines: str) -> None:
    trace = write_trace(
        folder / "t.jsonl",
        [{"timestamp": t, "input_length": i, "output_length": o, "hash_ids": ids} for t, i, o, ids in rows],
    )
    options = ["--trace-block-size", "8", "--extra-engine-args", json.dumps({"block_size": 8, **arguments})]
    done = cli(trace, *options, env={**os.environ, "DYN_MOCKER_KV_CACHE_TRACE": "True"})
    assert done.returncode == 0
    found = re.findall(
        r"KV cache trace.* event=(\w+).* free_blocks=(\d+) active_blocks=(\d+) inactive_blocks=(\d+)", done.stderr
    )
    shown = {"allocation": "A", "eviction": "E"}
    assert " ".join(f"{shown[event]}({free},{active},{inactive})" for event, free, active, inactive in found) == lines


def test_sglang_has_no_lines(folder: Path, cli: Cli) -> None:
    """One warning says so."""
    options = ["--extra-engine-args", '{"engine_type": "sglang"}', "--input-tokens", "10", "--output-tokens", "2"]
    done = cli(*options, "--request-count", "1", env={**os.environ, "DYN_MOCKER_KV_CACHE_TRACE": "1"})
    assert done.returncode == 0
    assert done.stderr.count("DYN_MOCKER_KV_CACHE_TRACE has no effect with engine_type sglang") == 1
    assert "KV cache trace" not in done.stderr
