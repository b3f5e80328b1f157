"""Scheduler policies in Python, through the Python functions, the command line and sweeps."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused, row, write_trace

from dynamo.replay import run_synthetic_trace_replay, run_trace_replay, schedulers

ROOT = Path(__file__).parent.parent
TEMPLATE = ROOT / "examples" / "schedulers" / "template.py"
TRACE = ROOT / "examples" / "traces" / "conversation_400.jsonl.gz"
ONE_AT_A_TIME = {"block_size": 64, "max_num_seqs": 1}
SHORT_OF_BLOCKS = {"block_size": 16, "num_gpu_blocks": 80, "watermark": 0.0}
CROWD: dict[str, Any] = {"input_tokens": 200, "output_tokens": 120, "request_count": 12, "arrival_interval_ms": 1.0}


def queue(folder: Path) -> str:
    """A trace of one long request, and five that come while it runs, with prompts of 5, 4, 3, 2 and 1 blocks."""
    rows = [row(0, 512, 40, [0])]
    for i in range(5):
        rows.append(row(5 + i, 512 * (5 - i), 2, [10 * i + k + 1 for k in range(5 - i)]))
        rows[-1] |= {"tenant": f"t{i}", "deadline_ms": 1000 * (i + 1), "priority": i}
    return write_trace(folder / "queue.jsonl", rows)


class Shortest:
    """Admits the shortest prompt first, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.seen: dict[int, schedulers.Request] = {}

    def next(self, waiting: Sequence[schedulers.Request], engine: schedulers.Engine) -> int:
        self.asked.append([request.id for request in waiting])
        self.seen |= {request.id: request for request in waiting}
        return min(range(len(waiting)), key=lambda i: waiting[i].prompt_tokens)


def order(report: Any) -> list[int]:
    """The requests in the order of their first tokens."""
    requests = report.requests
    first = [arrival + ttft for arrival, ttft in zip(requests["arrival_time_ms"], requests["ttft_ms"], strict=True)]
    return sorted(range(len(first)), key=lambda i: first[i])


def test_order_of_the_queue(folder: Path) -> None:
    trace, policy = queue(folder), Shortest()
    assert order(run_trace_replay(trace, extra_engine_args=ONE_AT_A_TIME)) == [0, 1, 2, 3, 4, 5]
    assert order(run_trace_replay(trace, extra_engine_args=ONE_AT_A_TIME, scheduler_policy=policy)) == [
        0,
        5,
        4,
        3,
        2,
        1,
    ]
    assert all(len(asked) > 1 for asked in policy.asked)
    assert sorted(policy.seen) == [1, 2, 3, 4, 5]
    second = policy.seen[2]
    assert (second.tenant, second.priority, second.prompt_tokens) == ("t1", 1, 2048)
    assert (second.arrival_ms, second.deadline_ms) == (6.0, 2006.0)


def test_the_default_order_as_a_policy(folder: Path) -> None:
    class First:
        def next(self, waiting: Sequence[schedulers.Request], engine: schedulers.Engine) -> int:
            return 0

        def victim(self, running: Sequence[schedulers.Request], engine: schedulers.Engine) -> int:
            return len(running) - 1

    for run in (
        {**CROWD, "extra_engine_args": SHORT_OF_BLOCKS},
        {**CROWD, "request_count": 60, "num_workers": 3, "extra_engine_args": SHORT_OF_BLOCKS},
    ):
        plain, same = run_synthetic_trace_replay(**run), run_synthetic_trace_replay(**run, scheduler_policy=First())
        assert plain.requests == same.requests


def test_victims() -> None:
    class Oldest:
        chosen = 0

        def victim(self, running: Sequence[schedulers.Request], engine: schedulers.Engine) -> int:
            self.chosen += 1
            assert all(request.blocks > 0 and not request.preempted for request in running)
            return 0

    policy = Oldest()
    youngest = run_synthetic_trace_replay(**CROWD, extra_engine_args=SHORT_OF_BLOCKS)
    oldest = run_synthetic_trace_replay(**CROWD, extra_engine_args=SHORT_OF_BLOCKS, scheduler_policy=policy)
    assert policy.chosen > 0
    assert oldest["completed_requests"] == youngest["completed_requests"] == 12
    assert list(oldest.requests["e2e_latency_ms"]) != list(youngest.requests["e2e_latency_ms"])
    fifo = {**SHORT_OF_BLOCKS, "preemption_mode": "fifo"}
    assert oldest.requests == run_synthetic_trace_replay(**CROWD, extra_engine_args=fifo).requests


def test_workers_and_pools(folder: Path) -> None:
    class Notes(Shortest):
        def next(self, waiting: Sequence[schedulers.Request], engine: schedulers.Engine) -> int:
            engines.add((engine.stage, engine.worker))
            times.setdefault((engine.stage, engine.worker), []).append(engine.now_ms)
            return super().next(waiting, engine)

    engines: set[tuple[str, int]] = set()
    times: dict[tuple[str, int], list[float]] = {}
    busy = {**CROWD, "request_count": 60, "extra_engine_args": {**ONE_AT_A_TIME}}
    report = run_synthetic_trace_replay(**busy, num_workers=2, scheduler_policy=Notes())
    assert report["completed_requests"] == 60
    assert engines == {("", 0), ("", 1)}
    assert all(sorted(at) == at for at in times.values())
    engines.clear()
    times.clear()
    run_synthetic_trace_replay(**busy, num_prefill_workers=1, num_decode_workers=1, scheduler_policy=Notes())
    assert ("prefill", 0) in engines


