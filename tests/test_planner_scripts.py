"""Random planners in the loop of random engines and workloads: what has to hold without a reference.

``make planner-scripts REFERENCE=PYTHON`` compares such runs with ai-dynamo 1.3.1.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import planner_scripts
import pytest

SEEDS = range(40)
POOLS = ("prefill", "decode")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("seed", SEEDS)
def test_what_planners_are_told(seed: int, tmp_path: Path) -> None:
    drawn = planner_scripts.case(seed)
    report, planner = planner_scripts.observe(drawn, tmp_path)
    count = len(drawn["trace_rows"])
    assert report["num_requests"] == count
    assert report["completed_requests"] + report["rejected_requests"] == count
    check_times(drawn, planner)
    check_workers(drawn, planner, report)
    check_passes(drawn, planner.ticks)
    assert sum(tick["traffic"]["num_req"] for tick in planner.ticks) <= report["completed_requests"]

    again, other = planner_scripts.observe(drawn, tmp_path)
    assert (other.ticks, other.decisions) == (planner.ticks, planner.decisions)
    assert steady(again) == steady(report)


def steady(report: Any) -> dict[str, Any]:
    """A report without what the wall clock says."""
    return {name: value for name, value in report.items() if "wall" not in name and "processed" not in name}


def numbers_of(report: Any) -> dict[str, float]:
    """The figures of a report."""
    return {name: value for name, value in steady(report).items() if not isinstance(value, (str, list, dict))}


def check_times(drawn: dict[str, Any], planner: Any) -> None:
    """Ticks come when they were asked for."""
    asked = [drawn["planner"]["initial_tick_ms"], *(decision["next_tick_ms"] for decision in planner.decisions)]
    assert [tick["now_ms"] for tick in planner.ticks] == asked[: len(planner.ticks)]
    assert asked == sorted(set(asked))


def check_workers(drawn: dict[str, Any], planner: Any, report: Any) -> None:
    """Between two ticks the number of workers becomes the target, at once or when they have started."""
    for pool in POOLS:
        engine = drawn["engines"].get(pool)
        target = drawn["workers"].get(pool, 0)
        for tick, decision in zip(planner.ticks, planner.decisions, strict=True):
            active, total = tick[f"active_{pool}_count"], tick[f"total_{pool}_count"]
            assert 0 <= active <= total, (pool, tick["now_ms"])
            assert total >= target, (pool, tick["now_ms"])
            assert active == target if engine is None or "startup_time" not in engine else active <= target
            if decision[f"target_{pool}"] is not None:
                target = decision[f"target_{pool}"]
    changes = report["scaling_events"]
    for pool in {event["pool"] for event in changes}:
        numbers = [(event["from"], event["to"]) for event in changes if event["pool"] == pool]
        assert all(before != after for before, after in numbers)
        assert all(first[1] == second[0] for first, second in itertools.pairwise(numbers))


def check_passes(drawn: dict[str, Any], ticks: list[dict[str, Any]]) -> None:
    """Passes hold no more than there is: requests of the trace, tokens of the pool."""
    rows = drawn["trace_rows"]
    prompts = sum(row["input_length"] for row in rows)
    everything = prompts + sum(row["output_length"] for row in rows)
    longest = max(row["input_length"] for row in rows)
    for tick in ticks:
        arrived = sum(row["timestamp"] - rows[0]["timestamp"] <= tick["now_ms"] for row in rows)
        for pool in POOLS:
            for row in tick[f"{pool}_fpm_snapshots"]:
                assert all(value >= 0 and math.isfinite(value) for value in row.values()), row
                held = ("num_prefill_requests", "num_decode_requests", "num_queued_prefill", "num_queued_decode")
                assert all(row[name] <= arrived for name in held), row
                for waits, tokens, most in (
                    ("num_queued_prefill", "sum_queued_prefill_tokens", prompts),
                    ("num_queued_decode", "sum_queued_decode_kv_tokens", everything),
                    ("num_decode_requests", "sum_decode_kv_tokens", everything),
                ):
                    assert (row[waits] > 0) >= (row[tokens] > 0), row
                    assert row[waits] <= row[tokens] <= most, row
                assert row["var_prefill_length"] <= longest**2 / 4, row


@pytest.mark.parametrize("seed", range(0, 40, 5))
def test_a_planner_that_only_looks_changes_nothing(seed: int, tmp_path: Path) -> None:
    """Neither its ticks nor what is kept for it change when tokens come."""
    drawn = planner_scripts.case(seed)
    watching = {**drawn, "planner": {**drawn["planner"], "rules": []}}
    watched, planner = planner_scripts.observe(watching, tmp_path)
    never, _ = planner_scripts.observe({**drawn, "planner": {"times": [], "rules": []}}, tmp_path)
    assert planner.ticks
    seen, unseen = (numbers_of(run) for run in (watched, never))
    assert seen == pytest.approx(unseen, rel=1e-12, nan_ok=True)  # worker seconds are added up from tick to tick


def test_cases_reach_what_they_are_for(tmp_path: Path) -> None:
    """Among them are requests that wait again for a place in a decode pool, starting and draining workers."""
    reached = {"queued decode": 0, "starting": 0, "draining": 0, "two pools": 0, "sglang": 0}
    for seed in SEEDS:
        drawn = planner_scripts.case(seed)
        _, planner = planner_scripts.observe(drawn, tmp_path)
        reached["two pools"] += len(drawn["engines"]) == 2
        reached["sglang"] += drawn["engines"]["decode"]["engine_type"] == "sglang"
        passes = [row for tick in planner.ticks for row in tick["decode_fpm_snapshots"]]
        reached["queued decode"] += any(row["num_queued_decode"] for row in passes)
        targets = [drawn["workers"]["decode"], *(found["target_decode"] for found in planner.decisions)]
        for tick, target in zip(planner.ticks, targets, strict=False):
            reached["starting"] += target is not None and tick["active_decode_count"] < target
            reached["draining"] += tick["total_decode_count"] > max(tick["active_decode_count"], target or 0)
    assert min(reached.values()) >= 3, reached
