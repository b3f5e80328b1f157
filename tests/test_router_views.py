"""What routers see of the workers: late events, polled loads, several routers; and what exact knowledge would save."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynamo.replay import run_trace_replay

TRACE = Path(__file__).parents[1] / "examples" / "traces" / "conversation_400.jsonl.gz"
VIEW = {"metrics_interval_ms": 5000, "router_replicas": 3}

Cli = Callable[..., Any]


def replayed(**more: Any) -> Any:
    return run_trace_replay(TRACE, num_workers=4, arrival_speedup_ratio=3, **more)


@pytest.mark.parametrize("mode", ["kv_router", "least_requests", "endpoint_picker", "vllm_cache_aware"])
def test_explain_says_what_exact_knowledge_would_have_saved(mode: str, cli: Cli, tmp_path: Path) -> None:
    where = tmp_path / "report.json"
    common = ["--num-workers", "4", "--arrival-speedup-ratio", "3", "--router-mode", mode, "--report-json", where]
    done = cli(TRACE, *common, "--router-config", json.dumps(VIEW), "--explain")
    assert done.returncode == 0, done.stderr
    assert "The Router's View Against an Exact One: " in done.stdout
    report, exact = json.loads(where.read_text()), replayed(router_mode=mode)
    assert report["with_exact_view"]["mean_ttft_ms"] == exact["mean_ttft_ms"]
    assert report["mean_ttft_ms"] > exact["mean_ttft_ms"]
    done = cli(TRACE, *common, "--explain")
    assert done.returncode == 0, done.stderr
    assert "Against an Exact One" not in done.stdout


def test_late_events(cli: Cli, tmp_path: Path) -> None:
    where = tmp_path / "report.json"
    common = ["--num-workers", "4", "--router-mode", "kv_router", "--report-json", where, "--explain"]
    done = cli(TRACE, *common, "--kv-event-lag-ms", "3600000")
    assert done.returncode == 0, done.stderr
    report = json.loads(where.read_text())
    assert report["with_exact_view"]["prefix_cache_reused_ratio"] > report["prefix_cache_reused_ratio"]


@pytest.mark.parametrize("part", [{"metrics_interval_ms": 1000}, {"router_replicas": 4}])
def test_each_part_of_the_view_counts(part: dict[str, Any]) -> None:
    exact = replayed(router_mode="kv_router")["mean_ttft_ms"]
    assert replayed(router_mode="kv_router", router_config=part)["mean_ttft_ms"] != exact
    assert replayed(router_mode="kv_router", router_config={"router_replicas": 1})["mean_ttft_ms"] == exact


class Idle:
    """Goes by the queues of the last poll."""

    metrics_interval_ms = 1000.0

    def __init__(self) -> None:
        self.seen: list[tuple[float, list[int]]] = []

    def choose(self, request: Any, workers: Any) -> int:
        self.seen.append((workers.now_ms, list(workers.queue)))
        return min(range(len(workers)), key=lambda w: workers.queue[w])


def test_a_router_in_python_may_poll() -> None:
    router = Idle()
    replayed(router=router)
    periods: dict[int, set[tuple[int, ...]]] = {}
    for now_ms, queue in router.seen:
        periods.setdefault(int(now_ms // 1000), set()).add(tuple(queue))
    assert len(periods) > 10
    assert all(len(seen) == 1 for seen in periods.values())
    assert len(set.union(*periods.values())) > 5


def test_refused(cli: Cli) -> None:
    done = cli(TRACE, "--num-workers", "4", "--router-mode", "kv_router", "--router-config", '{"router_replicas": 0}')
    assert done.returncode == 2
    assert "router_replicas: got 0, want an integer from 1 to 4096" in done.stderr

    class Wrong(Idle):
        metrics_interval_ms = -1.0

    with pytest.raises(ValueError, match=r"router: metrics_interval_ms: got -1\.0, want a number above 0"):
        replayed(router=Wrong())
