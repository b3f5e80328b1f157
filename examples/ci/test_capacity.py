"""Promises of a deployment, checked on a recorded trace: `python -m pytest examples/ci/test_capacity.py`."""

import pytest

TRACE = "../traces/conversation_400.jsonl.gz"  # beside this file, or as seen from the working directory
pytestmark = pytest.mark.dynosim(workers=4, router_mode="kv_router")  # arguments of all replays here


def test_first_tokens_come_in_time(dynosim):
    dynosim.replay(TRACE).expect(p99_ttft_ms="<= 3 s", goodput=">= 95 %")


@pytest.mark.parametrize("speedup", [1, 2])
def test_rush_hour(dynosim, speedup):
    run = dynosim.replay(TRACE, arrival_speedup_ratio=speedup, sla_ttft_ms=4000, sla_tpot_ms=60)
    run.expect(goodput=">= 75 %", output_throughput_tok_s=">= 900")


def test_nothing_has_moved(dynosim):
    """Compares with test_capacity.dynosim.json, which `pytest --dynosim-update` writes and people review."""
    dynosim.replay(TRACE).baseline(p99_ttft_ms="2 %", mean_tpot_ms="2 %", prefix_cache_reused_ratio="1 %")
