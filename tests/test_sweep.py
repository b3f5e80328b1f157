"""Sweeps through their command line and from Python: points, figures, searches, and what they refuse."""

from __future__ import annotations

import csv
import gzip
import html
import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import WALL_CLOCK, Cli, refused, row, write_trace
from pagetools import embedded_in

from dynamo import sweep
from dynamo.replay import run_synthetic_trace_replay
from dynamo.sweep import wording

MADE = {"input_tokens": 300, "output_tokens": 20, "request_count": 60, "arrival_interval_ms": 5}
DRAWN = {**MADE, "input_tokens": "uniform(100,500)"}
WORKERS = {"num_workers": [1, 2, 4]}

Spec = dict[str, Any]


def spec_of(**keys: Any) -> Spec:
    return {"run": MADE, "search": WORKERS, **keys}


@pytest.fixture
def sweeps(cli: Cli) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``python -m dynamo.sweep run`` with a specification, in the folder ``out``."""

    def run(spec: Mapping[str, Any] | str, *options: str) -> subprocess.CompletedProcess[str]:
        text = spec if isinstance(spec, str) else yaml.safe_dump(dict(spec), sort_keys=False)
        Path("spec.yaml").write_text(text)
        return cli("run", "spec.yaml", "-o", "out", *options, module="dynamo.sweep")

    return run


def only(found: sweep.Sweep) -> Mapping[str, Any]:
    (point,) = found
    return point


def test_the_start_of_a_command_leaves_the_machinery_alone() -> None:
    code = "import sys, dynamo.sweep.main; print({'sqlite3', 'dynamo.sweep.sweep', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_figures_are_those_of_the_replay() -> None:
    engine = {"num_gpu_blocks": 4096, "aic_tp_size": 2}
    run = {**MADE, "extra_engine_args": engine}
    found = sweep.run({"run": run, "search": {"num_workers": [3], "engine.max_num_seqs": [4]}, "gpu_hour_price": 2.5})
    report = run_synthetic_trace_replay(
        **MADE,  # type: ignore[arg-type]
        num_workers=3,
        extra_engine_args={**engine, "max_num_seqs": 4},
    )
    point = only(found)
    assert (point["status"], point["topology"], point["figures"]["gpus"]) == ("ok", "agg", 6)
    kept = {k: v for k, v in report.items() if k not in WALL_CLOCK | {"timing_model", "provenance"}}
    assert kept.items() <= point["figures"].items()
    assert point["figures"]["output_tok_s_per_gpu"] == report["output_throughput_tok_s"] / 6
    assert point["figures"]["tok_s_per_user"] == 1000 / report["mean_tpot_ms"]
    price = 2.5 * report["gpu_hours"] * 1e6 / report["total_output_tokens"]
    assert point["figures"]["cost_per_million_output_tokens"] == price


def test_the_command_of_a_point_repeats_it(sweeps: Callable[..., Any], cli: Cli, folder: Path) -> None:
    trace = write_trace(folder / "a trace.jsonl", [row(10 * at, 64, 8, [at % 3, 9]) for at in range(12)])
    run = {"trace": trace, "trace_block_size": 32, "max_sim_time_ms": 50_000, "router_mode": "kv_router"}
    search = {
        "topology": ["agg", "disagg"],
        "engine.block_size": [16],
        "num_workers": [2],
        "num_prefill_workers": [2],
        "router.overlap_score_credit": [0.5],
    }
    assert sweeps({"run": run, "search": search}).returncode == 0
    found = sweep.load("out")
    assert [point["topology"] for point in found] == ["agg", "disagg"]
    for point in found:
        done = cli(*shlex.split(point["command"])[3:], "--report-json", "report.json")
        assert done.returncode == 0, done.stderr
        report = json.loads(Path("report.json").read_text())
        for name in ("mean_ttft_ms", "output_throughput_tok_s", "gpu_hours"):
            assert report[name] == point["figures"][name]


def test_topologies_have_knobs_of_their_own() -> None:
    search = {
        "topology": ["agg", "disagg"],
        "num_workers": [2, 4],
        "num_prefill_workers": [1, 2],
        "num_decode_workers": [1],
        "prefill.max_num_batched_tokens": [4096, 8192],
        "engine.max_num_seqs": [16],
    }
    found = sweep.run({"run": MADE, "search": search})
    assert [(p["topology"], len(p["knobs"])) for p in found] == [("agg", 3)] * 2 + [("disagg", 5)] * 4
    assert all(p["status"] == "ok" for p in found)
    assert {p["figures"]["gpus"] for p in found} == {2, 3, 4}
    pools = found.points[-1]["arguments"]
    assert pools["prefill_engine_args"] == {
        "worker_type": "prefill",
        "max_num_seqs": 16,
        "max_num_batched_tokens": 8192,
    }
    assert pools["decode_engine_args"] == {"worker_type": "decode", "max_num_seqs": 16}


def test_one_worker_has_a_router_that_chooses_ranks() -> None:
    """A router of workers means nothing before one of them; one of ranks does."""
    search = {"router_mode": ["round_robin", "kv_router"], "engine.dp_routing": ["vllm", "router"]}
    engine = {"scheduler": "vllm", "dp_size": 2}
    found = sweep.run({"run": {**MADE, "num_workers": 1, "extra_engine_args": engine}, "search": search})
    assert all(point["status"] == "ok" for point in found)
    points = [(p["knobs"]["engine.dp_routing"], p["knobs"].get("router_mode")) for p in found]
    assert sorted(points, key=str) == [("router", "kv_router"), ("router", "round_robin"), ("vllm", None)]


def test_topologies_have_the_same_scheduler() -> None:
    """SGLang's workers do not hand off with mixed chunks."""
    agg, disagg = sweep.run({"run": MADE, "search": {"topology": ["agg", "disagg"], "engine.scheduler": ["vllm"]}})
    assert (agg["status"], disagg["status"]) == ("ok", "ok")
    assert disagg["arguments"]["decode_engine_args"] == {"worker_type": "decode", "scheduler": "vllm"}
    search = {"topology": ["agg", "disagg"], "engine.engine_type": ["sglang"], "engine.scheduler": ["sglang"]}
    found = sweep.run({"run": MADE, "search": search})
    assert [p["status"] for p in found] == ["ok", "ok"]
    agg, disagg = sweep.run({"run": MADE, "search": search | {"engine.sglang.enable_mixed_chunk": [True]}})
    assert (agg["status"], disagg["status"]) == ("ok", "rejected")
    assert "enable_mixed_chunk" in disagg["reason"]


