"""``--timeline`` of live workers: what their engines did, written when the process ends."""

from __future__ import annotations

import itertools
import re
import signal
from pathlib import Path

import pytest
from livetools import get, make_model, until
from test_live import Workers, answer, bad_input, generate, post, records, stream, workers
from test_live_handoffs import pair
from test_timeline import Event, events_of, slices_of


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(make_model(tmp_path / "model"))


def last(events: list[Event], track: str) -> float:
    return [event.value for event in events if event.track == track][-1]


def test_what_engines_did(tmp_path: Path, model: str) -> None:
    target = tmp_path / "out" / "live.pftrace"
    ranks = ["--num-workers", "1", "--data-parallel-size", "2"]
    with workers(tmp_path, "--model-path", model, *ranks, "--timeline", str(target)) as w:
        for rank, tokens in ((0, 5), (1, 3), (0, 4)):
            answer(post(w.url(), generate(tokens, routing={"dp_rank": rank}))[1])
        left = stream(w.url(), generate(100_000, routing={"dp_rank": 1}))
        next(left)
        left.close()  # type: ignore[attr-defined]
        answer(post(w.url(), generate(6, routing={"dp_rank": 1}))[1])
        assert not target.exists()
        w.stop(signal.SIGTERM)
        assert w.wait() == 0
    assert list(target.parent.iterdir()) == [target]
    events = events_of(target)
    slices = slices_of(events)
    requests = [s for s in slices if s.name.startswith("request")]
    assert sorted((s.track.split("/")[0], s.event.args["output tokens"]) for s in requests) == [
        ("worker 0 rank 0", 4),
        ("worker 0 rank 0", 5),
        ("worker 0 rank 1", 3),
        ("worker 0 rank 1", 6),
        ("worker 0 rank 1", 100_000),
    ]
    parts = {s.name for s in slices if s.inside}
    assert {"prompt", "decode"} <= parts
    for rank, tokens in (("rank 0", 9), ("rank 1", 9)):
        passes = [s for s in slices if s.track == f"worker 0 {rank}/passes"]
        assert sum(s.event.args["tokens"] for s in passes) >= tokens
        assert last(events, f"worker 0 {rank}/running") == 0
        assert last(events, f"worker 0 {rank}/waiting") == 0
    assert not any(event.track.startswith("router") for event in events)


def generated(w: Workers, rank: int) -> float:
    """How many tokens a rank says that it has made."""
    found = re.findall(
        rf'^vllm:generation_tokens_total{{.*engine="{rank}".*}} (.*)$', get(w.status + "/metrics")[1], re.M
    )
    return float(found[0]) if found else 0


def test_ranks_in_lockstep(tmp_path: Path, model: str) -> None:
    """By vLLM's own rules two ranks run their passes together: while one decodes, so does the other, in its passes."""
    target = tmp_path / "live.pftrace"
    engine = '{"scheduler": "vllm", "dp_size": 2, "max_model_len": null}'
    arguments = ["--model-path", model, "--extra-engine-args", engine, "--timeline", str(target)]
    with workers(tmp_path, *arguments) as w:
        left = stream(w.url(), generate(100_000, routing={"dp_rank": 1}))
        next(left)
        assert len(answer(post(w.url(), generate(5, routing={"dp_rank": 0}))[1])[0]) == 5
        left.close()  # type: ignore[attr-defined]
        answer(post(w.url(), generate(3))[1])  # its rank is chosen by the worker
        until(lambda: all(generated(w, rank) >= tokens for rank, tokens in enumerate((5, 2))))
        w.stop(signal.SIGTERM)
        assert w.wait() == 0
    events = events_of(target)
    slices = slices_of(events)
    passes = [s for s in slices if s.track == "worker 0/passes"]
    assert {s.track.split("/")[0] for s in slices} == {"worker 0"}
    together = [s.event.args["tokens"] for s in passes if s.event.args["requests"] == 2]
    assert sum(together) >= 2 * 5  # more if the last request comes before the first one is cancelled
    assert all(a.end_ns <= b.begin_ns for a, b in itertools.pairwise(sorted(passes, key=lambda s: s.begin_ns)))
    assert last(events, "worker 0/running") == 0


def test_ended_at_once(tmp_path: Path, model: str) -> None:
    target = tmp_path / "out" / "live.pftrace"
    with workers(tmp_path, "--model-path", model, "--timeline", str(target)) as w:
        lines = stream(w.url(), generate(100_000))
        next(lines)
        w.stop(signal.SIGINT)
        w.wait_for("shutting down")
        w.stop(signal.SIGINT)
        assert w.wait() == 130
        assert records(w.root) == []
    # Ended at once, but in order: what was done so far is there.
    (whole,) = [s for s in slices_of(events_of(target)) if s.name.startswith("request")]
    assert whole.end_ns > whole.begin_ns


def test_two_workers_of_a_hand_off(tmp_path: Path, model: str) -> None:
    """Each process writes its own part, here into the folder where it was started."""
    with pair(tmp_path, model, [], "--timeline", "live.pftrace") as served:
        for _ in range(3):
            _, decode = served.ask(5)
            answer(decode.text())
        for worker in (served.decode, served.prefill):
            worker.stop(signal.SIGTERM)
            assert worker.wait() == 0
    parts = {}
    for role in ("prefill", "decode"):
        slices = slices_of(events_of(tmp_path / role / "live.pftrace"))
        assert len([s for s in slices if s.name.startswith("request")]) == 3
        assert {s.track.split("/")[0] for s in slices} == {f"{role} worker 0"}
        parts[role] = {s.name for s in slices if s.inside}
    assert parts["prefill"] == {"prompt", "hold KV"} or parts["prefill"] == {"queue", "prompt", "hold KV"}
    assert "decode" in parts["decode"]


def test_a_path_that_cannot_be_written(tmp_path: Path, model: str) -> None:
    arguments = ["--model-path", model, "--discovery-backend", "file", "--timeline", "/dev/null/live.pftrace"]
    bad_input(tmp_path, arguments, "timeline: cannot write /dev/null/live.pftrace: not a directory")
