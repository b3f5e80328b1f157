"""Mockers under ``kill -9`` behind a frontend of ai-dynamo, and the same fault in virtual time."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from conftest import Site
from livetools import get

from dynamo.replay import run_synthetic_trace_replay

Make = Callable[..., Site]

RATE, SECONDS, KILLED_S = 20, 24, 4.0
PROMPT, OUTPUT = 100, 300


def _load(site: Site, kill: Callable[[], None]) -> tuple[list[tuple[float, int]], float]:
    """Sends requests at a constant rate; when each was sent and its status, and when the worker was killed."""
    results: list[tuple[float, int]] = []
    began = time.monotonic()

    def ask(number: int) -> None:
        sent = time.monotonic() - began
        prompt = " ".join(f"tok{(number * 37 + i) % 1500}" for i in range(PROMPT))
        results.append((sent, site.complete(prompt, OUTPUT)[0]))

    threads, killed = [], 0.0
    for number in range(RATE * SECONDS):
        while (now := time.monotonic() - began) < number / RATE:
            if not killed and now >= KILLED_S:
                kill()
                killed = now
            time.sleep(0.001)
        threads.append(threading.Thread(target=ask, args=(number,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return results, killed


def _simulated(mode: str, killed_s: float, detected_s: float, after_s: float, limit: int) -> Any:
    """The same in virtual time.

    For ``after_s`` round robin leaves the worker out, and requests come back to a KV router.
    """
    after = (
        {"avoid_ms": 1000 * after_s} if mode == "round-robin" else {"retry_refused_ms": 1000 * after_s} if limit else {}
    )
    return run_synthetic_trace_replay(
        PROMPT,
        OUTPUT,
        RATE * SECONDS,
        arrival_interval_ms=1000 / RATE,
        num_workers=2,
        router_mode={"round-robin": "round_robin", "kv": "kv_router"}[mode],
        migration_limit=limit,
        detection_ms=1000 * detected_s,
        faults=[{"kind": "crash", "at_ms": 1000 * killed_s, "target": "worker:1"}],
        **after,
    )


def _counted(metrics: str, kind: str) -> int:
    return sum(map(int, re.findall(rf'migration_total\{{migration_type="{kind}".* (\d+)', metrics)))


def _came_back_s(log: str, since: float) -> float:
    """How long after a time the last new request came back to the router: for its instance was not on the list."""
    lines = re.findall(
        r"(\d{4}-\S+)Z.* Creating new stream, retrying.*CannotConnect", re.sub(r"\x1b\[[0-9;]*m", "", log)
    )
    times = [datetime.fromisoformat(line + "+00:00").timestamp() - since for line in lines]
    return max(times, default=0.0)


def _refused_before(report: Any, killed_s: float, until_s: float) -> int:
    """How often requests that arrived in this time were refused: their attempts, but for one that went well."""
    rows = report.requests
    return sum(
        int(attempts) - (state == "finished")
        for arrival, attempts, state in zip(rows["arrival_time_ms"], rows["attempts"], rows["state"], strict=True)
        if killed_s <= arrival / 1000 < until_s
    )


@pytest.mark.parametrize(("mode", "limit"), [("round-robin", 0), ("round-robin", 3), ("kv", 0), ("kv", 3)])
def test_killed_as_simulated(site: Make, mode: str, limit: int) -> None:
    """Failed and migrated requests are those of the simulation within 20 %, or two where that is more.

    When the frontend sends to the dead worker is taken from what it did: from the first refused request to the last,
    and with its KV-aware router until when requests came back.
    """
    s = site(mode, "--migration-limit", str(limit))
    victim = s.workers(name="victim")
    s.workers(name="survivor")
    s.ready(2)
    clock = []

    def kill() -> None:
        clock.append(time.time())
        victim.service.stop(signal.SIGKILL)

    results, killed = _load(s, kill)
    failed = [sent for sent, status in results if status != 200]
    refused = [sent for sent in failed if sent > killed]
    metrics = get(s.url + "/metrics")[1]
    if mode == "kv":
        gap = 1 / RATE  # the dead worker has no load, and gets every request
        after = _came_back_s(s.frontend.log, clock[0])
    else:
        gap = 2 / RATE  # between two requests for the same worker
        after = refused[0] - killed - gap / 2
    report = _simulated(mode, killed, refused[-1] - killed + gap / 2, after, limit)

    def close(got: int, want: int) -> bool:
        return abs(got - want) <= max(0.2 * want, 2)

    ongoing, new = _counted(metrics, "ongoing_request"), _counted(metrics, "new_request")
    (event,) = report["fault_events"]
    came_back = _refused_before(report, killed, killed + after) if mode == "kv" else 0
    assert close(report["failed_requests"], len(failed)), (report["failed_requests"], len(failed))
    assert close(event["lost_attempts"], ongoing), (event, ongoing)
    assert close(came_back, new), (came_back, new)
    if mode == "round-robin":
        assert event["migrated"] == (event["lost_attempts"] if limit else 0)
        if limit == 0:
            assert close(event["lost_attempts"], len(failed) - len(refused)), (event, len(failed), len(refused))
