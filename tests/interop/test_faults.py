"""Mockers under ``kill -9`` behind a frontend of ai-dynamo, and the same fault in virtual time."""

from __future__ import annotations

import re
import signal
import statistics
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import pytest
from conftest import Site
from livetools import get

from dynamo.replay import run_synthetic_trace_replay

Make = Callable[..., Site]

RATE, SECONDS, KILLED_S = 20, 18, 4.0
# Tokens that take as long as ten others, so that streams ask little of the processor.
PROMPT, OUTPUT, SLOW = 100, 30, 0.1
ENGINE = {"decode_speedup_ratio": SLOW}


class Sent(NamedTuple):
    """A request: when it was sent, how late that was, what came of it, and how long that took."""

    at: float
    late_s: float
    status: int
    took_s: float


def _load(site: Site, kill: Callable[[], None]) -> tuple[list[Sent], float]:
    """Sends requests at a constant rate; these, and when the worker was killed."""
    results: list[Sent] = []
    began = time.monotonic()

    def ask(number: int) -> None:
        sent = time.monotonic() - began
        prompt = " ".join(f"tok{(number * 37 + i) % 1500}" for i in range(PROMPT))
        status = site.complete(prompt, OUTPUT)[0]
        results.append(Sent(sent, sent - number / RATE, status, time.monotonic() - began - sent))

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


def _simulated(mode: str, killed_s: float, detected_s: float, after_s: float, limit: int, release: str) -> Any:
    """The same in virtual time.

    ``after_s`` is when the workers are listed anew. Until then round robin leaves the worker out, and requests come
    back to the KV router of 1.3; by the rules of 1.6 both leave it out, and again when it refuses a request.
    """
    after: dict[str, Any] = {"avoid_ms": 1000 * after_s}
    if release == "1.6":
        after["router_rules"] = release
    elif mode == "kv":
        after = {"retry_refused_ms": 1000 * after_s} if limit else {}
    return run_synthetic_trace_replay(
        PROMPT,
        OUTPUT,
        RATE * SECONDS,
        arrival_interval_ms=1000 / RATE,
        num_workers=2,
        extra_engine_args=ENGINE,
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


def _too_slow(results: list[Sent], killed: float) -> str:
    """What shows that the machine could not keep up with the load, "" if it could.

    Requests that were answered before the kill have taken longer than engines need, or one was sent late.
    """
    needed_s = run_synthetic_trace_replay(PROMPT, OUTPUT, 1, extra_engine_args=ENGINE)["mean_e2e_latency_ms"] / 1000
    took_s = statistics.median(r.took_s for r in results if r.at + needed_s < killed)
    late_s = max(r.late_s for r in results)
    slow = took_s > 1.25 * needed_s or late_s > 0.2
    return f"requests took {took_s:.2f} s instead of {needed_s:.2f} s, one was sent {late_s:.2f} s late" if slow else ""


# When the loss of a worker is noticed at the latest, and when workers are listed anew on average. Counts of 1.6 hardly
# depend on them.
NOTICED_S, LISTED_S = 10.0, 2.5


def _observed(mode: str, release: str, refused_s: list[float], came_back_s: float) -> tuple[float, float]:
    """When the frontend stopped to send to the dead worker and when it listed the workers.

    That follows from when requests were refused.
    """
    if release == "1.6":
        return NOTICED_S, refused_s[0] if refused_s else LISTED_S
    if mode == "kv":
        gap = 1 / RATE  # the dead worker has no load, and gets every request
        return refused_s[-1] + gap / 2, came_back_s
    gap = 2 / RATE  # between two requests for the same worker
    return refused_s[-1] + gap / 2, refused_s[0] - gap / 2


@pytest.mark.parametrize(
    ("release", "mode", "limit"),
    [
        ("1.3", "round-robin", 0),
        ("1.3", "round-robin", 3),
        ("1.3", "kv", 0),
        ("1.3", "kv", 3),
        ("1.6", "round-robin", 0),
        ("1.6", "kv", 3),
    ],
)
def test_killed_as_simulated(site: Make, release: str, mode: str, limit: int) -> None:
    """Failed and migrated requests are those of the simulation within 20 %, or two where that is more.

    When the frontend of 1.3 sends to the dead worker is taken from what it did: from the first refused request to the
    last, and with its KV-aware router until when requests came back. That of 1.6 tries it once after each listing of
    the workers. On a machine that cannot keep up with the load the test is skipped.
    """
    s = site(mode, "--migration-limit", str(limit), release=release)
    victim, _ = (s.workers("--decode-speedup-ratio", str(SLOW), name=name) for name in ("victim", "survivor"))
    s.ready(2)
    clock = []

    def kill() -> None:
        clock.append(time.time())
        victim.service.stop(signal.SIGKILL)

    results, killed = _load(s, kill)
    try:
        compare(s, release, mode, limit, results, killed, clock[0])
    except (AssertionError, IndexError):
        if reason := _too_slow(results, killed):
            pytest.skip(reason)
        raise


def compare(s: Site, release: str, mode: str, limit: int, results: list[Sent], killed: float, killed_at: float) -> None:
    """Compares what came of requests, and what the frontend has counted, with the same in virtual time."""
    failed = [r.at for r in results if r.status != 200]
    refused = [sent for sent in failed if sent > killed]
    metrics = get(s.url + "/metrics")[1]
    noticed, after = _observed(
        mode, release, [sent - killed for sent in refused], _came_back_s(s.frontend.log, killed_at)
    )
    report = _simulated(mode, killed, noticed, after, limit, release)

    def close(got: int, want: int) -> bool:
        return abs(got - want) <= max(0.2 * want, 2)

    ongoing, new = _counted(metrics, "ongoing_request"), _counted(metrics, "new_request")
    (event,) = report["fault_events"]
    came_back = 0
    if release == "1.6":
        came_back = event["refused_attempts"]
    elif mode == "kv":
        came_back = _refused_before(report, killed, killed + after)
    assert close(report["failed_requests"], len(failed)), (report["failed_requests"], len(failed))
    assert close(event["lost_attempts"], ongoing), (event, ongoing)
    if release == "1.6":  # some more if several are on their way when the first is refused; 1.3 refuses 50 and more
        assert abs(came_back - new) <= 8, (came_back, new)
        assert not (limit and failed), failed
    else:
        assert close(came_back, new), (came_back, new)
    if release == "1.3" and mode == "round-robin":
        assert event["migrated"] == (event["lost_attempts"] if limit else 0)
        if limit == 0:
            assert close(event["lost_attempts"], len(failed) - len(refused)), (event, len(failed), len(refused))
