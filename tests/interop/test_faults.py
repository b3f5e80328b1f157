"""Mockers under ``kill -9`` behind a frontend of ai-dynamo, and the same fault in virtual time."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Site
from livetools import get

from dynamo.replay import run_synthetic_trace_replay

Make = Callable[..., Site]

RATE, SECONDS, KILLED_S = 20, 24, 4.0
PROMPT, OUTPUT = 100, 100


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


def _simulated(killed_s: float, detected_s: float, avoided_s: float, limit: int) -> Any:
    return run_synthetic_trace_replay(
        PROMPT,
        OUTPUT,
        RATE * SECONDS,
        arrival_interval_ms=1000 / RATE,
        num_workers=2,
        migration_limit=limit,
        detection_ms=1000 * detected_s,
        avoid_ms=1000 * avoided_s,
        faults=[{"kind": "crash", "at_ms": 1000 * killed_s, "target": "worker:1"}],
    )


@pytest.mark.parametrize("limit", [0, 3])
def test_killed_as_simulated(site: Make, limit: int) -> None:
    """Failed and migrated requests are those of the simulation within 20 %, or two if that is more.

    When the frontend sends to the dead worker is taken from what it did: from the first refused request to the last.
    """
    s = site("round-robin", "--migration-limit", str(limit))
    victim = s.workers(name="victim")
    s.workers(name="survivor")
    s.ready(2)
    results, killed = _load(s, lambda: victim.service.stop(signal.SIGKILL))
    failed = [sent for sent, status in results if status != 200]
    refused = [sent for sent in failed if sent > killed]
    found = re.findall(r'migration_total\{migration_type="ongoing_request".* (\d+)', get(s.url + "/metrics")[1])
    gap = 2 / RATE  # between two requests for the same worker
    report = _simulated(killed, refused[-1] - killed + gap / 2, refused[0] - killed - gap / 2, limit)

    def close(got: int, want: int) -> bool:
        return abs(got - want) <= max(0.2 * want, 2)

    assert close(report["failed_requests"], len(failed)), (report["failed_requests"], len(failed))
    (event,) = report["fault_events"]
    assert close(event["lost_attempts"], sum(map(int, found))), (event, found)
    if limit == 0:
        assert close(event["lost_attempts"], len(failed) - len(refused)), (event, len(failed), len(refused))
    assert event["migrated"] == (event["lost_attempts"] if limit else 0)