def test_one_worker_needs_no_router() -> None:
    search = {"num_workers": [1, 2], "router_mode": ["round_robin", "kv_router"], "router.prefill_load_scale": [1, 2]}
    found = sweep.run({"run": MADE, "search": search})
    assert [dict(p["knobs"]) for p in found] == [
        {"num_workers": 1},
        {"num_workers": 2, "router_mode": "round_robin"},
        {"num_workers": 2, "router_mode": "kv_router", "router.prefill_load_scale": 1},
        {"num_workers": 2, "router_mode": "kv_router", "router.prefill_load_scale": 2},
    ]
    assert all(p["status"] == "ok" for p in found)


def test_settings_change_several_keys() -> None:
    settings = {"small": {"engine.num_gpu_blocks": 256, "num_workers": 4}, "large": {"engine.num_gpu_blocks": 4096}}
    found = sweep.run({"run": MADE, "search": {"gpu": {"settings": settings}}, "where": "num_workers <= 4"})
    assert [p["knobs"] for p in found] == [{"gpu": "small"}, {"gpu": "large"}]
    assert [p["figures"]["gpus"] for p in found] == [4, 1]


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"log": [16, 128]}, [16, 32, 64, 128]),
        ({"log": [1, 100], "points": 3}, [1, 10, 100]),
        ({"log": [8, 20], "step": 2}, [8, 16]),
        ({"linear": [1, 4]}, [1, 2, 3, 4]),
        ({"linear": [10, 30], "step": 10}, [10, 20, 30]),
        ({"linear": [10, 20], "points": 3}, [10, 15, 20]),
        ({"values": [3, 1]}, [3, 1]),
    ],
)
def test_ranges(given: Mapping[str, Any], values: list[int]) -> None:
    found = sweep.run({"run": MADE, "search": {"engine.max_num_seqs": given}})
    assert [p["knobs"]["engine.max_num_seqs"] for p in found] == values


def test_what_cannot_be_feasible_is_listed_and_not_run() -> None:
    search = {"num_workers": [1, 8], "engine.num_gpu_blocks": [2, 4096]}
    found = sweep.run({"run": MADE, "search": search, "where": "gpus <= 4"})
    assert [p["status"] for p in found] == ["infeasible", "ok", "infeasible", "infeasible"]
    assert found.points[0]["reason"].startswith("extra_engine_args: a prompt of 300 tokens is larger than the KV pool")
    assert found.points[3]["reason"] == "where: gpus <= 4 (gpus is 8)"
    assert found.simulated == 1
    assert found.content["counts"] == {"infeasible": 3, "ok": 1}


def test_a_missed_bound_is_named() -> None:
    found = sweep.run(spec_of(sla={"p99_ttft_ms": 1e-3, "output_throughput_tok_s": 1, "mean_itl_ms": {"max": 1e-6}}))
    for point in found:
        assert point["status"] == "infeasible"
        assert point["reason"].startswith("mean_token_gap_ms <= 1e-06: got ")  # missed by more than the other
        assert [verdict["met"] for verdict in point["sla"]] == [True, False, True, False]
        assert point["figures"]["mean_ttft_ms"] > 0
    assert found.front == []
    assert "No point keeps the SLA." in str(found)


def test_rejected_requests_are_a_missed_bound() -> None:
    search = {"engine.num_gpu_blocks": [6]}
    run = {**MADE, "input_tokens": "uniform(100,380)"}
    assert only(sweep.run({"run": run, "search": search}))["reason"].startswith("rejected_requests <= 0: got ")
    found = only(sweep.run({"run": run, "search": search, "sla": {"rejected_requests": 60}}))
    assert (found["status"], found["figures"]["rejected_requests"] > 0) == ("ok", True)