@pytest.mark.parametrize("answer", [-1, 99, True, "0", None])
def test_wrong_answers(folder: Path, answer: Any) -> None:
    class Wrong:
        def next(self, waiting: Sequence[schedulers.Request], engine: schedulers.Engine) -> Any:
            return answer

    with pytest.raises(
        ValueError, match=r"worker 0, which of 5 requests.*next returned .*, want an index from 0 to 4$"
    ) as raised:
        run_trace_replay(queue(folder), extra_engine_args=ONE_AT_A_TIME, scheduler_policy=Wrong())
    assert str(raised.value).startswith("scheduler_policy: at ")
    assert "\n" not in str(raised.value)


def test_what_it_raises_ends_the_run(folder: Path) -> None:
    class Broken:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def next(self, waiting: Sequence[schedulers.Request], engine: schedulers.Engine) -> int:
            raise self.error

    trace = queue(folder)
    with pytest.raises(RuntimeError, match=r"the first being .*: ZeroDivisionError: no") as raised:
        run_trace_replay(trace, extra_engine_args=ONE_AT_A_TIME, scheduler_policy=Broken(ZeroDivisionError("no")))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(KeyboardInterrupt):
        run_trace_replay(trace, extra_engine_args=ONE_AT_A_TIME, scheduler_policy=Broken(KeyboardInterrupt()))


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match=r"want an object with the method next\(waiting, engine\) or victim"):
        run_synthetic_trace_replay(**CROWD, scheduler_policy=object())
    with pytest.raises(TypeError, match="got the class Shortest, want an object"):
        run_synthetic_trace_replay(**CROWD, scheduler_policy=Shortest)
    for engine in ({"engine_type": "sglang"}, {"scheduler": "vllm"}):
        with pytest.raises(
            ValueError, match=r"scheduler_policy: got .*, want engine_type vllm or trtllm with scheduler"
        ):
            run_synthetic_trace_replay(**CROWD, scheduler_policy=Shortest(), extra_engine_args=engine)


def test_entry_points(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    offered = importlib.metadata.EntryPoint("shortest", f"{__name__}:Shortest", schedulers.GROUP)
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: [offered] if group == schedulers.GROUP else []
    )
    report = run_trace_replay(queue(folder), extra_engine_args=ONE_AT_A_TIME, scheduler_policy="shortest")
    assert order(report) == [0, 5, 4, 3, 2, 1]
    with pytest.raises(ValueError, match=r'scheduler_policy: got "longest", want MODULE:CLASS, .* \(shortest\)$'):
        run_synthetic_trace_replay(**CROWD, scheduler_policy="longest")


def test_template(cli: Cli, folder: Path) -> None:
    options = [
        queue(folder),
        "--extra-engine-args",
        json.dumps(ONE_AT_A_TIME),
        "--report-json",
        str(folder / "report.json"),
    ]
    done = cli(*options, "--scheduler-policy", f"{TEMPLATE}:ShortestFirst")
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / "report.json").read_text())
    assert [file["argument"] for file in report["provenance"]["inputs"]] == ["trace_files", "scheduler_policy"]
    assert report["provenance"]["arguments"]["scheduler_policy"].endswith("template.py:ShortestFirst")
    plain = run_trace_replay(queue(folder), extra_engine_args=ONE_AT_A_TIME)
    assert report["mean_ttft_ms"] < plain["mean_ttft_ms"]
    again = cli("--from-report", str(folder / "report.json"), "--report-json", str(folder / "again.json"))
    assert again.returncode == 0, again.stderr
    assert json.loads((folder / "again.json").read_text())["mean_ttft_ms"] == report["mean_ttft_ms"]
    assert "want one of ShortestFirst" in refused(cli(*options, "--scheduler-policy", f"{TEMPLATE}:Shortest"))


def test_knob_of_a_sweep(folder: Path) -> None:
    text = "class {}:\n    def next(self, waiting, engine):\n        lengths = [r.prompt_tokens for r in waiting]\n"
    text += "        return lengths.index({}(lengths))\n"
    (folder / "own.py").write_text("\n\n".join(text.format(*own) for own in (("Short", "min"), ("Long", "max"))))
    names = [f"{folder / 'own.py'}:{name}" for name in ("Short", "Long")]
    run = {"trace": queue(folder), "extra_engine_args": ONE_AT_A_TIME}
    (folder / "sweep.json").write_text(json.dumps({"run": run, "search": {"scheduler_policy": names}}))
    command = [sys.executable, "-m", "dynamo.sweep", "run", str(folder / "sweep.json"), "-o", str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    points = json.loads((folder / "out" / "report.json").read_text())["points"]
    found = {point["knobs"]["scheduler_policy"]: point["figures"]["mean_ttft_ms"] for point in points}
    assert found[names[0]] < found[names[1]]
