"""The KV-aware router as users meet it: its arguments, its log, repeated decisions, seeds."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import typing
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused, row, write_trace

import dynamo.llm
import dynamo.mocker
from dynamo._shell.fields import fields_of
from dynamo._shell.router_fields import RouterFields
from dynamo.mocker import KvRouterConfig
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay

ROUTED: dict[str, Any] = {"router_mode": "kv_router", "num_workers": 3, "trace_block_size": 64}
ROUTED_CLI = ["--router-mode", "kv_router", "--num-workers", "3", "--trace-block-size", "64"]


@pytest.fixture
def trace(folder: Path) -> str:
    """Prompts that share prefixes, among them many ties between idle workers."""
    shared = [[1, 2], [3, 4, 5], [6]]
    rows = [row(20.0 * i, 64 * 4, 5, [*shared[i % 3], *range(100 + 4 * i, 104 + 4 * i)][:4]) for i in range(40)]
    return write_trace(folder / "trace.jsonl", rows)


def log_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_decision_is_logged(folder: Path, trace: str) -> None:
    report = run_trace_replay(trace, router_log=folder / "log.jsonl", **ROUTED)
    log = log_of(folder / "log.jsonl")
    assert [entry["trace_row"] for entry in log] == list(range(40))
    assert [entry["chosen"] for entry in log] == report.requests["decode_worker_idx"].tolist()
    for entry in log:
        assert list(entry) == [
            "time_ms", "stage", "trace_row", "queue_wait_ms", "chosen", "tied", "pinned", "candidates",
        ]  # fmt: skip
        assert (entry["stage"], entry["queue_wait_ms"], entry["pinned"]) == ("aggregated", 0, False)
        costs = [candidate["cost"] for candidate in entry["candidates"]]
        assert costs[entry["chosen"]] == min(costs)
        assert costs.count(min(costs)) == entry["tied"]
        for worker, candidate in enumerate(entry["candidates"]):
            assert candidate["worker"] == worker
            waiting = candidate["prefill_tokens"] + 256
            blocks = candidate["active_blocks"] + candidate["new_blocks"]
            assert candidate["cost"] == max(waiting / 64 - candidate["overlap_blocks"], 0) + blocks
    assert any(candidate["overlap_blocks"] for entry in log for candidate in entry["candidates"])


def test_a_log_leaves_the_run_as_it_is(folder: Path, trace: str, cli: Cli) -> None:
    for name in ("plain", "logged"):
        more = ["--router-log", "log.jsonl"] if name == "logged" else []
        assert cli(trace, *ROUTED_CLI, "--report-jsonl", f"{name}.jsonl", *more).returncode == 0
    assert (folder / "plain.jsonl").read_bytes() == (folder / "logged.jsonl").read_bytes()


def test_equal_seeds_equal_runs(folder: Path, trace: str) -> None:
    def workers(**options: Any) -> list[int]:
        return list(run_trace_replay(trace, **ROUTED, **options).requests["decode_worker_idx"])

    assert workers() == workers(seed=0) == workers(seed=0, router_config={"router_seed": 0})
    assert workers(seed=5) == workers(router_config=KvRouterConfig(router_seed=5)) == workers(seed=5)
    assert len({tuple(workers(seed=seed)) for seed in range(5)}) > 1


def test_rows_of_one_run_are_the_decisions_of_the_next(folder: Path, trace: str) -> None:
    first = run_trace_replay(trace, seed=3, report_jsonl_path=folder / "rows.jsonl", **ROUTED)
    again = run_trace_replay(
        trace, seed=4, router_decisions=folder / "rows.jsonl", router_log=folder / "log.jsonl", **ROUTED
    )
    assert again.requests["decode_worker_idx"].tolist() == first.requests["decode_worker_idx"].tolist()
    assert again.requests["last_token_ms"].tolist() == first.requests["last_token_ms"].tolist()
    assert all(entry["pinned"] for entry in log_of(folder / "log.jsonl"))


def test_a_dear_worker_must_be_forced(folder: Path, trace: str, cli: Cli) -> None:
    run_trace_replay(trace, router_log=folder / "log.jsonl", **ROUTED)
    entry = next(entry for entry in log_of(folder / "log.jsonl") if entry["tied"] == 1)
    dear = (entry["chosen"] + 1) % 3
    decisions = [{"trace_row": e["trace_row"], "decode_worker_idx": e["chosen"]} for e in log_of(folder / "log.jsonl")]
    decisions[entry["trace_row"]]["decode_worker_idx"] = dear
    (folder / "decisions.jsonl").write_text("".join(json.dumps(d) + "\n" for d in decisions))

    done = cli(trace, *ROUTED_CLI, "--router-decisions", "decisions.jsonl", "--report-jsonl", "rows.jsonl")
    cost = entry["candidates"][dear]["cost"]
    assert done.returncode == 1
    assert f"line {entry['trace_row'] + 1} is pinned to worker {dear}, which costs {cost:g}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "rows.jsonl").exists()

    force = ["--router-decisions", "decisions.jsonl", "--router-decisions-mode", "force"]
    done = cli(trace, *ROUTED_CLI, *force, "--report-jsonl", "rows.jsonl")
    assert done.returncode == 0
    assert log_of(folder / "rows.jsonl")[entry["trace_row"]]["decode_worker_idx"] == dear


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"trace_row": 40, "decode_worker_idx": 0}, "line 1: trace_row: got 40, want a row of the workload"),
        ({"trace_row": 0, "decode_worker_idx": 3}, "line 1: decode_worker_idx: got 3, want a worker from 0 to 2"),
        ({"trace_row": 0, "decode_worker_idx": -1}, "decode_worker_idx: got -1, want a worker from 0 to 2"),
        ({"trace_row": 0, "prefill_worker_idx": 0}, "prefill_worker_idx: got 0, want none"),
        ({"decode_worker_idx": 0}, "line 1: trace_row: missing"),
        ({"trace_row": "0"}, "line 1: trace_row: want an integer"),
        ([1], "line 1: want a JSON object with trace_row, decode_worker_idx"),
    ],
)
def test_decisions_that_cannot_be_meant(folder: Path, trace: str, cli: Cli, line: object, message: str) -> None:
    (folder / "decisions.jsonl").write_text(json.dumps(line) + "\n")
    assert message in refused(cli(trace, *ROUTED_CLI, "--router-decisions", "decisions.jsonl"))


def test_a_decision_given_twice(folder: Path, trace: str, cli: Cli) -> None:
    (folder / "decisions.jsonl").write_text('{"trace_row": 1, "decode_worker_idx": 0}\n' * 2)
    message = refused(cli(trace, *ROUTED_CLI, "--router-decisions", "decisions.jsonl"))
    assert "line 2: trace_row: got 1 a second time" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--router-mode", "kv_router"], "num_workers: got 1, want at least 2 with router_mode kv_router"),
        (["--router-log", "log.jsonl"], 'router_log: got "log.jsonl", want router_mode kv_router with it'),
        (["--router-decisions", "d.jsonl"], 'router_decisions: got "d.jsonl", want router_mode kv_router with it'),
        ([*ROUTED_CLI, "--router-decisions", "none.jsonl"], "router_decisions: none.jsonl: file does not exist"),
        ([*ROUTED_CLI, "--router-decisions-mode", "force"], "want router_decisions with it"),
        ([*ROUTED_CLI, "--router-config", '{"overlap_score_weigth": 1}'], 'did you mean "overlap_score_weight"?'),
        ([*ROUTED_CLI, "--router-config", '{"overlap_score_credit": 1.5}'], "use prefill_load_scale for more weight"),
        ([*ROUTED_CLI, "--router-config", "[]"], "router_config: got [], want a JSON object"),
        ([*ROUTED_CLI, "--router-log", "trace.jsonl"], "--router-log: 'trace.jsonl' is the same file as trace_files"),
        (["--seed", "-1"], "seed: got -1, want an integer from 0 to 18446744073709551615"),
    ],
)
def test_refusals(trace: str, cli: Cli, arguments: list[str], message: str) -> None:
    assert message in refused(cli(trace, *arguments))


def test_options_without_effect_are_named(trace: str, cli: Cli) -> None:
    done = cli(trace, "--num-workers", "2", "--router-config", '{"router_temperature": 1}', "--seed", "3")
    assert done.returncode == 0
    assert 'router_config "{\\"router_temperature\\": 1}" has no effect with router_mode round_robin' in done.stderr
    assert "seed 3 has no effect with router_mode round_robin" in done.stderr
    done = cli(trace, *ROUTED_CLI, "--router-config", '{"use_kv_events": false, "router_max_tree_size": 5}')
    assert done.returncode == 0
    assert "use_kv_events" in done.stderr
    assert "router_max_tree_size" in done.stderr


def test_settings_change_the_run(folder: Path) -> None:
    trace = write_trace(folder / "calm.jsonl", [row(1000.0 * i, 256, 5, [i % 4, 10, 11, 12]) for i in range(40)])

    def ratio(**settings: Any) -> float:
        report = run_trace_replay(trace, router_config=settings, **ROUTED)
        return float(report["prefix_cache_reused_ratio"])

    assert ratio() == ratio(overlap_score_credit=1.0) == 0.9
    assert ratio(overlap_score_credit=0.0) < 0.9


def test_synthetic_runs_are_routed_too() -> None:
    engine = {"max_num_batched_tokens": 512}
    report = run_synthetic_trace_replay(
        500, 20, 30, router_mode="kv_router", num_workers=4, extra_engine_args=engine,
        router_config=KvRouterConfig(router_queue_threshold=0.5, router_queue_policy="lcfs"),
    )  # fmt: skip
    assert report["completed_requests"] == 30
    assert set(report.requests["decode_worker_idx"].tolist()) == {0, 1, 2, 3}


# The class.


def test_class_defaults_and_names() -> None:
    config = KvRouterConfig()
    assert dynamo.llm.KvRouterConfig is dynamo.mocker.KvRouterConfig is KvRouterConfig
    assert (config.overlap_score_credit, config.prefill_load_scale, config.router_queue_threshold) == (1.0, 1.0, 16.0)
    assert (config.router_temperature, config.router_queue_policy, config.router_seed) == (0.0, "fcfs", None)
    assert config.overlap_score_weight == 1.0
    assert config.to_json() == "{}"
    assert set(RouterFields.__annotations__) == set(fields_of(None, "router_config"))
    assert list(inspect.signature(KvRouterConfig).parameters)[:3] == [
        "overlap_score_weight", "host_cache_hit_weight", "disk_cache_hit_weight",
    ]  # fmt: skip
    typing.get_type_hints(KvRouterConfig.__init__)


def test_the_deprecated_weight() -> None:
    with pytest.warns(DeprecationWarning, match="prefill_load_scale"):
        config = KvRouterConfig(2.5)
    assert (config.prefill_load_scale, config.overlap_score_weight, config.overlap_score_credit) == (2.5, 2.5, 1.0)
    with pytest.warns(DeprecationWarning, match="prefill_load_scale"):
        config = KvRouterConfig.from_json('{"overlap_score_weight": 0, "prefill_load_scale": 3}')
    assert (config.prefill_load_scale, config.overlap_score_credit) == (0, 0)
    with pytest.warns(DeprecationWarning, match="prefill_load_scale"):
        config.overlap_score_weight = 4
    assert (config.prefill_load_scale, config.overlap_score_credit) == (4, 0)


def test_copies_and_overrides() -> None:
    config = KvRouterConfig(router_queue_policy="wspt", router_queue_threshold=None)
    changed = config.with_overrides(overlap_score_credit=0.25, prefill_load_scale=2)
    assert (changed.overlap_score_credit, changed.prefill_load_scale) == (0.25, 2.0)
    assert changed.router_queue_policy == "wspt"
    assert changed.router_queue_threshold is None
    assert config.overlap_score_credit == 1.0
    for twin in (config.copy(), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert twin == config
        assert twin is not config


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"overlap_score_credit": 1.5}, ValueError, "use prefill_load_scale for more weight"),
        ({"router_temperature": -1}, ValueError, "router_temperature: got -1, want a finite number >= 0"),
        ({"router_queue_policy": "FCFS"}, ValueError, 'router_queue_policy: got "FCFS", want one of fcfs, lcfs, wspt'),
        ({"use_kv_events": 1}, TypeError, "use_kv_events: got 1, want true or false"),
        ({"router_temprature": 1.0}, TypeError, 'did you mean "router_temperature"?'),
    ],
)
def test_bad_settings(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        KvRouterConfig(**given)
    assert message in str(raised.value)


def test_json_errors_name_the_class() -> None:
    with pytest.raises(ValueError, match=r"KvRouterConfig JSON: router_ttl_secs: got -1"):
        KvRouterConfig.from_json('{"router_ttl_secs": -1}')
    config = KvRouterConfig()
    with pytest.raises(ValueError, match="prefill_load_scale: got -1"):
        config.prefill_load_scale = -1
    with pytest.raises(AttributeError):
        config.router_ttl_secs = 5