def test_a_point_that_is_refused_does_not_end_the_sweep(sweeps: Callable[..., Any]) -> None:
    done = sweeps(spec_of(search={"num_workers": [0, 2], "engine.block_size": [64, 7.5]}))
    assert done.returncode == 0, done.stderr
    found = sweep.load("out")
    assert [p["status"] for p in found] == ["rejected", "rejected", "ok", "rejected"]
    assert found.points[0]["reason"].startswith("num_workers: got 0")
    assert "block_size: got 7.5" in found.points[3]["reason"]


def test_seeds_give_intervals() -> None:
    def once(seed: int) -> float:
        return float(only(sweep.run({"run": {**DRAWN, "seed": seed}, "search": {"num_workers": [2]}}))["figures"][name])

    name = "mean_ttft_ms"
    numbers = [once(seed) for seed in (0, 1, 2)]
    point = only(sweep.run({"run": DRAWN, "search": {"num_workers": [2]}, "seeds": 3}))
    mean = sum(numbers) / 3
    half = 4.302652729911275 * math.sqrt(sum((n - mean) ** 2 for n in numbers) / 2 / 3)
    assert point["figures"][name] == pytest.approx(mean, rel=1e-12)
    assert point["intervals"][name] == pytest.approx([mean - half, mean + half], rel=1e-12)
    assert half > 0
    assert len(set(point["runs"])) == 3


def test_recorded_traces_are_bootstrapped_only_on_request(folder: Path) -> None:
    rows = [row(40 * at, 64 + at, 8, [at, 1000 + at, 2000 + at]) for at in range(40)]
    for at in range(0, 40, 4):
        rows[at]["session_id"] = rows[at + 1]["session_id"] = f"s{at}"
        del rows[at + 1]["timestamp"]
        rows[at + 1]["delay"] = 5
    run = {"trace": write_trace(folder / "t.jsonl", rows), "trace_block_size": 32}
    search = {"num_workers": [1, 2]}
    with pytest.raises(ValueError, match="seeds: got 4, want it left out"):
        sweep.run({"run": run, "search": search, "seeds": 4})
    plain = sweep.run({"run": run, "search": search})
    drawn = sweep.run({"run": run, "search": search, "seeds": 4, "bootstrap": "sessions"}, "out")
    for one, other in zip(plain, drawn, strict=True):
        assert one["figures"] == other["figures"]  # the trace itself is the estimate
        low, high = other["intervals"]["mean_ttft_ms"]
        assert low < other["figures"]["mean_ttft_ms"] < high
        assert len(set(other["runs"])) == 5
    copies = [json.loads(line) for line in Path("out/bootstrap/trace_0.jsonl").read_text().splitlines()]
    sessions = {line.get("session_id") for line in copies} - {None}
    assert any("#2" in session for session in sessions)
    own: dict[int, str] = {}  # a copy of a session shares nothing with the session
    for line in copies:
        for block in line["hash_ids"]:
            assert own.setdefault(block, json.dumps(line["hash_ids"])) == json.dumps(line["hash_ids"])


def test_every_trace_has_draws_of_its_own(folder: Path) -> None:
    def trace(name: str, count: int) -> str:
        return write_trace(folder / name, [row(40 * at, 64, 8, [at, 1000 + at]) for at in range(count)])

    small, large = trace("small.jsonl", 20), trace("large.jsonl", 30)
    both = {"small": {"trace": small}, "large": {"trace": large}}
    run = {"trace": small, "trace_block_size": 32}
    spec: Spec = {"run": run, "search": {"traffic": {"settings": both}}, "seeds": 2, "bootstrap": "sessions"}
    found = sweep.run(spec, "out")
    for point, rows, own in zip(found, (20, 30), ("trace_{}.jsonl", "trace_1_{}.jsonl"), strict=True):
        assert point["figures"]["completed_requests"] == rows
        drawn = {len(Path("out/bootstrap", own.format(seed)).read_text().splitlines()) for seed in (0, 1)}
        assert drawn == {rows}
        assert len(set(point["runs"])) == 3
    alone = sweep.run(spec | {"run": {**run, "trace": large}, "search": {"num_workers": [1]}})
    assert only(alone)["intervals"] == found.points[1]["intervals"]
    search = {"trace": [small, large], "trace_format": ["mooncake", "azure"]}
    with pytest.raises(ValueError, match="bootstrap: got sessions, want trace_format in run and not in search"):
        sweep.run(spec | {"search": search})


def test_generated_example_traces_are_what_is_in_the_folder(folder: Path) -> None:
    made = Path(__file__).parent.parent / "examples/traces"
    subprocess.run([sys.executable, made / "make.py", folder], check=True, timeout=300)
    for name in ("agentic_240.jsonl.gz", "shared_prefix_3200.jsonl.gz"):
        assert gzip.decompress((folder / name).read_bytes()) == gzip.decompress((made / name).read_bytes())


