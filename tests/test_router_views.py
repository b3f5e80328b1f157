"""What routers see of the workers: late events, polled loads, several routers; and what exact knowledge would save."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

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


class Several(Idle):
    """Three routers, each of which counts its own requests and what it has decided."""

    metrics_interval_ms: float | None = None  # type: ignore[assignment]  # a router may say None
    router_replicas = 3
    every: ClassVar[list[list[int]]] = []

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[int] | None = None

    def choose(self, request: Any, workers: Any) -> int:
        if self.ids is None:
            self.ids = []
            self.every.append(self.ids)
        assert sum(workers.queue) <= len(self.ids)
        self.ids.append(request.id)
        return super().choose(request, workers)


def test_a_router_in_python_may_have_replicas() -> None:
    Several.every.clear()
    report = replayed(router=Several())
    assert len(Several.every) == 3
    assert sorted(itertools.chain(*Several.every)) == list(range(report["completed_requests"]))
    assert max(map(len, Several.every)) - min(map(len, Several.every)) <= 1
    own = replayed(router_mode="least_requests", router_config={"router_replicas": 3})
    one = replayed(router_mode="least_requests")
    assert report["mean_ttft_ms"] > one["mean_ttft_ms"]
    assert report["mean_ttft_ms"] == pytest.approx(own["mean_ttft_ms"], rel=0.5)


ROUTER = """
class Idle:
    router_replicas = 4
    metrics_interval_ms = 2000

    def choose(self, request, workers):
        return min(range(len(workers)), key=lambda w: workers.queue[w])
"""


def test_explain_says_what_a_router_in_python_would_have_saved(cli: Cli, tmp_path: Path) -> None:
    here, where = tmp_path / "idle.py", tmp_path / "report.json"
    here.write_text(ROUTER)
    common = ["--num-workers", "4", "--arrival-speedup-ratio", "3", "--router", f"{here}:Idle"]
    done = cli(TRACE, *common, "--explain", "--report-json", where)
    assert done.returncode == 0, done.stderr
    report = json.loads(where.read_text())
    here.write_text(ROUTER.replace("router_replicas = 4", "").replace("metrics_interval_ms = 2000", ""))
    exact = replayed(router=f"{here}:Idle")
    assert report["with_exact_view"]["mean_ttft_ms"] == exact["mean_ttft_ms"] < report["mean_ttft_ms"]
    done = cli(TRACE, *common, "--explain")
    assert done.returncode == 0, done.stderr
    assert "Against an Exact One" not in done.stdout


def test_a_router_that_cannot_be_copied(cli: Cli, tmp_path: Path) -> None:
    here = tmp_path / "locked.py"
    here.write_text(
        "import threading\n\nclass Locked:\n    router_replicas = 2\n    lock = None\n\n"
        "    def __init__(self):\n        self.lock = threading.Lock()\n\n"
        "    def choose(self, request, workers):\n        return 0\n"
    )
    done = cli(TRACE, "--num-workers", "4", "--router", f"{here}:Locked")
    assert done.returncode == 2
    assert "router_replicas: the router cannot be copied: cannot pickle" in done.stderr
    assert "Traceback" not in done.stderr


def test_refused(cli: Cli) -> None:
    done = cli(TRACE, "--num-workers", "4", "--router-mode", "kv_router", "--router-config", '{"router_replicas": 0}')
    assert done.returncode == 2
    assert "router_replicas: got 0, want an integer from 1 to 4096" in done.stderr

    class Wrong(Idle):
        metrics_interval_ms = -1.0

    with pytest.raises(ValueError, match=r"router: metrics_interval_ms: got -1\.0, want a number above 0"):
        replayed(router=Wrong())

    class Never(Idle):
        router_replicas = 0

    with pytest.raises(ValueError, match="router: router_replicas: got 0, want an integer from 1 to 4096"):
        replayed(router=Never())
