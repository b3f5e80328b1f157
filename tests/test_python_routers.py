"""Routers in Python, through the Python functions, the command line and sweeps."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused, row, write_trace

from dynamo._shell import plugins, routers
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.routers import REJECT

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "routers"
TRACE = ROOT / "examples" / "traces" / "conversation_400.jsonl.gz"
BUSY: dict[str, Any] = {
    "input_tokens": 600,
    "output_tokens": 20,
    "request_count": 60,
    "arrival_interval_ms": 4.0,
    "num_workers": 3,
}
POOLS = {"num_prefill_workers": 2, "num_decode_workers": 3}


class By:
    """A router whose choose is a function."""

    def __init__(self, choose: Callable[[Any, Any], object]) -> None:
        self.choose = choose


def busy(router: object, **more: Any) -> Any:
    return run_synthetic_trace_replay(**{**BUSY, **more}, router=router)  # type: ignore[arg-type]  # also wrong ones


def test_a_router_chooses_and_sees_what_it_has_sent() -> None:
    sent = [0, 0, 0]

    def choose(request: Any, workers: Any) -> int:
        assert list(workers.ids) == [0, 1, 2]
        assert len(workers) == 3
        assert request.stage == ""
        assert workers.now_ms == request.arrival_ms
        assert request.prompt_tokens == 600
        if request.id < 3:
            assert list(workers.queue) == sent
            assert list(workers.tokens) == [600 * n for n in sent]
            sent[2 - request.id] += 1
        return 2 - request.id % 3

    report = busy(By(choose))
    assert list(report.requests["decode_worker_idx"]) == [2, 1, 0] * 20


def test_a_router_on_the_clock() -> None:
    """It is asked in the order of arrivals, as in virtual time."""
    asked: list[int] = []

    def choose(request: Any, workers: Any) -> int:
        asked.append(request.id)
        return request.id % 3

    report = busy(By(choose), replay_mode="online", extra_engine_args={"speedup_ratio": 100})
    assert asked == list(range(60))
    assert list(report.requests["decode_worker_idx"]) == [0, 1, 2] * 20


def test_a_router_sees_caches_when_it_hears_of_them(folder: Path) -> None:
    trace = write_trace(folder / "trace.jsonl", [row(2000.0 * i, 4 * 64, 5, [1, 2, 3, 4]) for i in range(4)])
    seen: list[list[int]] = []

    def choose(request: Any, workers: Any) -> int:
        seen.append(list(workers.cached))
        return request.id % 2

    options: dict[str, Any] = {"trace_block_size": 64, "extra_engine_args": {"block_size": 64}, "num_workers": 2}
    run_trace_replay(trace, router=By(choose), **options)
    assert seen == [[0, 0], [4, 0], [4, 4], [4, 4]]
    seen.clear()
    run_trace_replay(trace, router=By(choose), kv_event_lag_ms=3000, **options)
    assert seen == [[0, 0], [0, 0], [4, 0], [4, 4]]


def test_arrays_are_read_only_with_and_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = []

    def choose(request: Any, workers: Any) -> int:
        for of in (workers.queue, workers.tokens, workers.kv, workers.active_blocks, workers.cached):
            kinds.append(type(of).__name__)
            with pytest.raises((TypeError, ValueError)):
                of[0] = 1
        return min(range(3), key=lambda i: workers.queue[i])

    with_numpy = busy(By(choose))
    assert set(kinds) == {"ndarray"}
    kinds.clear()
    monkeypatch.setattr(plugins, "_numpy", False)
    assert busy(By(choose)).requests == with_numpy.requests
    assert set(kinds) == {"memoryview"}


class Keeper:
    tick_ms = 50

    def __init__(self, most: int = 2) -> None:
        self.most, self.ticks, self.left, self.asked = most, [], [], 0

    def choose(self, request: Any, workers: Any) -> int | None:
        self.asked += 1
        i = int(workers.queue.argmin())
        return i if workers.queue[i] < self.most else None

    def completed(self, request: Any, worker: int, now_ms: float) -> None:
        self.left.append((request.id, worker, now_ms))

    def tick(self, now_ms: float, workers: Any) -> None:
        self.ticks.append(now_ms)


def test_kept_requests_wait_and_completed_and_tick_are_called() -> None:
    keeper = Keeper()
    report = busy(keeper, attribution=True)
    workers = report.requests["decode_worker_idx"]
    assert report["completed_requests"] == 60
    assert sorted(id for id, _, _ in keeper.left) == list(range(60))
    assert all(workers[id] == worker for id, worker, _ in keeper.left)
    assert keeper.ticks[:3] == [50, 100, 150]
    parts = report["attribution"]["ttft_ms"]["split"]["mean"]
    assert parts["router_wait"] > 0.9 * parts["total"]
    again = Keeper()
    assert busy(again, attribution=True).requests == report.requests
    assert again.left == keeper.left


def test_order_and_in_order_make_a_queue() -> None:
    admitted: list[int] = []

    class Last(Keeper):
        in_order = True

        def order(self, request: Any) -> int:
            return -int(request.id)

        def choose(self, request: Any, workers: Any) -> int | None:
            index = super().choose(request, workers)
            if index is not None:
                admitted.append(request.id)
            return index

    last = Last(1)
    busy(last, arrival_interval_ms=0.001)
    assert admitted == [0, 1, 2, *range(59, 2, -1)]
    assert last.asked < 400  # and not 60 for each of 60


def test_rejected_requests() -> None:
    report = busy(By(lambda request, _: REJECT if request.id % 4 == 0 else 0))
    assert (report["rejected_requests"], report["completed_requests"]) == (15, 45)


def test_two_pools_have_one_router_or_two() -> None:
    stages: dict[str, set[int]] = {"prefill": set(), "decode": set()}

    def choose(request: Any, workers: Any) -> int:
        stages[request.stage].add(len(workers))
        return request.id % len(workers)

    options = {name: value for name, value in BUSY.items() if name != "num_workers"}
    report = run_synthetic_trace_replay(**options, **POOLS, router=By(choose))
    assert stages == {"prefill": {2}, "decode": {3}}
    assert list(report.requests["prefill_worker_idx"]) == [0, 1] * 30
    assert list(report.requests["decode_worker_idx"]) == [0, 1, 2] * 20
    pair = (By(lambda *_: 1), By(lambda *_: 2))
    report = run_synthetic_trace_replay(**options, **POOLS, router=pair)
    assert {*report.requests["prefill_worker_idx"], *report.requests["decode_worker_idx"]} == {1, 2}
    refuse = By(lambda request, _: REJECT if request.stage == "prefill" and request.id == 5 else 0)
    report = run_synthetic_trace_replay(**options, **POOLS, router=refuse)
    assert (report["completed_requests"], report["num_requests"]) == (59, 60)
    own = {"extra_engine_args": {"scheduler": "vllm"}}
    report = run_synthetic_trace_replay(**options, **POOLS, **own, router=refuse)
    assert report["completed_requests"] == 59
    with pytest.raises(ValueError, match="request 0: choose returned REJECT for a decode worker, want it when"):
        run_synthetic_trace_replay(**options, **POOLS, router=(By(lambda *_: 0), By(lambda *_: REJECT)))


def test_workers_come_and_go() -> None:
    seen = set()

    def choose(request: Any, workers: Any) -> int:
        seen.add(tuple(workers.ids))
        assert len(workers.queue) == len(workers.ids)
        return len(workers) - 1

    policy = {"policy": "schedule", "schedule": [[0.05, 3], [0.15, 1]]}
    report = busy(By(choose), num_workers=1, autoscaler=policy)
    assert report["completed_requests"] == 60
    assert {(0,), (0, 1, 2)} <= seen


def test_faults_withdraw_and_send_again() -> None:
    crash = [{"kind": "crash", "at_ms": 100, "target": "worker:0", "mttr_s": 0.05}]
    report = busy(Keeper(4), faults=crash, migration_limit=2, client_timeout_ms=60_000)
    assert report["num_requests"] == 60


@pytest.mark.parametrize(
    ("router", "error", "message"),
    [
        (By, TypeError, r"router: got the class By, want an object: By\(...\)"),
        (object(), TypeError, r"router: got .*, want an object with the method choose\(request, workers\)"),
        ([], ValueError, "router: got 0 objects, want one, or two"),
        (By(lambda *_: 3), ValueError, "request 0: choose returned 3, want an index from 0 to 2, None to keep"),
        (By(lambda *_: -1), ValueError, "choose returned -1, want an index from 0 to 2"),
        (By(lambda *_: "1"), ValueError, 'choose returned "1", want an index from 0 to 2'),
        (By(lambda *_: True), ValueError, "choose returned true, want an index"),
        (By(lambda *_: None), RuntimeError, "it keeps 60 requests although nothing else is going to happen"),
        ("nix:X", ValueError, 'router: cannot import "nix": ModuleNotFoundError'),
        ("nix.py:X", FileNotFoundError, 'router: "nix.py" does not exist'),
        ("nix", ValueError, 'router: got "nix", want MODULE:CLASS, FILE.py:CLASS or the name of a router'),
        ("json:nix", ValueError, 'router: "json" has no nix'),
        ("json:loads", ValueError, "router: json:loads cannot be made with"),
        (f"{__name__}:Keeper.choose", ValueError, "router: .* cannot be made with"),
    ],
)
def test_wrong_routers(router: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        busy(router)


def test_one_worker_is_refused() -> None:
    with pytest.raises(ValueError, match="num_workers: got 1, want at least 2 with router"):
        busy(Keeper(), num_workers=1)


def test_bad_ticks_and_methods() -> None:
    keeper = Keeper()
    keeper.tick_ms = 0
    with pytest.raises(ValueError, match="router: tick_ms: got 0, want a number above 0"):
        busy(keeper)
    broken: Any = By(lambda *_: 0)
    broken.completed = 7
    with pytest.raises(TypeError, match="router: completed: got 7, want a method"):
        busy(broken)


def test_what_a_router_raises_is_the_cause() -> None:
    def choose(request: Any, workers: Any) -> int:
        if request.id == 7:
            raise KeyError("a\nb")
        return 0

    with pytest.raises(
        RuntimeError, match=r"^router: at 28 ms, request 7: test_python_routers.py line [0-9]+, choose: KeyError: "
    ) as caught:
        busy(By(choose))
    assert isinstance(caught.value.__cause__, KeyError)
    assert "\n" not in str(caught.value)

    class Late(By):
        def completed(self, *_: object) -> None:
            raise ZeroDivisionError

    with pytest.raises(RuntimeError, match=r"request [0-9]+: .*py line [0-9]+, completed: ZeroDivisionError$"):
        busy(Late(lambda *_: 0))

    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        busy(By(interrupt))


def test_command_line(cli: Cli, folder: Path) -> None:
    options = ["--num-workers", "4", "--arrival-speedup-ratio", "3", "--report-json", str(folder / "report.json")]
    template = [str(TRACE), *options, "--router", f"{EXAMPLES / 'template.py'}:MyRouter"]
    done = cli(*template, "--router-config", '{"most": 3}')
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / "report.json").read_text())
    arguments = report["provenance"]["arguments"]
    assert arguments["router"].endswith("template.py:MyRouter")
    assert arguments["router_config"] == {"most": 3}
    assert "router_mode" not in arguments
    assert [file["argument"] for file in report["provenance"]["inputs"]] == ["trace_files", "router"]
    again = cli("--from-report", str(folder / "report.json"), "--report-json", str(folder / "again.json"))
    assert again.returncode == 0, again.stderr
    assert json.loads((folder / "again.json").read_text())["mean_ttft_ms"] == report["mean_ttft_ms"]
    assert "cannot be made with (mots=3)" in refused(cli(*template, "--router-config", '{"mots": 3}'))
    assert "router_mode: got" in refused(cli(*template, "--router-mode", "random"))
    (folder / "broken.py").write_text("class Broken:\n    def choose(self, request, workers):\n        return 1 // 0\n")
    broken = cli(str(TRACE), *options, "--router", f"{folder / 'broken.py'}:Broken")
    assert (broken.returncode, broken.stdout) == (1, "")
    assert broken.stderr.count("\n") == 1
    assert "line 1: broken.py line 3, choose: ZeroDivisionError: integer" in broken.stderr
    modes = [
        cli(str(TRACE), *options, *of).stdout.partition("Wall")[0]
        for of in (["--router", "random"], ["--router-mode", "random"])
    ]
    assert modes[0] == modes[1] != ""


def test_ctrl_c_while_a_router_decides(folder: Path) -> None:
    ready = folder / "ready"
    (folder / "hang.py").write_text(
        "import pathlib, time\n\nclass Hang:\n    def choose(self, request, workers):\n"
        f"        pathlib.Path({str(ready)!r}).touch()\n        while True:\n            time.sleep(0.01)\n"
    )
    command = [
        sys.executable,
        "-m",
        "dynamo.replay",
        str(TRACE),
        "--num-workers",
        "2",
        "--router",
        f"{folder / 'hang.py'}:Hang",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder) as run:
        try:
            while not ready.exists() and run.poll() is None:
                time.sleep(0.02)
            os.kill(run.pid, signal.SIGINT)
            assert run.wait(300) == 130
            assert run.stderr is not None
            assert run.stderr.read() == "interrupted\n"
        finally:
            run.kill()


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = importlib.metadata.EntryPoint("keeper", f"{__name__}:Keeper", routers.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [offered] if group == routers.GROUP else [])
    report = busy("keeper", router_config={"most": 1})
    assert report["completed_requests"] == 60
    with pytest.raises(ValueError, match=r"is installed \(keeper\), or a routing mode"):
        busy("kepper")


def test_a_knob_of_sweeps(folder: Path) -> None:
    spec = {
        "run": {"trace": str(TRACE), "arrival_speedup_ratio": 3, "num_workers": 4},
        "search": {"router": ["round_robin", f"{EXAMPLES / 'template.py'}:MyRouter"]},
    }
    (folder / "sweep.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "dynamo.sweep", "run", str(folder / "sweep.json"), "-o", str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    points = json.loads((folder / "out" / "report.json").read_text())["points"]
    assert [point["knobs"]["router"].partition(".py:")[2] or point["knobs"]["router"] for point in points] == [
        "round_robin",
        "MyRouter",
    ]
    assert len({point["figures"]["mean_ttft_ms"] for point in points}) == 2


def shop(folder: Path, tenants: str = "aab", deadline_ms: float | None = 400, gap_ms: float = 10.0) -> str:
    """A trace whose rows have tenants in turn, a deadline, and prompts of 1,024 tokens that nobody shares."""
    rows = [row(gap_ms * i, 1024, 8, [2 * i, 2 * i + 1]) for i in range(90)]
    for i, line in enumerate(rows):
        line["tenant"] = tenants[i % len(tenants)]
        if deadline_ms is not None:
            line["deadline_ms"] = deadline_ms
    return write_trace(folder / "shop.jsonl", rows)


def test_reports_have_tenants_only_if_traces_do(cli: Cli, folder: Path) -> None:
    report = run_trace_replay(shop(folder), num_workers=2, sla_ttft_ms=500)
    a, b = report["tenants"]
    assert (a["tenant"], a["requests"], b["tenant"], b["requests"]) == ("a", 60, "b", 30)
    assert a["share"] + b["share"] == pytest.approx(1)
    assert report["tenant_jain_index"] == pytest.approx((2 + 1) ** 2 / (2 * (2**2 + 1**2)))
    ttft = report.requests["ttft_ms"]
    assert b["mean_ttft_ms"] == pytest.approx(ttft[2::3].mean())
    assert b["goodput_completed_requests"] == sum(ttft[2::3] <= 500)
    assert b["deadline_met_requests"] == sum(ttft[2::3] <= 400)
    done = cli(shop(folder), "--num-workers", "2", "--report-json", str(folder / "report.json"))
    assert "Jain Index of Tokens: 0.900" in done.stdout
    assert json.loads((folder / "report.json").read_text())["tenants"][1]["mean_ttft_ms"] == b["mean_ttft_ms"]
    assert "tenants" not in busy("random")


def test_rows_have_tenants_and_deadlines_only_if_traces_do(cli: Cli, folder: Path) -> None:
    refuse = By(lambda request, _: REJECT if request.id == 4 else 0)
    with pytest.warns(UserWarning, match="1 of 90 requests were refused by the router"):
        requests = run_trace_replay(shop(folder), num_workers=2, router=refuse).requests
    assert requests["tenant"] == ["a", "a", "b"] * 30
    assert set(requests["deadline_ms"]) == {400}
    met = [int(ms <= 400) for ms in requests["ttft_ms"]]
    assert list(requests["deadline_met"]) == met
    assert met[4] == 0
    assert 0 < sum(met) < 90
    done = cli(shop(folder, deadline_ms=None), "--num-workers", "2", "--report-jsonl", "rows.jsonl")
    assert done.returncode == 0, done.stderr
    first = json.loads((folder / "rows.jsonl").read_text().partition("\n")[0])
    assert (first["tenant"], first["deadline_ms"], first["deadline_met"]) == ("a", None, None)
    assert not {"tenant", "deadline_ms", "deadline_met"} & set(busy("random").requests)


def queue_of(policy: str, **more: Any) -> dict[str, Any]:
    config = {"router_queue_policy": policy, "router_queue_threshold": 0.2, **more}
    return {"router_mode": "kv_router", "router_config": config, "num_workers": 2}


def test_orders_of_the_queue(folder: Path) -> None:
    trace = shop(folder, "aaaaab", None, 1.0)
    means = {}
    for name, policy, more in [
        ("fcfs", "fcfs", {}),
        ("wfq", "wfq", {}),
        ("weighted", "wfq", {"router_tenant_weights": "b=9"}),
    ]:
        report = run_trace_replay(trace, **queue_of(policy, **more))
        means[name] = {tenant["tenant"]: tenant["mean_ttft_ms"] for tenant in report["tenants"]}
    assert means["weighted"]["b"] < means["wfq"]["b"] < 0.6 * means["fcfs"]["b"]
    rows = [json.loads(line) for line in Path(trace).read_text().splitlines()]
    for i, line in enumerate(rows):
        line["priority"], line["deadline_ms"] = i % 2, 1000 * (1 + i % 3)
    trace = write_trace(folder / "both.jsonl", rows)
    ttft = run_trace_replay(trace, **queue_of("priority")).requests["ttft_ms"]
    assert ttft[1::2].mean() < 0.6 * ttft[::2].mean()
    ttft = run_trace_replay(trace, **queue_of("edf")).requests["ttft_ms"]
    assert ttft[::3].mean() < 0.7 * ttft[1::3].mean() < 0.7 * ttft[2::3].mean()


@pytest.mark.filterwarnings("error")
def test_queue_settings_that_mean_nothing(folder: Path) -> None:
    plain = write_trace(folder / "plain.jsonl", [row(i, 64, 2, [i]) for i in range(4)])
    with pytest.raises(UserWarning, match="router_queue_policy wfq has no effect without tenants"):
        run_trace_replay(plain, **queue_of("wfq"))
    with pytest.raises(UserWarning, match="router_queue_policy edf has no effect without deadline_ms"):
        run_trace_replay(plain, **queue_of("edf"))
    for weights in ["b", "b=0", "b=x", "b=1,b=2", "=", "b=inf"]:
        with pytest.raises(ValueError, match=r"router_tenant_weights: got .*, want tenants with weights above 0"):
            run_trace_replay(plain, **queue_of("wfq", router_tenant_weights=weights))
    with pytest.raises(ValueError, match=r'router_tenant_weights: got .*, want router_queue_policy "wfq" as well'):
        run_trace_replay(plain, **queue_of("fcfs", router_tenant_weights="b=2"))


def example(name: str, trace: str, **options: Any) -> Any:
    return run_trace_replay(trace, router=f"{EXAMPLES / name}", router_config=options or None, num_workers=4)


def test_examples_are_short() -> None:
    ideas = sorted(EXAMPLES.glob("*.py"))
    assert len(ideas) == 4
    assert all(len(idea.read_text().splitlines()) < 40 for idea in ideas)


@pytest.mark.filterwarnings("ignore:.*were refused by the router")
def test_the_ideas_of_the_examples(folder: Path) -> None:
    mixed = [json.loads(line) for line in Path(shop(folder, gap_ms=1.0)).read_text().splitlines()]
    for i, line in enumerate(mixed):
        line["deadline_ms"] = 100 if i % 3 == 0 else 20_000
    urgent = write_trace(folder / "urgent.jsonl", mixed)
    slack = example("least_slack.py:LeastSlack", urgent, most=1024)
    idle = run_trace_replay(urgent, router_mode="least_tokens", num_workers=4)
    met = [sum(tenant["deadline_met_requests"] for tenant in of["tenants"]) for of in (slack, idle)]
    assert slack.requests["ttft_ms"][::3].mean() < 0.5 * idle.requests["ttft_ms"][::3].mean()
    assert met[0] >= met[1]

    shared = [json.loads(line) for line in Path(shop(folder, "abcd", gap_ms=40.0)).read_text().splitlines()]
    for line in shared:
        line["hash_ids"][0] = ord(line["tenant"])  # a prefix of each tenant's
    pinned = write_trace(folder / "pinned.jsonl", shared)
    homes = example("pin_tenants.py:PinTenants", pinned).requests["decode_worker_idx"]
    assert all(len(set(homes[k::4])) == 1 for k in range(4))

    crowd = shop(folder, deadline_ms=150, gap_ms=4.0)
    admitted = example("deadline_admission.py:DeadlineAdmission", crowd, tokens_per_ms=25)
    everyone = run_trace_replay(crowd, router_mode="least_tokens", num_workers=4)
    in_time = [sum(tenant["deadline_met_requests"] for tenant in of["tenants"]) for of in (admitted, everyone)]
    assert in_time[0] > in_time[1]
    assert admitted["rejected_requests"] > 0