def test_find_max_rate() -> None:
    spec = spec_of(sla={"p99_ttft_ms": 60}, load={"find_max_rate": {"tolerance": 0.05}})
    found = sweep.run(spec)
    rates = [point["figures"]["arrival_rps"] for point in found]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]
    for point in found:
        assert point["status"] == "ok"
        assert point["figures"]["p99_ttft_ms"] <= 60
        assert point["limited_by"].startswith("p99_ttft_ms <= 60: got ")
        ratio = point["arguments"]["arrival_speedup_ratio"]
        assert point["figures"]["arrival_rps"] == pytest.approx(200 * ratio)
        faster = {**MADE, "num_workers": point["knobs"]["num_workers"], "arrival_speedup_ratio": ratio * 1.05}
        assert run_synthetic_trace_replay(**faster)["p99_ttft_ms"] > 60  # type: ignore[arg-type]


def test_find_max_rate_says_so_if_there_is_none() -> None:
    point = only(sweep.run(spec_of(search={"num_workers": [1]}, sla={"p99_ttft_ms": 1e-3}, load="find_max_rate")))
    assert point["status"] == "infeasible"
    assert point["limited_by"].startswith("missed even at ")


def test_find_max_rate_needs_a_workload_that_can_be_too_much() -> None:
    """However fast they arrive, a few requests are served in time."""
    few = {"run": {**MADE, "request_count": 2}, "search": {"num_workers": [4]}, "sla": {"p99_ttft_ms": 1e6}}
    point = only(sweep.run({**few, "load": "find_max_rate"}))
    assert point["status"] == "failed"
    assert point["reason"].endswith("want a longer workload, or high_rps")
    point = only(sweep.run({**few, "load": {"find_max_rate": {"high_rps": 1000}}}))
    assert (point["status"], point["limited_by"]) == ("ok", "high_rps, 1000")
    assert point["figures"]["arrival_rps"] == pytest.approx(1000)


def test_find_min_gpus() -> None:
    bound = 40
    search = {"topology": ["agg", "disagg"], "engine.max_num_seqs": [64]}
    found = sweep.run({"run": MADE, "search": search, "sla": {"mean_ttft_ms": bound}, "load": "find_min_gpus"})
    agg, disagg = found
    workers = agg["arguments"]["num_workers"]
    assert workers > 1
    assert agg["figures"]["mean_ttft_ms"] <= bound
    fewer = run_synthetic_trace_replay(**MADE, num_workers=workers - 1, extra_engine_args={"max_num_seqs": 64})  # type: ignore[arg-type]
    assert fewer["mean_ttft_ms"] > bound
    assert disagg["figures"]["mean_ttft_ms"] <= bound
    pools = {"prefill_engine_args": {"worker_type": "prefill"}, "decode_engine_args": {"worker_type": "decode"}}
    for prefill in range(1, int(disagg["figures"]["gpus"])):  # all that are smaller, one by one
        for decode in range(1, int(disagg["figures"]["gpus"]) - prefill):
            numbers = {"num_prefill_workers": prefill, "num_decode_workers": decode, "router_mode": "round_robin"}
            report = run_synthetic_trace_replay(**MADE, **pools, **numbers)  # type: ignore[arg-type]
            assert report["mean_ttft_ms"] > bound


def test_find_min_gpus_for_sure(folder: Path) -> None:
    spec = {"run": {**DRAWN, "request_count": 30}, "search": {"engine.max_num_seqs": [8]}, "seeds": 4}
    spec["sla"] = {"p99_ttft_ms": 60}
    likely = only(sweep.run({**spec, "load": "find_min_gpus"}, "likely"))
    sure = only(sweep.run({**spec, "load": {"find_min_gpus": {"sure": True}}}, "sure"))
    assert all(verdict["met"] and verdict["sure"] for verdict in sure["sla"])
    assert sure["intervals"]["p99_ttft_ms"][1] <= 60
    assert sure["figures"]["gpus"] > likely["figures"]["gpus"]
    assert not all(verdict["sure"] for verdict in likely["sla"])
    none = only(
        sweep.run({**spec, "load": {"find_min_gpus": {"sure": True, "max_gpus": int(likely["figures"]["gpus"])}}})
    )
    assert none["status"] == "infeasible"
    assert "with 95 % from" in none["reason"]


def test_the_router_counts_while_sizes_are_searched_for() -> None:
    """It means nothing for one worker, but how many there will be is open."""
    search = {"router_mode": ["round_robin", "kv_router"]}
    found = sweep.run({"run": MADE, "search": search, "sla": {"mean_ttft_ms": 40}, "load": "find_min_gpus"})
    assert [p["arguments"]["router_mode"] for p in found] == ["round_robin", "kv_router"]


def test_doubts_are_shown() -> None:
    spec = {"run": DRAWN, "search": {"num_workers": [2]}, "seeds": 3}
    figures = only(sweep.run(spec))
    limit = figures["figures"]["mean_ttft_ms"] + 1e-6
    found = sweep.run({**spec, "sla": {"mean_ttft_ms": limit, "mean_itl_ms": 1e6}})
    verdicts = {verdict["figure"]: (verdict["met"], verdict["sure"]) for verdict in only(found)["sla"]}
    assert verdicts == {"rejected_requests": (True, True), "mean_ttft_ms": (True, False), "mean_itl_ms": (True, True)}
    assert f"Not sure at point 1: mean_ttft_ms <= {limit:g}, with 95 % from" in str(found)


def test_the_best_point_is_the_same_everywhere(sweeps: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """All points have the same number of GPUs; the first ones are slower for users."""
    spec = spec_of(search={"engine.num_gpu_blocks": [128, 16384, 32768]}, objectives=["gpus", "tok_s_per_user"])
    done = sweeps(spec)
    content = json.loads(Path("out/report.json").read_text())
    (front,) = content["fronts"]["all"]
    assert front > 1
    assert content["best"] == {"gpus": front, "tok_s_per_user": front}
    assert f"Point {front} again:" in done.stdout
    assert f"Point {front} again:" in Path("out/report.txt").read_text()
    page = Path("out/report.html").read_text()
    assert embedded_in(page)["best"] == front
    assert re.findall(r'data-point="(\d+)"', page) == [str(front)] * 2


def test_a_notebook_shows_the_report() -> None:
    found = sweep.run({"run": MADE, "search": {"num_workers": [1, 2]}})
    shown = found._repr_html_()
    assert shown == f"<pre>{html.escape(str(found))}</pre>"
    assert "Durations: built-in polynomial, of no particular GPU" in shown


def test_the_answer_names_the_deployment(sweeps: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    spec = {
        "run": {**MADE, "extra_engine_args": {"aic_tp_size": 2, "max_num_batched_tokens": 512}},
        "search": {"topology": ["agg", "disagg"], "engine.max_num_seqs": [4, 8], "router_mode": ["kv_router"]},
        "sla": {"mean_ttft_ms": 60},
        "load": {"find_min_gpus": {"max_gpus": 16}},
    }
    done = sweeps(spec)
    assert done.returncode == 0
    content = json.loads(Path("out/report.json").read_text())
    best = next(p for p in content["points"] if p["topology"] == "agg" and p["status"] == "ok")
    (pool,) = best["deployment"]["pools"]
    assert (pool["workers"] * 2, pool["tp"], pool["max_num_batched_tokens"]) == (best["figures"]["gpus"], 2, 512)
    line = f"{pool['workers']} x TP 2 = {best['figures']['gpus']:.0f} GPUs, vllm, max_num_seqs {pool['max_num_seqs']}, "
    line += "max_num_batched_tokens 512, KV pool 16384 blocks of 64, router kv_router"
    assert wording.deployed_in_a_line(best) == line
    answer = content["points"][content["best"]["gpus"] - 1]
    assert f"with point {answer['id']}:\n  {wording.deployed_in_a_line(answer)}\n" in done.stdout
    page = Path("out/report.html").read_text()
    assert f"<b>{answer['deployment']['pools'][0]['workers']} " in page
    assert f" x TP 2 = {answer['figures']['gpus']:.0f} GPUs</b>" in page
    two = next(p for p in embedded_in(page)["points"] if p["topology"] == "disagg" and p["status"] == "ok")
    assert re.fullmatch(r"\d prefill \+ \d decode x TP 2", two["workers"])
    header, *rows = list(csv.reader(Path("out/points.csv").read_text().splitlines()))
    assert header[:13] == [
        *("id", "topology", "engine.max_num_seqs", "router_mode", "status", "reason", "on_front"),
        *("replicas", "tp", "engine", "max_num_seqs", "max_num_batched_tokens", "router"),
    ]
    assert header.index("gpus") < header.index("output_tok_s_per_gpu")
    found = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert found[str(best["id"])]["replicas"] == str(pool["workers"])
    assert found[str(two["id"])]["prefill_workers"] != ""


def test_no_point_keeps_the_service_level(sweeps: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = sweeps(spec_of(sla={"p99_ttft_ms": 1}))
    assert done.returncode == 3
    content = json.loads(Path("out/report.json").read_text())
    least = min(content["points"], key=lambda point: point["figures"]["p99_ttft_ms"])
    over = least["figures"]["p99_ttft_ms"] - 1
    assert content["nearest"]["point"] == least["id"]
    assert content["nearest"]["by"] == pytest.approx(over)
    line = f"The nearest is point {least['id']}, which misses p99_ttft_ms <= 1 by {100 * over:.2g} %"
    assert line in done.stdout
    assert line in done.stderr
    page = Path("out/report.html").read_text()
    assert line.replace("<", "&lt;") in page
    assert embedded_in(page)["best"] == least["id"]


def test_bounds_that_nothing_can_keep() -> None:
    with pytest.raises(ValueError, match=r"sla: p99_ttft_ms: got .*, want min at most max"):
        sweep.run(spec_of(sla={"p99_ttft_ms": {"min": 10, "max": 1}}))


def test_objectives_and_the_front() -> None:
    objectives = ["gpus", {"minimize": "p99_e2e_latency_ms"}]
    found = sweep.run({"run": MADE, "search": {"num_workers": {"linear": [1, 8]}}, "objectives": objectives})
    numbers = [(p["figures"]["gpus"], p["figures"]["p99_e2e_latency_ms"]) for p in found]
    beaten = {a for a in numbers for b in numbers if b != a and b[0] <= a[0] and b[1] <= a[1]}
    assert [(p["figures"]["gpus"], p["figures"]["p99_e2e_latency_ms"]) for p in found.front] == sorted(
        set(numbers) - beaten
    )
    assert found.content["hulls"]["all"][0] == found.content["fronts"]["all"][0]
    assert set(found.content["hulls"]["all"]) <= set(found.content["fronts"]["all"])
    (knob,) = found.content["influence"]["gpus"]
    assert (knob["knob"], knob["share"]) == ("num_workers", pytest.approx(1))


def test_points_as_tables(sweeps: Callable[..., Any]) -> None:
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    assert sweeps(spec_of(where="gpus < 4", seeds=2, run=DRAWN)).returncode == 0
    frame = sweep.load("out").to_pandas()
    assert list(frame["num_workers"]) == [1, 2, 4]
    assert list(frame["status"]) == ["ok", "ok", "infeasible"]
    assert (frame["mean_ttft_ms_low"][:2] <= frame["mean_ttft_ms"][:2]).all()
    saved = parquet.read_table("out/points.parquet").to_pandas().set_index("id")
    assert list(saved.columns) == list(frame.columns)
    assert list(pandas.read_csv("out/points.csv")["num_workers"]) == [1, 2, 4]
    assert json.loads(Path("out/report.json").read_text()) == sweep.load("out").content


def test_the_commands(sweeps: Callable[..., Any], cli: Cli) -> None:
    done = sweeps(spec_of(jobs=2))
    assert done.returncode == 0, done.stderr
    head = "3 points: 3 ok\nSLA: rejected_requests <= 0\nDurations: built-in polynomial, of no particular GPU\n\n"
    assert done.stdout.startswith(f"{head}Most output_tok_s_per_gpu: ")
    assert done.stdout.endswith("Simulated 3 runs in 2 threads\nSaved report to: out, see report.html\n")
    status = cli("status", "out", module="dynamo.sweep")
    assert status.stdout == "3 of 3 points are finished: 3 ok\n"
    again = cli("resume", "out", module="dynamo.sweep")
    assert "Simulated 0 runs" in again.stdout
    report = cli("report", "out", "--json", module="dynamo.sweep")
    assert json.loads(report.stdout) == json.loads(Path("out/report.json").read_text())
    Path("other.yaml").write_text(
        yaml.safe_dump(spec_of(run={**MADE, "output_tokens": 25}, search={"num_workers": [1, 3]}, jobs=2))
    )
    assert cli("run", "other.yaml", "-o", "other", module="dynamo.sweep").returncode == 0
    diff = cli("diff", "out", "other", module="dynamo.sweep")
    assert diff.stdout.startswith("0 points are the same, 1 differ\nthe specifications differ in run, search\n")
    assert "2 points are in the first only, such as num_workers=2" in diff.stdout
    assert cli("diff", "out", "out", module="dynamo.sweep").stdout == "3 points are the same, 0 differ\n"


BAD: dict[str, tuple[str, str]] = {
    "a trace that is a number": (
        '{"run": {"trace": 5}, "search": {"num_workers": [1]}}',
        "run: trace: got 5, want a path",
    ),
    "traces that are numbers": (
        '{"run": {"trace": [5]}, "search": {"num_workers": [1]}}',
        "run: trace: got [5], want a path",
    ),
    "a seed that is a text": (
        '{"run": {"input_tokens": 9, "seed": "x"}, "search": {"num_workers": [1]}, "seeds": 3}',
        'run: seed: got "x", want an integer',
    ),
    "seeds that are true": (
        '{"run": {"input_tokens": 9}, "search": {"num_workers": [1]}, "seeds": true}',
        "seeds: got true, want an integer from 1 to 1000",
    ),
    "": ("nothing.yaml", "no such file"),
    "unknown key": ("serach: {}", 'unknown key "serach", did you mean search?'),
    "no run": ("search: {num_workers: [1]}", "run: got nothing"),
    "key of run": (
        "run: {router_mod: x}\nsearch: {num_workers: [1]}",
        'run: unknown key "router_mod", did you mean router_mode?',
    ),
    "output": (
        "run: {input_tokens: 1, report_jsonl_path: x}\nsearch: {num_workers: [1]}",
        "report_jsonl_path: want it left out",
    ),
    "no search": ("run: {input_tokens: 1}", "search: got nothing"),
    "empty search": ("run: {input_tokens: 1}\nsearch: {}", "search: got nothing"),
    "empty list": ("run: {input_tokens: 1}\nsearch: {num_workers: []}", "search: num_workers: got an empty list"),
    "twice": ("run: {input_tokens: 1}\nsearch: {num_workers: [1, 1]}", "search: num_workers: 1 is given twice"),
    "knob": ("run: {input_tokens: 1}\nsearch: {engine.max_num_sqs: [1]}", "did you mean engine.max_num_seqs?"),
    "range": ("run: {input_tokens: 1}\nsearch: {num_workers: {log: [0, 8]}}", "search: num_workers: log: got 0"),
    "pools": ("run: {input_tokens: 1}\nsearch: {decode.max_num_seqs: [1]}", "is for two pools"),
    "topology": ("run: {input_tokens: 1}\nsearch: {topology: [both]}", 'topology: got "both", want agg or disagg'),
    "own scheduler": (
        "run: {input_tokens: 1}\nsearch: {topology: [agg, disagg], decode.scheduler: [vllm]}",
        "decode.scheduler: want engine.scheduler with topology",
    ),
    "grid": (
        "run: {input_tokens: 1}\nsearch: {num_workers: {linear: [1, 2000]}, engine.max_num_seqs: {linear: [1, 2000]}}",
        "search: got a grid of 4000000 points, want at most 1000000, or a sampler",
    ),
    "condition": (
        "run: {input_tokens: 1}\nsearch: {num_workers: [1]}\nwhere: prefill_gpu < 3",
        "unknown name prefill_gpu, did you mean prefill_gpus?",
    ),
    "code": (
        "run: {input_tokens: 1}\nsearch: {num_workers: [1]}\nwhere: __import__('os').getcwd() == ''",
        "is not allowed",
    ),
    "objective": (
        "run: {input_tokens: 1}\nsearch: {num_workers: [1]}\nobjectives: [p99_tfft_ms]",
        'objectives: unknown figure "p99_tfft_ms", did you mean p99_ttft_ms?',
    ),
    "direction": (
        "run: {input_tokens: 1}\nsearch: {num_workers: [1]}\nobjectives: [num_requests]",
        "want {maximize: num_requests} or {minimize: num_requests}",
    ),
    "price": (
        "run: {input_tokens: 1}\nsearch: {num_workers: [1]}\nobjectives: [cost_per_million_tokens]",
        "cost_per_million_tokens: want gpu_hour_price with it",
    ),
    "goodput": (
        "run: {input_tokens: 1}\nsearch: {num_workers: [1]}\nobjectives: [goodput_ratio]",
        "goodput_ratio: want sla_ttft_ms",
    ),
    "load": ("run: {input_tokens: 1}\nsearch: {num_workers: [1]}\nload: find_max_rate", "want an sla"),
    "workers": (
        "run: {input_tokens: 1}\nsearch: {num_workers: [1]}\nsla: {p99_ttft_ms: 1}\nload: find_min_gpus",
        "load: find_min_gpus: got num_workers in run or search",
    ),
    "bad run": ("run: {input_tokens: 1}\nsearch: {num_workers: [1]}", "run: request_count: got nothing"),
    "no trace": ("run: {trace: none.jsonl}\nsearch: {num_workers: [1]}", "none.jsonl: no such file"),
    "address": (
        "run: {input_tokens: 1, output_tokens: 1, request_count: 1}\nsearch: {num_workers: [1]}\nexecutor: prcesses",
        'executor: got "prcesses", did you mean processes?',
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(sweeps: Callable[..., Any], name: str) -> None:
    text, message = BAD[name]
    done = (
        sweeps(text)
        if name
        else subprocess.run(
            [sys.executable, "-m", "dynamo.sweep", "run", text, "-o", "out"],
            capture_output=True,
            text=True,
            timeout=300,
        )
    )
    assert message.lower() in refused(done).lower()
    assert not Path("out").exists()


def test_another_specification(sweeps: Callable[..., Any]) -> None:
    assert sweeps(spec_of()).returncode == 0
    before = Path("out/report.json").read_bytes()
    assert "out: holds a sweep of another specification" in refused(sweeps(spec_of(search={"num_workers": [3]})))
    assert Path("out/report.json").read_bytes() == before
    assert sweeps(spec_of(timeout_s=60, jobs=1)).returncode == 0  # that decides no result


def test_changed_input(sweeps: Callable[..., Any], folder: Path) -> None:
    spec = {"run": {"trace": "t.jsonl", "trace_block_size": 32}, "search": WORKERS}
    write_trace(folder / "t.jsonl", [row(10 * at, 64, 8, [at, 9]) for at in range(12)])
    assert sweeps(spec).returncode == 0
    write_trace(folder / "t.jsonl", [row(10 * at, 64, 9, [at, 9]) for at in range(12)])
    assert "out: its input files have changed" in refused(sweeps(spec))


ROUTER = """
class Turns:
    def __init__(self, first: int = 0) -> None:
        self.turn = first

    def choose(self, request, workers):
        self.turn += 1
        return self.turn % STEP
"""


@pytest.mark.parametrize("where", ["run", "search"])
def test_changed_router(sweeps: Callable[..., Any], folder: Path, where: str) -> None:
    """A router that was edited is another one: its old results are not shown as those of the new one."""
    spec: dict[str, Any] = {
        "run": {"trace": "t.jsonl", "trace_block_size": 32},
        "search": {"num_workers": [2, 3]},
        "objectives": ["tenant_jain_index"],
    }
    spec[where]["router"] = "mine.py:Turns" if where == "run" else ["mine.py:Turns", "round_robin"]
    tenants = [{**row(10 * at, 64, 8, [at, 9]), "tenant": f"t{at % 3}", "deadline_ms": 40} for at in range(12)]
    write_trace(folder / "t.jsonl", tenants)
    (folder / "mine.py").write_text(ROUTER.replace("STEP", "2"))
    assert sweeps(spec).returncode == 0
    figures = json.loads(Path("out/report.json").read_text())["points"][0]["figures"]
    assert figures["tenant_jain_index"] == 1
    assert 0 <= figures["deadline_met_ratio"] == figures["deadline_met_requests"] / 12 <= 1
    assert sweeps(spec).returncode == 0
    (folder / "mine.py").write_text(ROUTER.replace("STEP", "1"))
    assert "out: its input files have changed since the sweep began (mine.py)" in refused(sweeps(spec))


def test_settings_of_a_router_are_whole(sweeps: Callable[..., Any]) -> None:
    said = refused(sweeps(spec_of(search={"router.most_tokens": [1, 2]})))
    assert '[{"most_tokens": ...}, ...]' in said
    assert "router_config as a whole" in said


def test_timeouts_end_a_point_and_not_the_sweep() -> None:
    endless = {"output_tokens": 200_000, "request_count": 300_000, "input_tokens": 8}
    search = {"size": {"settings": {"endless": endless, "small": {}}}}
    spec = {"run": {**MADE, "extra_engine_args": {"max_num_seqs": 1}}, "search": search, "timeout_s": 10}
    found = sweep.run({**spec, "jobs": 1})
    assert [p["status"] for p in found] == ["timeout", "ok"]
    assert found.points[0]["reason"] == "not finished after 10 s (timeout_s)"


PLANNED: dict[str, Any] = {
    "run": {
        "input_tokens": 256,
        "output_tokens": 20,
        "request_count": 200,
        "arrival_interval_ms": 10,
        "num_workers": 1,
        "autoscaler": {"policy": "queue", "target": 4, "sync_s": 0.1},
        "gpu_hour_price": 2.5,
    },
    "search": {"autoscaler.target": [1, 50], "autoscaler.max": [2, 5]},
    "objectives": ["gpu_cost", {"minimize": "p99_ttft_ms"}],
}


def test_parameters_of_an_autoscaler_are_varied() -> None:
    """GPUs are those that there were on average, and the price of the run counts."""
    found = sweep.run(PLANNED)
    figures = {tuple(point["knobs"].values()): point["figures"] for point in found.points}
    assert len(figures) == 4
    eager, lazy = figures[1, 5], figures[50, 5]
    assert eager["gpus"] > lazy["gpus"] >= 1
    assert eager["p99_ttft_ms"] < lazy["p99_ttft_ms"]
    assert eager["gpu_cost"] == pytest.approx(2.5 * eager["gpu_hours"])
    assert eager["scaling_changes"] > 0
    commands = [point["command"] for point in found.points if point["knobs"]["autoscaler.max"] == 5]
    assert all('"max": 5' in command for command in commands)


def test_two_policies_are_values_together() -> None:
    policies = [
        [{"policy": "schedule", "schedule": [[0.1, n]], "pool": pool} for pool in ("prefill", "decode")] for n in (2, 3)
    ]
    run = {**PLANNED["run"], "prefill_engine_args": {}, "decode_engine_args": {}, "num_prefill_workers": 1}
    run = {name: value for name, value in run.items() if name not in ("num_workers", "autoscaler")}
    found = sweep.run({"run": run, "search": {"autoscaler": policies, "topology": ["disagg"]}})
    assert [point["status"] for point in found.points] == ["ok", "ok"]
    assert [point["figures"]["scaling_changes"] for point in found.points] == [2, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"search": {"autoscaler.tarket": [1]}}, "did you mean autoscaler.target"),
        (
            {
                "run": {name: value for name, value in PLANNED["run"].items() if name != "num_workers"},
                "load": "find_min_gpus",
                "sla": {"p99_ttft_ms": 9},
            },
            "find_min_gpus: want it left out: a planner",
        ),
    ],
)
def test_planned_sweeps_that_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sweep.run({**PLANNED, **changes})


def test_wrong_values_of_an_autoscaler_are_refused() -> None:
    found = sweep.run({**PLANNED, "search": {"autoscaler.target": [-1, 2]}, "objectives": ["gpu_cost"]})
    assert [point["status"] for point in found.points] == ["rejected", "ok"]
    assert "target: got -1" in found.points[0]["reason"]
