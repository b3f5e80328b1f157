"""Recommendations: the answer is that of exhaustive search, and what is ruled out is ruled out rightly."""

from __future__ import annotations

import html
import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, command, refused, row, write_trace
from documents import PROJECT
from test_aic import fake  # noqa: F401  # a fixture

from dynamo import sweep
from dynamo.replay import durations, run_trace_replay
from dynamo.sweep import summary
from dynamo.sweep.advice import api, basis, bounds, candidates, checks, endurance, flags, longrun, search, wording
from dynamo.sweep.advice.question import ask, parse_sla
from dynamo.sweep.folder import Folder
from dynamo.sweep.sla import parse

ENGINE = {"num_gpu_blocks": 2048, "block_size": 64, "kv_bytes_per_token": 131072}
SLA = "p90_ttft_ms<=900, p90_itl_ms<=40"
SLOW = {"kind": "slow", "at_ms": 3000, "duration_ms": 2000, "target": "random:1", "factor": 1.5}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighty requests in fifteen seconds, with a peak in the middle and prompts that begin alike."""
    rows = [
        row(
            timestamp=at * 180 - (100 * (at - 30) if 30 <= at < 45 else 0),
            input_length=1500 + 500 * (at % 7),
            output_length=40 + 30 * (at % 5),
            hash_ids=[at % 3, *range(100 + 10 * at, 102 + 10 * at + at % 7)],
        )
        for at in range(80)
    ]
    path = tmp_path_factory.mktemp("trace") / "t.jsonl"
    write_trace(path, sorted(rows, key=lambda each: each["timestamp"]))
    return path


def asked(trace: Path, **given: Any) -> Any:
    return ask(str(trace), given.pop("sla", SLA), **{"gpus": 4, "engine": "vllm", "engine_args": ENGINE, **given})


@pytest.mark.parametrize(
    ("objective", "given"),
    [
        ("fewest_gpus", {}),
        ("fewest_gpus", {"engine": "both", "gpus": 3}),
        ("cost", {"gpus": 3}),
        ("fewest_gpus", {"run": {"faults": [SLOW]}}),
        ("goodput", {"gpus": 3, "sla": "p90_ttft_ms<=150, p90_itl_ms<=20"}),
        # Clients that wait for their answers: runs stop once too much is late.
        ("fewest_gpus", {"run": {"replay_concurrency": 24}}),
        ("fewest_gpus", {"run": {"replay_concurrency": 24}, "sla": "p75_e2e_latency_ms<=3000, mean_itl_ms<=40"}),
        ("fewest_gpus", {"run": {"replay_concurrency": 24}, "sla": "mean_e2e_latency_ms<=3000"}),
        ("cost", {"gpus": 3, "run": {"replay_concurrency": 24}}),
    ],
)
def test_the_answer_is_that_of_exhaustive_search(
    trace: Path, tmp_path: Path, objective: str, given: Mapping[str, Any]
) -> None:
    question = asked(trace, objective=objective, **given)
    valid = candidates.enumerate_all(question)
    found = search.find(search.Runner(question, tmp_path / "a.sqlite", {}, None), valid)
    every = search.find(search.Runner(question, tmp_path / "b.sqlite", {}, None), valid, exhaustive=True)
    assert found.best == every.best is not None
    assert len(every.whole) == len(valid) == len(found.whole) + len(found.out)
    assert len(found.whole) < len(valid)
    for name, (how, reason) in found.out.items():
        if how in ("bound", "prefill", "kv", "beginning") and objective != "goodput":
            assert every.whole[name]["status"] == "infeasible", (name, reason)
    for name, point in found.whole.items():
        assert point["figures"] == every.whole[name]["figures"]
    again = search.Runner(question, tmp_path / "a.sqlite", {}, None)
    assert search.find(again, valid).best == found.best
    assert again.simulated == 0  # all is kept


def test_runs_stop_once_too_much_is_late(trace: Path, tmp_path: Path) -> None:
    """The nearest one with fewer GPUs is run to the end nevertheless."""
    question = asked(trace, run={"replay_concurrency": 24})
    valid = candidates.enumerate_all(question)
    found = search.find(search.Runner(question, tmp_path / "a.sqlite", {}, None), valid)
    assert found.best is not None
    gpus = {candidate.name: candidate.gpus for candidate in valid}
    assert gpus[found.best] > 1
    assert found.reached
    assert all(0 < part < 1 for part in found.reached.values())
    reasons = [found.out[name][1] for name in found.reached if name in found.out]
    assert all(
        re.search(
            r"(gaps between|first) tokens are over it, and [\d,]+ of the whole run may be \(after [\d.]+ % of", reason
        )
        for reason in reasons
    )
    assert any(gpus[name] < gpus[found.best] for name in found.whole)


def test_all_of_one_size_are_ruled_out_early(trace: Path, tmp_path: Path) -> None:
    question = asked(trace, sla="max_ttft_ms<=60", gpus=2)
    valid = candidates.enumerate_all(question)
    found = search.find(search.Runner(question, tmp_path / "a.sqlite", {}, None), valid)
    assert found.best is None
    assert {how for how, _ in found.out.values()} == {"beginning"}
    assert len(found.out) + len(found.whole) == len(valid)


def test_what_is_ruled_out_at_the_beginning_misses_in_the_end(trace: Path, tmp_path: Path) -> None:
    """Bounds of every kind, near the figures of a run that is too small for its traffic."""
    whole = sweep.run(spec(trace), tmp_path / "whole").points[0]["figures"]
    early = sweep.run(spec(trace, max_sim_time_ms=whole["duration_ms"] / 2), tmp_path / "early").points[0]["figures"]
    point = sweep.run(spec(trace), tmp_path / "whole").points[0]
    arrivals = search.arrivals_ms(point)
    assert len(arrivals) == 80
    assert search.arrivals_ms({**point, "arguments": {**point["arguments"], "replay_concurrency": 2}}) == []
    ruled_out, waited = 0, 0
    for kind in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_latency_ms"):
        for statistic in ("mean", "median", "p75", "p90", "p95", "p99", "max"):
            name = f"{statistic}_{kind}"
            for factor in (0.05, 0.3, 0.9, 0.999, 1.0, 1.001, 1.5):
                limit = whole[name] * factor
                known, unknown = (
                    bounds.of_beginning(
                        parse({name: limit}), early, whole, bounds.Beginning(whole["duration_ms"] / 2, times)
                    )
                    for times in (arrivals, [])
                )
                assert not (unknown and not known)
                if known:
                    assert whole[name] > limit, (name, factor)
                    ruled_out += 1
                    waited += known != unknown
    assert ruled_out > 30
    assert waited > 3


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True)


def spec(trace: Path, **run: Any) -> dict[str, Any]:
    engine = {**ENGINE, "scheduler": "vllm", "max_num_seqs": 6}
    return {"run": {"trace": str(trace), "extra_engine_args": engine, **run}, "search": {"num_workers": [1]}}


def test_a_request_alone_rules_out_what_is_too_slow_for_it() -> None:
    figures = {"min_ttft_ms": 100.0, "min_itl_ms": 20.0}
    for sla, want in [
        ({"p90_itl_ms": 17}, "p90_token_gap_ms <= 17: a pass alone takes 20 ms"),
        ({"p90_itl_ms": 19}, ""),  # within the slack
        ({"mean_tpot_ms": 10}, "mean_tpot_ms <= 10: a pass alone takes 20 ms"),
        ({"p99_ttft_ms": 50}, "p99_ttft_ms <= 50: the first token of a request alone takes 100 ms"),
        ({"p99_e2e_latency_ms": 50}, "p99_e2e_latency_ms <= 50: the first token of a request alone takes 100 ms"),
        ({"output_tok_s_per_gpu": 1e9}, ""),
    ]:
        assert bounds.alone(parse(sla), figures) == want


def test_the_page_and_the_terminal_say_the_same(trace: Path, cli: Cli, folder: Path) -> None:
    arguments = [str(trace), "--sla", SLA, "--gpus", "3", "--engine", "vllm", "--engine-args", json.dumps(ENGINE)]
    done = run(
        command("recommend", *arguments, "--seeds", "2", "-o", "out", "--gpu-hour-price", "2", module="dynamo.sweep")
    )
    assert done.returncode == 0, done
    text = " ".join(done.stdout.split())
    assert done.stdout.startswith("In short:\n")
    for title in (
        "What is asked:",
        "Start:",
        "Cost:",
        "Service level:",
        "How sure:",
        "Headroom:",
        "What breaks it:",
        "Next best:",
        "How it was found:",
    ):
        assert f"\n{title}\n" in done.stdout
    assert re.search(r"(vllm serve MODEL|dynamo.vllm --model MODEL) ", done.stdout)
    assert re.search(r"holds up to [\d.]+ times this traffic, [\d.]+ instead of [\d.]+\s+requests/s", done.stdout)
    assert "p90_itl_ms is called p90_token_gap_ms in tables and charts" in done.stdout
    assert done.stdout.count("token_gap") == 1
    assert re.search(r"[\d.]+ % of the requests have a TTFT of at most 900 ms and a mean gap", done.stdout)
    assert re.search(
        r"Traffic: 80 requests in \d+ s as they were recorded, on average 2,962 tokens of prompt and 100", text
    )
    assert "calibration" not in text
    assert "TPOT" not in text
    assert "loss of a" in done.stdout
    page = (folder / "out" / "report.html").read_text()
    assert page.count('<section id="advice"') == 1
    assert "loss of a" in page
    card = page[page.index('<div class="cards">') :]
    for words in (text, card[: card.index("</article>")]):
        assert "how far measured latencies are from simulated ones is not known" in words
    content = json.loads((folder / "out" / "report.json").read_text())
    found = content["recommendation"]
    assert content["points"][found["point"] - 1]["knobs"]["deployment"] == found["winner"]
    assert found["cost_per_hour"] == 2 * found["gpus"]
    figures = content["points"][found["point"] - 1]["figures"]
    assert [each["p99"] for each in found["targets"]] == [figures["p99_ttft_ms"], figures["p99_itl_ms"]]
    assert f"<pre>{html.escape(wording.commanded(found['flags'][0])[1][0])}" in page
    assert found["targets"][0]["low"] <= found["targets"][0]["value"] <= found["targets"][0]["high"]
    assert [each["durations"] for each in found["sensitivity"]] == [0.85, 1.15]
    old = Folder.existing("out")
    try:
        old.keep(summary.RECOMMENDATION, {**found, "schema": 1})
        assert "recommendation" not in sweep.load("out").content
        old.keep(summary.RECOMMENDATION, found)
    finally:
        old.close()
    # The folder knows it: reports are written again, and nothing is simulated again.
    again = run(command("report", "out", module="dynamo.sweep"))
    assert again.stdout.startswith("In short:\n")
    repeated = sweep.recommend(
        trace, SLA, gpus=3, engine="vllm", engine_args=ENGINE, seeds=2, directory="out", gpu_hour_price=2
    )
    assert repeated.content["counts"]["runs"] == 0
    assert repeated.best is not None
    assert repeated.best["status"] == "ok"
    assert {**repeated.content, "counts": 0} == {**found, "counts": 0}


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"sla": "p90_itl_ms<=12"}, [False, True]),
        ({"sla": "p90_itl_ms<=16"}, [True, False]),
        ({"sla": "p90_itl_ms<=18"}, [True, True]),
        ({"sla": "p90_ttft_ms<=115"}, [False, False]),
        ({"sla": "p90_ttft_ms<=105", "gpus": 2}, [True, False]),  # with longer passes no deployment holds
        ({"objective": "cost", "gpus": 3}, [False, True]),
    ],
)
def test_gpus_needed_with_other_durations(
    trace: Path, tmp_path: Path, given: Mapping[str, Any], same: list[bool]
) -> None:
    """As many as exhaustive search finds, though only what may change the answer is run again."""
    question = asked(trace, **given)
    valid = candidates.enumerate_all(question)
    runner = search.Runner(question, tmp_path / "a.sqlite", {}, None)
    found = search.find(runner, valid)
    assert found.best is not None
    others = checks.sensitivity(runner, valid, found)
    assert [each["same"] for each in others] == same
    gpus = {candidate.name: candidate.gpus for candidate in valid}
    for each in others:
        changed = asked(trace, **{**given, "engine_args": {**ENGINE, "speedup_ratio": 1 / each["durations"]}})
        every = search.find(search.Runner(changed, tmp_path / "b.sqlite", {}, None), valid, exhaustive=True)
        assert each["holds"] == (every.whole[found.best]["status"] == "ok")
        assert each["gpus"] == (None if every.best is None else gpus[every.best])
        assert every.best is None or every.whole[each["best"]]["status"] == "ok"
        if question.objective == "cost":
            assert each["best"] == every.best


def test_a_folder_of_another_question(trace: Path, cli: Cli, folder: Path) -> None:
    sweep.run(spec(trace, max_sim_time_ms=100), "out")
    before = (folder / "out" / "report.json").read_bytes()
    with pytest.raises(ValueError, match="-o: out holds another sweep or recommendation, want another folder"):
        sweep.recommend(trace, SLA, gpus=1, engine="vllm", directory="out")
    assert (folder / "out" / "report.json").read_bytes() == before


@pytest.mark.parametrize("limit", [60, 1])
def test_no_deployment_is_enough(trace: Path, cli: Cli, limit: int) -> None:
    arguments = [str(trace), "--sla", f"p90_ttft_ms<={limit}", "--gpus", "1", "--engine", "vllm"]
    done = run(command("recommend", *arguments, "--json", module="dynamo.sweep"))
    assert done.returncode == 3, done
    assert done.stderr.endswith("error: no deployment of at most 1 GPUs keeps the service level\n")
    content = json.loads(done.stdout)
    assert content["winner"] is None
    assert content["nearest"]["reason"].startswith(f"p90_ttft_ms <= {limit}: got ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--sla", "p90_ttft_ms<2"], 'sla: got "p90_ttft_ms<2", want bounds such as'),
        (["--sla", "p90_tfft_ms<=2"], "did you mean p90_ttft_ms?"),
        (["--sla", "p90_ttft_ms<=2,p90_ttft_ms<=3"], "sla: p90_ttft_ms <= is given twice, want it once"),
        (["--sla", "p90_ttft_ms<=soon"], 'sla: p90_ttft_ms: got "soon", want a number'),
        (["--gpus", "0"], "gpus: got 0, want an integer from 1 to 1024"),
        (["--engine", "vlm"], 'engine: got "vlm", did you mean vllm?'),
        (["--objective", "cheap"], 'objective: got "cheap", want one of fewest_gpus, cost, goodput'),
        (["--objective", "energy"], "the AIC SDK has measured the power of single operations only"),
        (["--model", "m"], "system: got nothing, want model and system together"),
        (["--engine-args", "[1]"], "engine_args: "),
        (["--engine-args", '{"max_num_sequences": 3}'], "max_num_seqs"),
        (["--host-gb-per-gpu", "0"], "host_gb_per_gpu: got 0.0, want a finite number above 0"),
        (["--accept-rates", "0.5,2"], 'accept_rates: got "0.5,2", want 1 to 5 numbers from 0 to 1'),
        (["--accept-rates", "often"], "accept_rates: got"),
        (["--seeds", "0"], "seeds: got 0, want an integer from 1 to 100"),
        (["--kv-cache-dtype", "fp8"], "kv_cache_dtype: want model and system beside it"),
        (["--trace-format", "excel"], "trace_format"),
        (["--gpu-hour-price", "-1"], "gpu_hour_price: got -1.0, want a finite number above 0"),
    ],
)
def test_what_is_refused(trace: Path, cli: Cli, change: list[str], words: str) -> None:
    arguments = [str(trace), "--sla", SLA, "--gpus", "2", *change]
    assert words in refused(run(command("recommend", *arguments, module="dynamo.sweep")))


def test_a_missing_trace(cli: Cli) -> None:
    done = run(command("recommend", "missing.jsonl", "--sla", SLA, "--gpus", "2", module="dynamo.sweep"))
    assert "missing.jsonl: no such file" in refused(done)


def test_parallelism_of_models(trace: Path, fake: Path, cli: Cli, folder: Path) -> None:  # noqa: F811
    """With the made-up SDK: the model needs four GPUs, so what has fewer cannot be had."""
    arguments = [str(trace), "--sla", "p90_ttft_ms<=900", "--gpus", "8", "--engine", "vllm", "--json", "--seeds", "1"]
    sized = ["--model", "org/Gamma-30B-A3B", "--system", "h200_sxm"]
    done = run(command("recommend", *arguments, *sized, module="dynamo.sweep"))
    assert done.returncode == 0, done
    content = json.loads(done.stdout)
    assert content["winner"].startswith("1 x vllm TP 4, ")
    assert "--tensor-parallel-size 4" in content["flags"][0]
    assert any("want 4, the smallest that fits" in group["reason"] for group in content["ruled_out"])
    words = refused(run(command("recommend", *arguments, *sized[:3], "h300", module="dynamo.sweep")))
    assert 'system: got "h300", want one of ' in words


def test_shapes_of_mixtures_of_experts(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates.aic, "answer", lambda question: json.dumps({"experts": True}))
    question = asked(trace, gpus=16, engine="both", model="m", system="b200_sxm", engine_args=None)
    found = candidates.enumerate_all(question)
    workers = {candidate.worker.partition(",")[0] for candidate in found}
    assert {"vllm TP 8", "vllm TP 8 EP 8", "vllm DP 8 EP 8", "vllm DP 16 EP 16", "sglang DP 16 EP 16"} <= workers
    assert "vllm TP 16" not in workers  # never across nodes
    assert len({candidate.name for candidate in found}) == len(found)
    assert all(candidate.gpus <= 16 for candidate in found)
    assert not any("DP" in candidate.worker and len(candidate.pools) > 1 for candidate in found)
    # Dynamo's frontend chooses ranks, if it routes by KV.
    by_rank = {candidate.name for candidate in found if candidate.sets.get("engine.dp_routing") == "router"}
    with_ranks = (each for each in found if each.worker.startswith("vllm DP") and each.name.endswith("kv_router"))
    assert by_rank == {candidate.name for candidate in with_ranks}
    assert any("DP 8" in name for name in by_rank)
    small = asked(trace, gpus=16, model="m", system="gb200", engine_args=None)
    assert "vllm TP 8" not in {each.worker.partition(",")[0] for each in candidates.enumerate_all(small)}


@pytest.mark.parametrize(
    ("objective", "above_ms"), [("fewest_gpus", 0.004), ("fewest_gpus", -0.004), ("cost", -0.004), ("goodput", 0.004)]
)
def test_a_grid_of_shapes_finds_the_answer_of_all_shapes(
    trace: Path,
    fake: Path,  # noqa: F811
    cli: Cli,
    folder: Path,
    objective: str,
    above_ms: float,
) -> None:
    """Bounds just above and below what the best of the smallest has: a grid alone would not decide it."""
    entry = {"level": "engine", "engine": "vllm", "timing": "aic", "knobs": {"step_overhead_us": 2_000}}
    (folder / "profile.json").write_text(json.dumps({"format": "dynosim-calibration/1", "entries": [entry]}))
    sized = ["--model", "curved", "--system", "h200_sxm", "--engine-args", '{"aic_backend_version": "0.2"}']
    asked = ["--engine", "vllm", "--gpus", "2", "--seeds", "1", "--json", "--calibration", "profile.json"]

    def answer(objective: str, itl_ms: float, *how: str) -> Any:
        sla = ["--sla", f"p90_ttft_ms<=75, p90_itl_ms<={itl_ms}", "--objective", objective]
        done = run(command("recommend", str(trace), *sla, *asked, *sized, *how, module="dynamo.sweep"))
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    smallest = answer("fewest_gpus", 20, "--exhaustive")
    assert smallest["gpus"] == 1
    (of_smallest,) = (target["value"] for target in smallest["targets"] if "token_gap" in target["bound"])
    found, every = (answer(objective, of_smallest + above_ms, *how) for how in ((), ("--exhaustive",)))
    assert found["winner"] == every["winner"]
    assert found["targets"] == every["targets"]
    assert found["counts"]["whole"] <= every["counts"]["whole"] == every["counts"]["candidates"]
    if objective == "fewest_gpus":
        assert (found["winner"] == smallest["winner"]) == (above_ms > 0)


def test_traffic_of_other_formats_is_drawn_anew(tmp_path: Path) -> None:
    lines = [
        f"2023-11-16 18:15:{at // 2:02}.{50 * (at % 2):02}00000,{400 + 90 * (at % 9)},{20 + at % 7}" for at in range(60)
    ]
    trace = tmp_path / "t.csv"
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines, ""]))
    given = {"gpus": 1, "engine": "vllm", "run": {"trace_format": "azure"}, "engine_args": ENGINE}
    found = sweep.recommend(trace, "p90_ttft_ms<=400", seeds=3, directory=tmp_path / "out", **given)
    (target,) = found.content["targets"]
    assert target["low"] < target["value"] < target["high"]
    assert found.content["no_interval"] == ""
    sweep.export(tmp_path / "out", found.content["point"], tmp_path / "files", model="m")
    predicted = json.loads((tmp_path / "files" / "prediction.json").read_text())
    assert predicted["intervals"]["p90_ttft_ms"] == [max(target["low"], 0), target["high"]]
    assert [verdict["sure"] for verdict in predicted["sla"] if "ttft" in verdict["figure"]] == [target["sure"]]
    again = sweep.recommend(trace, "p90_ttft_ms<=400", seeds=3, directory=tmp_path / "out", **given)
    assert again.content["targets"] == found.content["targets"]
    assert again.sweep.simulated == 0


def test_host_memory_is_tried(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates.aic, "answer", lambda question: json.dumps({"experts": False}))
    sized = {"model": "m", "system": "h200_sxm", "engine_args": None, "engine": "both"}
    plain = candidates.enumerate_all(asked(trace, **sized))
    found = candidates.enumerate_all(asked(trace, **sized, host_gb_per_gpu=100))
    assert len(found) == 2 * len(plain)
    assert {each.name for each in plain} < {each.name for each in found}
    host = next(each for each in found if "TP 2, 200 GB host" in each.worker)
    assert host.engine["engine.host_cache_gb"] == 200


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_draft_tokens_make_answers(trace: Path, tmp_path: Path, engine: str) -> None:
    """Drafts that are mostly accepted are the answer, by rules that know them."""
    found = sweep.recommend(
        trace, "p90_itl_ms<=40", gpus=2, engine=engine, engine_args=ENGINE, accept_rates="0.95, 0.9", seeds=1
    )
    assert "2 draft tokens" in found.content["winner"]
    assert " with 2 draft tokens = " in str(found).split("\n")[1]
    assert "simulated by the rules of Dynamo's mocker, which know draft tokens" in " ".join(str(found).split())
    assert found.best is not None
    assert found.best["knobs"]["deployment"] == found.content["winner"]
    plain = search.Runner(asked(trace, engine=engine), tmp_path / "a.sqlite", {}, None)
    valid = candidates.enumerate_all(asked(trace, engine=engine, accept_rates="0.95, 0.9"))
    points = plain.run([each for each in valid if each.name.startswith("1 x")])
    assert all(point["figures"] for point in points.values())


def test_data_types_of_the_kv_cache(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a flag engines keep KV in BF16, unless the files of the checkpoint ask for FP8."""
    monkeypatch.setattr(candidates.aic, "answer", lambda question: json.dumps({"experts": False}))
    plain, wanting, scheme = (tmp_path / name for name in ("plain", "wanting", "scheme"))
    for model, config in (
        (plain, {"quantization_config": {"quant_method": "fp8"}}),
        (wanting, {}),
        (scheme, {"quantization_config": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}),
    ):
        model.mkdir()
        (model / "config.json").write_text(json.dumps(config))
    (wanting / "hf_quant_config.json").write_text('{"quantization": {"kv_cache_quant_algo": "FP8"}}')

    def kept(model: Path, **given: Any) -> set[tuple[Any, Any, bool]]:
        question = asked(trace, model=str(model), system="h200_sxm", **{"engine_args": None, "engine": "both", **given})
        return {
            (
                each.engine.get("engine.aic_kv_cache_dtype"),
                each.engine.get("engine.aic_fmha_dtype"),
                "FP8 KV" in each.name,
            )
            for each in candidates.enumerate_all(question)
        }

    engines, flagged = ("bfloat16", "bfloat16", False), ("fp8", None, True)
    assert kept(plain) == kept(plain, kv_cache_dtype="auto") == {engines}
    assert kept(plain, kv_cache_dtype="fp8") == {flagged}
    assert kept(plain, kv_cache_dtype="both") == {engines, flagged}
    assert kept(wanting) == kept(scheme) == kept(wanting, kv_cache_dtype="both") == {("fp8", None, False)}
    assert kept(plain, engine_args={"aic_kv_cache_dtype": "fp8"}) == {(None, None, False)}
    assert kept(plain, engine_args={"aic_fmha_dtype": "fp8"}) == {("bfloat16", None, False)}
    with pytest.raises(ValueError, match="kv_cache_dtype: want it left out, or aic_kv_cache_dtype of engine_args"):
        kept(plain, engine_args={"aic_kv_cache_dtype": "fp8"}, kv_cache_dtype="both")
    with pytest.raises(ValueError, match='kv_cache_dtype: got "int8", want one of auto, fp8, both'):
        kept(plain, kv_cache_dtype="int8")


def test_fp8_kv_is_in_the_answer_and_the_files(trace: Path, fake: Path, cli: Cli, folder: Path) -> None:  # noqa: F811
    """The made-up SDK has half the pool for KV in BF16, and prompts that take twice as long with FP8."""
    arguments = [str(trace), "--sla", "p90_ttft_ms<=9000", "--gpus", "1", "--engine", "vllm", "--json", "--seeds", "1"]
    sized = ["--model", "halved", "--system", "h200_sxm"]

    def answer(*how: str) -> Any:
        done = run(command("recommend", *arguments, *sized, *how, module="dynamo.sweep"))
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    engines, flagged = answer(), answer("--kv-cache-dtype", "fp8", "-o", "out")
    assert "FP8" not in engines["winner"]
    assert "--kv-cache-dtype auto" in engines["flags"][0]
    assert "FP8 KV" in flagged["winner"]
    assert "--kv-cache-dtype fp8" in flagged["flags"][0]
    assert (engines["basis"]["kv_dtype"], flagged["basis"]["kv_dtype"]) == ("bfloat16", "fp8")
    assert flagged["basis"]["pool_tokens"] == 2 * engines["basis"]["pool_tokens"]
    done = run(command("export", "out", str(flagged["point"]), "-o", "files", module="dynamo.sweep"))
    assert done.returncode == 0, done
    told = [path.name for path in Path("files").rglob("*") if path.is_file() and "fp8" in path.read_text()]
    assert {"engine.sh", "start.sh", "compose.yaml", "kubernetes.yaml", "dynamo-1.6.yaml"} <= set(told)


def test_a_node_is_lost_as_a_whole(trace: Path) -> None:
    question = asked(trace, gpus=16, gpus_per_node=4)
    candidate = candidates.enumerate_all(question)[0]

    def on_node(gpus: int, **rest: int) -> list[str]:
        return checks.node_of(question, candidate._replace(gpus=gpus, rest=rest))

    assert on_node(8, num_workers=4) == ["worker:0", "worker:1"]
    assert on_node(8, num_prefill_workers=1, num_decode_workers=7) == [
        "prefill:0",
        *(f"decode:{at}" for at in range(3)),
    ]
    assert on_node(4, num_workers=4) == []  # all on one: nothing is left
    assert on_node(8, num_workers=2) == []  # a worker on each: the loss of a worker says it
    assert on_node(16, num_workers=2) == []


STARTED = {
    "alone": ({"num_workers": 1}, {"max_num_seqs": 3, "host_cache_gb": 1.0}),
    "routed": ({"num_workers": 2, "router_mode": "kv_router"}, {"max_num_seqs": 3}),
    "sglang": (
        {"num_workers": 2, "router_mode": "kv_router"},
        {"engine_type": "sglang", "scheduler": "sglang", "sglang.chunked_prefill_size": 2048},
    ),
    "two pools": (
        {"topology": "disagg", "num_prefill_workers": 1, "num_decode_workers": 2, "router_mode": "round_robin"},
        {"max_num_seqs": 3},
    ),
}


@pytest.mark.parametrize("case", STARTED)
def test_lines_start_what_files_start(trace: Path, tmp_path: Path, case: str) -> None:
    """What the terminal shows is the command of start.sh, and a shell reads it as that."""
    rest, engine = STARTED[case]
    question = asked(trace)
    keys = {"engine.engine_type": "vllm", "engine.scheduler": "vllm"}
    keys |= {f"engine.{name}": value for name, value in engine.items()}
    candidate = candidates.Candidate("c", 2, "w", keys, {"router_mode": "round_robin", **rest})
    runner = search.Runner(question, tmp_path / "results.sqlite", {}, None)
    found = flags.lines(search.alone(runner, candidate), None, candidate.migrations)
    whole = sweep.run(runner.spec([candidate], candidate.migrations), tmp_path / "out")
    sweep.export(tmp_path / "out", whole.points[0]["id"], tmp_path / "files", model="MODEL")
    script = (tmp_path / "files" / "start.sh").read_text().replace("\\\n", " ")
    started = [shlex.split(line.removesuffix("&")) for line in script.splitlines() if line.endswith(" &")]
    heads = {
        "alone": ["the worker"],
        "two pools": ["the prefill worker", "the first of 2 decode workers", "in front of them"],
    }.get(case, ["the first of 2 workers", "in front of them"])
    assert [line.partition(":")[0].partition(" (")[0] for line in found] == heads
    assert ("others have GPUs and ports of their own" in "".join(found)) == (case != "alone")
    for line in found:
        about, broken = wording.commanded(line)
        assert max(map(len, broken)) <= 114 or "kv-events-config" in line
        read = run(["sh", "-c", "printf '%s\\n' " + "\n".join(broken)]).stdout.splitlines()
        assert read in started, about


def test_what_no_line_can_start(trace: Path, cli: Cli) -> None:
    """The answer says why, and no file is promised."""
    given = json.dumps({**ENGINE, "host_cache": {"num_blocks": 5, "blocks_per_chunk": 5}})
    arguments = [str(trace), "--sla", SLA, "--gpus", "2", "--engine", "vllm", "--seeds", "1", "-o", "out"]
    done = run(command("recommend", *arguments, "--engine-args", given, module="dynamo.sweep"))
    assert done.returncode == 0, done
    text = " ".join(done.stdout.split())
    assert "no command line and no file can say it: extra_engine_args.host_cache.blocks_per_chunk: got 5" in text
    assert "sweep export" not in text
    assert "dynamo.vllm" not in text


def test_intervals_are_moved_to_the_durations_of_all_shapes() -> None:
    """The draws of the grid, 4 % longer than its run, are 4 % longer than the run with all shapes."""
    bound = {"figure": "p90_ttft_ms", "at_most": 28, "met": True, "sure": False}
    point, grid = ({"sla": [{**bound, "value": value}], "figures": {"p99_ttft_ms": 33.0}} for value in (20.0, 25.0))
    drawn = {"sla": [{**bound, "value": 26.0}], "intervals": {"p90_ttft_ms": [22.5, 30.0]}, "measured_error": None}
    (target,) = api._targets(point, drawn, grid)
    assert (target["value"], target["low"], target["high"], target["sure"]) == (20.0, 18.0, 24.0, True)
    assert target["p99"] == 33.0
    (target,) = api._targets(grid, drawn, grid)
    assert (target["low"], target["high"], target["sure"]) == (22.5, 30.0, False)


def test_both_ends_of_a_figure() -> None:
    assert parse_sla("goodput_ratio >= 0.9, p90_ttft_ms<=5") == {
        "goodput_ratio": {"min": 0.9},
        "p90_ttft_ms": {"max": 5},
    }


@pytest.mark.parametrize(
    ("how", "speedup", "engine"),
    [
        ("prefill", 12, {}),
        ("kv", 6, {"num_gpu_blocks": 160, "fixed_prefill_ms": 1, "fixed_decode_ms": 25, "timing_model": "fixed"}),
    ],
)
def test_what_cannot_keep_up_misses_in_the_end(
    trace: Path, tmp_path: Path, how: str, speedup: float, engine: Mapping[str, Any]
) -> None:
    """Prompts that cannot be computed, and KV that does not fit, by proof; each such deployment is then run."""
    given = {"engine_args": {**ENGINE, **engine}, "run": {"arrival_speedup_ratio": speedup}, "gpus": 3}
    question = asked(trace, sla="p90_ttft_ms<=900, p90_itl_ms<=60", engine="both", **given)
    valid = candidates.enumerate_all(question)
    found = search.find(search.Runner(question, tmp_path / "a.sqlite", {}, None), valid)
    proven = [candidate for candidate in valid if found.out.get(candidate.name, ("",))[0] == how]
    assert {candidate.engine["engine.engine_type"] for candidate in proven} == {"vllm", "sglang"}
    whole = search.Runner(question, tmp_path / "b.sqlite", {}, None).run(proven)
    for candidate in proven:
        why = found.out[candidate.name][1]
        missed = {verdict["figure"] for verdict in whole[candidate.name]["sla"] if not verdict["met"]}
        assert "p90_ttft_ms" in missed, (candidate.name, why)
        assert why.startswith("p90_ttft_ms <= 900: ")
        assert why.endswith("at most")


def test_what_keeps_up_is_not_ruled_out() -> None:
    work = longrun.Work(0.0, 9_000.0, [1000, 1000, 0], [1000, 1000, 1000], [101, 101, 101])
    limits = parse({"max_ttft_ms": 1000})
    for worker, pools, want in [
        (longrun.Worker(5.0, 1e9, 1.0), (1,), None),  # 2,000 tokens in 10 s: as fast as needed
        (longrun.Worker(5.01, 1e9, 1.0), (1,), "prefill"),
        (longrun.Worker(5.01, 1e9, 1.0), (1, 9), "prefill"),
        (longrun.Worker(5.01, 1e9, 1.0), (2, 1), None),
        (longrun.Worker(1.0, 20.0, 1.0), (1,), None),  # 2 x 1,000 tokens for 0.1 s of 10.1 s
        (longrun.Worker(1.0, 19.0, 1.0), (1,), "kv"),
        (longrun.Worker(1.0, 19.0, 1.0), (9, 1), "kv"),
        (longrun.Worker(1.0, 19.0, 1.0), (1, 2), None),
        (longrun.Worker(None, None, 0.0), (1,), None),
    ]:
        found = longrun.too_much(limits, work, worker, pools)
        assert (found and found[0]) == want, (worker, pools)
    assert longrun.too_much(parse({"p90_itl_ms": 1}), work, longrun.Worker(99.0, 1.0, 9.0), (1,)) is None
    assert (
        longrun.too_much(parse({"median_ttft_ms": 1}), work, longrun.Worker(99.0, 1.0, 9.0), (1,)) is None
    )  # two spared


def test_two_pools_lose_workers_and_a_node(trace: Path, tmp_path: Path) -> None:
    """With two pools, too, each loss is simulated by vLLM's own rules: requests that were on the lost worker fail."""
    question = asked(trace, gpus=4, gpus_per_node=2)
    name = "2 prefill + 2 decode x vllm 1 GPU, 64 sequences, 2048 tokens, kv_router"
    winner = next(each for each in candidates.enumerate_all(question) if each.name == name)
    runner = search.Runner(question, tmp_path / "results.sqlite", {}, None)
    found = checks.disturbed(runner, winner, checks.peak_ms(search.rows_of(runner.run([winner])[name])))
    assert [re.sub(r", second \d+", "", case["name"]) for case in found] == [
        "loss of a prefill worker at the peak, the worst of 2",
        "loss of a decode worker at the peak, the worst of 2",
        "loss of a node at the peak, with prefill:0 and prefill:1",
    ]
    for case in found:
        assert "unknown" not in case, case
        assert case["figures"]["num_requests"] == 80
        assert 0 < case["figures"]["failed_requests"] < 80, case


def test_each_rank_has_a_pool_of_its_own() -> None:
    engine = {"scheduler": "vllm", "num_gpu_blocks": 100, "block_size": 64, "max_num_batched_tokens": 2048}
    alone = {"input_tokens": 1, "output_tokens": 2, "request_count": 1, "num_workers": 1}
    for ranks, tokens in ((1, 6_400), (4, 25_600)):
        found = search._worker({"arguments": {**alone, "extra_engine_args": {**engine, "dp_size": ranks}}})
        assert found[:4] == ("vllm-0.33", None, tokens, None)


def test_known_errors_of_pools_are_those_of_the_page() -> None:
    page = (PROJECT / "docs" / "kv_pools.md").read_text()
    (said,) = re.findall(
        r"Of (\d+) sizes: median error ([\d.]+) %, 90th percentile ([\d.]+) %"
        r".*of the (\d+) that it estimates in tokens: ([\d.]+) and ([\d.]+) %",
        page,
    )
    sizes, median, worst, sdk_sizes, sdk_median, sdk_worst = map(float, said)
    assert basis.POOL_ERRORS["engine"][1:] == (median, worst, sizes)
    assert basis.POOL_ERRORS["sdk"][1:] == (sdk_median, sdk_worst, sdk_sizes)
    facts = {
        "requests": 80, "seconds": 15, "draws": 0, "scheduler": "sglang-0.5", "router": None, "shapes": None,
        "prompt_tokens": 1000.4, "answer_tokens": 50.0, "reused_ratio": 0.8123,
        "host": None,
    }  # fmt: skip
    by_sdk = {**facts, "pool_estimate": "sdk", "pool_tokens": 6400.0}
    estimated = " ".join(basis.lines({**by_sdk, "kv_dtype": None}))
    assert "KV pool: 6,400 tokens of each worker, estimated by the AIC SDK" in estimated
    assert basis.KV_DTYPE in estimated
    for kept, words in (("fp8", "in FP8, by --kv-cache-dtype"), ("bfloat16", "in BF16, as engines do"), ("int8", "")):
        said = " ".join(basis.lines({**by_sdk, "kv_dtype": kept}))
        assert basis.KV_DTYPE not in said
        assert words in said
    assert "of SGLang 0.5" in estimated
    assert "on average 1,000 tokens of prompt and 50 of answer; 81.2 % of prompts are found in caches" in estimated
    assert "grid of shapes" not in estimated
    assert "grid of shapes" in " ".join(basis.lines({**by_sdk, "kv_dtype": None, "shapes": "grid"}))
    assert "Dynamo" not in estimated
    given = " ".join(basis.lines({**facts, "router": "kv_router", "pool_estimate": None, "pool_tokens": 6400.0}))
    assert "as given and no estimate" in given
    assert "Routing is that of Dynamo" in given
    assert "Host memory" not in given
    for gb, words in ((9.0, "of 9 GB of each worker 2.6 GB are beyond its 6.4 GB"), (5.0, "nothing is beyond its 6.4")):
        hosted = " ".join(basis.lines({**by_sdk, "kv_dtype": None, "host": {"gb": gb, "pool_gb": 6.4}}))
        assert f"Host memory repeats what is in the pool: of {gb:g} GB" in hosted
        assert words in hosted
        assert "not its prompts, no host memory is needed, and no worker is lost" in hosted


def test_host_memory_beyond_the_pool(trace: Path) -> None:
    """Bytes of a token are those that a run has stored."""
    engine = {**ENGINE, "scheduler": "vllm", "host_cache_gb": 40.0}
    figures = run_trace_replay(trace, extra_engine_args=engine)
    found = basis.host_facts(engine, 2048 * 64, figures)
    assert found == {"gb": 40.0, "pool_gb": pytest.approx(2048 * 64 * 131072 / 1e9)}
    assert basis.host_facts(ENGINE, 2048 * 64, figures) is None
    back = {**engine, "host_cache": {"write_policy": "write_back"}}
    for other, tokens in ((back, 1.0), ({**engine, "dp_size": 2}, 1.0), (engine, None)):
        assert basis.host_facts(other, tokens, figures) == {"gb": 40.0, "pool_gb": None}


def case(**changed: Any) -> dict[str, Any]:
    figures = {"gpu_hours": 0.1, "failed_requests": 3, "migrated_requests": 2, "num_requests": 50}
    return {"name": "loss of a worker", "holds": True, "reason": "", "figures": figures, **changed}


@pytest.mark.parametrize(
    ("after", "holds", "said"),
    [
        (0.1, True, "saves nothing on this trace, 0.1 instead of 0.1 GPU hours, and the service level holds"),
        (0.077, True, "saves 23 % on this trace, 0.077 instead of 0.1 GPU hours, and the service level holds"),
        (0.077, False, "saves 23 % on this trace, 0.077 instead of 0.1 GPU hours, and the service level breaks (late)"),
        (0.12, True, "takes 20 % more, as the run lasts longer, on this trace, 0.12 instead of 0.1 GPU hours"),
    ],
)
def test_what_an_autoscaler_changes(after: float, holds: bool, said: str) -> None:
    scaled = case(policy={"target": 1, "min": 1, "max": 4}, holds=holds, reason="late", figures={"gpu_hours": after})
    words = wording._autoscaling(scaled, {"gpu_hours": 0.1, "basis": {"seconds": 120}})
    assert said in words
    assert "with 1 to 4 workers" in words
    assert "It lasts 2 minutes" in words


def test_what_a_loss_costs() -> None:
    basis = {"migration_limit": 3, "noticed_s": 10.0, "back_s": 120}
    assert wording._loss(case(), {"basis": basis}) == (
        "loss of a worker, noticed after 10 s and back after 120 s: the service level holds. Of 50 requests, 3 fail, "
        "which percentiles leave out, and 2 go on elsewhere (--migration-limit 3)"
    )
    assert wording._loss(case(), {"basis": {**basis, "migration_limit": 0}}).endswith("and none goes on elsewhere")
    priced = {"basis": basis, "gpus": 2, "cost_per_hour": 8}
    spares = {"workers": 3, "gpus": 3, "holds": True}
    kept = wording._loss(case(holds=False, spares=spares), priced)
    assert kept.endswith(". 3 such workers (3 GPUs, 12.00 an hour) keep the service level then")
    broken = wording._loss(case(holds=False, spares={**spares, "holds": False}), {**priced, "cost_per_hour": None})
    assert broken.endswith(". 3 such workers (3 GPUs) do not keep the service level then either")


def test_workers_that_survive_a_loss(trace: Path, tmp_path: Path) -> None:
    """Up to two more workers, until the loss of any of them is survived: found by replays of each loss, too."""
    name = "2 x vllm 1 GPU, 64 sequences, 2048 tokens, kv_router"

    def answered(limit: float, gpus: int = 4) -> tuple[Any, float]:
        question = asked(trace, sla=f"p90_ttft_ms<={limit}", gpus=gpus)
        winner = next(each for each in candidates.enumerate_all(question) if each.name == name)
        runner = search.Runner(question, tmp_path / "results.sqlite", {}, None)
        peak = checks.peak_ms(search.rows_of(runner.run([winner])[name]))
        return checks.disturbed(runner, winner, peak)[0], peak

    held, peak = answered(900)
    assert held["holds"]
    assert held["spares"] is None

    def worst_ttft_ms(workers: int) -> float:
        engine = {**ENGINE, "scheduler": "vllm", "max_num_seqs": 64, "max_num_batched_tokens": 2048}
        loss = {"kind": "crash", "at_ms": peak, "duration_ms": 0}
        return max(
            run_trace_replay(
                trace,
                num_workers=workers,
                router_mode="kv_router",
                migration_limit=3,
                detection_ms=10_000,
                extra_engine_args={**engine, "startup_time": 120},
                faults=[{**loss, "target": f"worker:{lost}"}],
            )["p90_ttft_ms"]
            for lost in range(workers)
        )

    two, three, four = (worst_ttft_ms(workers) for workers in (2, 3, 4))
    assert two > three > four
    for limit, workers, holds in (((two + three) / 2, 3, True), ((three + four) / 2, 4, True), (0.9 * four, 4, False)):
        loss, _ = answered(limit)
        assert not loss["holds"]
        assert loss["spares"] == {"workers": workers, "gpus": workers, "holds": holds}
    assert answered(0.9 * four, gpus=2)[0]["spares"] is None  # nothing can be added


def test_how_much_longer_passes_may_take(trace: Path, tmp_path: Path) -> None:
    """The bound between two percents is that of replays with such durations, and few runs find it."""
    name = "1 x vllm 1 GPU, 64 sequences, 2048 tokens"

    def p90_itl_ms(percent: int) -> float:
        engine = {**ENGINE, "scheduler": "vllm", "max_num_seqs": 64, "max_num_batched_tokens": 2048}
        engine["speedup_ratio"] = 2 / (1 + percent / 100)
        return float(run_trace_replay(trace, extra_engine_args=engine)["p90_token_gap_ms"])

    def found(limit: float) -> tuple[dict[str, Any], int]:
        question = asked(trace, sla=f"p90_itl_ms<={limit}", engine_args={**ENGINE, "speedup_ratio": 2})
        winner = next(each for each in candidates.enumerate_all(question) if each.name == name)
        runner = search.Runner(question, tmp_path / f"{limit}.sqlite", {}, None)
        return endurance.longest(runner, winner), runner.simulated

    base = p90_itl_ms(0)
    for more, most in ((1.045, 15), (1.4, 100)):
        answer, runs = found(more * base)
        assert 0 <= answer["holds"] < answer["breaks"] <= most
        assert p90_itl_ms(answer["holds"]) <= more * base < p90_itl_ms(answer["breaks"])
        assert answer["breaks"] - answer["holds"] == (1 if most == 15 else 5)
        assert runs <= 8
    assert found(100 * base) == ({"holds": 100, "breaks": None}, 3)
    assert found(0.9 * base)[0] == {"unknown": "with durations from a grid of shapes it is infeasible as it is"}
    assert wording._longer({"holds": 3, "breaks": 4}) == [
        "the answer holds up to 3 % longer, and breaks with 4 % longer"
    ]
    assert wording._longer({"holds": 0, "breaks": 1}) == ["the answer breaks with 1 % longer"]


def test_figures_have_four_digits() -> None:
    """More only where fewer would be the bound itself."""
    for text, want in (
        ("p90_token_gap_ms <= 50: got 58.4694", "p90_token_gap_ms <= 50: got 58.47"),
        ("p90_token_gap_ms <= 50: got 50.0043", "p90_token_gap_ms <= 50: got 50.004"),
        ("p90_token_gap_ms <= 50.125: got 58.4694 (x)", "p90_token_gap_ms <= 50.125: got 58.47 (x)"),
        ("p90_ttft_ms <= 2000: got 17681.5", "p90_ttft_ms <= 2000: got 17682"),
        ("goodput_ratio >= 0.9: got 0.899999", "goodput_ratio >= 0.9: got 0.899999"),
        ("aic_tp_size: got 1, want 2, the smallest", "aic_tp_size: got 1, want 2, the smallest"),
        ("p90_ttft_ms <= 2000: got 1.5e+06.", "p90_ttft_ms <= 2000: got 1500000."),
    ):
        assert wording.rounded(text) == want


def test_what_serves_requests_one_by_one() -> None:
    """Where many requests miss a limit by themselves, the answer says how to ask for another one."""
    content = {
        "goodput_ratio": 0.345, "good": {"sla_tpot_ms": 50}, "named": {"p90_token_gap_ms": "p90_itl_ms"},
        "question": {"sla": ["p90_ttft_ms <= 2000", "p90_token_gap_ms <= 50"]},
    }  # fmt: skip
    line = wording._good(content)[-1]
    given = line.partition('--sla "')[2].partition('"')[0]
    assert parse_sla(given) == {
        "p90_ttft_ms": {"max": 2000},
        "p90_itl_ms": {"max": 50},
        "goodput_ratio": {"min": 0.9},
    }
    assert len(wording._good({**content, "goodput_ratio": 0.95})) == 1


def test_an_interval_without_a_lower_end() -> None:
    target = {
        "bound": "p90_ttft_ms <= 9",
        "value": 5.0,
        "error": None,
        "met": True,
        "sure": True,
        "within_error": False,
        "p99": None,
    }
    assert wording._target({**target, "p99": 12.34, "low": None}) == "p90_ttft_ms <= 9: 5, and p99 12.34"
    assert wording._target({**target, "value": 12562.4, "low": None}) == "p90_ttft_ms <= 9: 12562"
    assert wording._target({**target, "low": -1.0, "high": 8.0}) == (
        "p90_ttft_ms <= 9: 5, with other draws of this traffic at most 8 (95 %)"
    )
    assert wording._target({**target, "low": 1.0, "high": 10.0, "sure": False}) == (
        "p90_ttft_ms <= 9: 5, with other draws of this traffic 1 to 10 (95 %), so it is not sure"
    )


def answer(**changed: Any) -> dict[str, Any]:
    """What the first lines of an answer are made of."""
    target = {
        "bound": "p90_ttft_ms <= 9", "value": 5.0, "met": True, "sure": True, "low": None, "within_error": False,
    }  # fmt: skip
    return {
        "size": "2 x vLLM TP 1", "gpus": 2, "host_gb": None, "cost_per_hour": None, "flags": [], "not_exported": "",
        "targets": [target],
        "durations": [], "headroom": None, "goodput_ratio": 0.95, "basis": {"router": None}, "sensitivity": [],
        "endurance": None,
        "question": {"objective": "fewest_gpus"}, "good": {"sla_tpot_ms": 50},
        "cases": [case(holds=False)], **changed,
    }  # fmt: skip


def test_what_is_known_of_durations_is_not_called_unknown() -> None:
    pool = {"pool": "worker", "timing_model": "aic"}
    span = {"ttft": [0.8, 1.2], "tpot": [0.9, 1.1], "level": "kin", "measurements": 24}
    error = {"ttft": 0.1, "tpot": 0.05, "measurements": 9, "scheduler": "vllm"}
    expected = (
        "80 % of measured latencies are expected at 0.80 to 1.20 times the simulated TTFT and 0.90 to 1.10 times the "
        "simulated time between tokens"
    )
    for known, said in (
        ({}, "how far measured latencies are from simulated ones is not known"),
        ({"expected": span}, expected),
        (
            {"measured_error": error},
            "measured latencies were 10 % (TTFT) and 5 % (time between tokens) off in the median of 9 measurements",
        ),
    ):
        lines = wording._short(answer(durations=[{**pool, **known}]))
        assert lines == [
            "start 2 x vLLM TP 1 = 2 GPUs, behind Dynamo's frontend",
            "the service level holds on this trace: p90_ttft_ms 5 (<= 9)",
            said,
            "it breaks with the loss of a worker",
        ]


def test_whose_durations_in_words() -> None:
    pool = {
        "pool": "worker", "timing_model": "aic", "system": "h200_sxm", "model": "m-FP8", "precision": "fp8",
        "backend": "sglang", "backend_version": "0.5", "aic_release": "0.12.0",
        "calibration": {"profile": "auto", "level": "kin", "measurements": 24},
        "expected": {"ttft": [0.8, 1.2], "tpot": [0.9, 1.1], "level": "kin", "measurements": 24},
    }  # fmt: skip
    whose, how_far = durations.in_words([pool])
    assert whose == (
        "durations of passes: predictions of AIConfigurator's SDK (AIC 0.12.0, h200_sxm, m-FP8, SGLang 0.5); corrected "
        "by 24 measurements of this model on other GPUs or in other precisions (calibration auto)"
    )
    assert how_far.endswith("That is from 24 measurements of this model on all GPUs; none is of this very deployment")
    other = {**pool, "pool": "decode", "model": "n"}
    two = durations.in_words([{**pool, "pool": "prefill"}, other])
    assert [line.partition(":")[0] for line in two[:2]] == [
        "durations of passes of prefill",
        "durations of passes of decode",
    ]


def test_the_next_best_may_be_without_host_memory(trace: Path) -> None:
    question = asked(trace, host_gb_per_gpu=8)
    both = {candidate.name: candidate for candidate in candidates.enumerate_all(question)}
    plain, host = "1 x vllm 1 GPU, 64 sequences, 2048 tokens", "1 x vllm 1 GPU, 8 GB host, 64 sequences, 2048 tokens"
    points = {name: {"figures": {"tok_s_per_user": 9.0 + at}, "sla": [], "status": "ok"}
              for at, name in enumerate((plain, host))}  # fmt: skip
    found = search.Found(whole=points)
    assert (
        f"{plain}: as many GPUs, without host memory, 9 instead of 10"
        in api._next_best(question, both, found, [host, plain])[0]
    )
    assert "without host memory" not in api._next_best(question, both, found, [plain, host])[0]


def test_the_first_lines_of_an_answer() -> None:
    """Host memory, the router, the price, what many requests miss, and what holds or breaks with longer passes."""
    longer = {"durations": 1.15, "best": "4 x vllm", "same": False, "holds": False, "gpus": 2, "best_holds": True}
    headroom = {"breaks_at": 1.25, "limited_by": "p90_ttft_ms <= 9: got 10"}
    found = answer(
        host_gb={"worker": 128.0, "all": 256.0}, cost_per_hour=8, flags=["one", "two"], goodput_ratio=0.419,
        basis={"router": "kv_router", "request_gaps_ms": {"mean": 48.0, "p90": 61.04}},
        sensitivity=[{**longer, "point": 7}], headroom=headroom,
        cases=[case(holds=True), case(policy={}, holds=False)],
    )  # fmt: skip
    start, holds, _, breaks, kept, other = wording._short(found)
    assert start == (
        "start 2 x vLLM TP 1 = 2 GPUs, with 128 GB of host memory for the KV of each worker, 256 GB in all, behind "
        "Dynamo's KV-aware router, for 8.00 an hour"
    )
    assert holds.endswith(
        "; only 41.9 % of the requests keep each limit by themselves, the p90 of their mean gaps between tokens is 61 "
        "ms"
    )
    assert breaks == (
        "it breaks with 1.25 times this traffic (p90_ttft_ms <= 9: got 10), with passes that take 15 % longer"
    )
    assert kept == "it holds with the loss of a worker"
    for percent, words in (
        ((3, 4), (", with passes that take 4 % longer (it holds with 3 %)", "it holds with the loss of a worker")),
        ((0, 1), (", with passes that take 1 % longer", "it holds with the loss of a worker")),
        ((40, 45), ("got 10)", "it holds with passes that take up to 40 % longer, with the loss of a worker")),
        ((100, None), ("got 10)", "it holds with passes that take up to 100 % longer, with the loss of a worker")),
    ):
        lines = wording._short({**found, "endurance": dict(zip(("holds", "breaks"), percent, strict=True))})
        assert (lines[3].endswith(words[0]), lines[4]) == (True, words[1])
    survived = wording._short({**found, "cases": [case(holds=False, spares={"workers": 3, "gpus": 3, "holds": True})]})
    assert survived[3].endswith(", with the loss of a worker (3 such workers survive it)")
    wide = wording._short({**found, "gpus": 4, "host_gb": {"worker": 256.0, "all": 512.0}})
    assert ", with 256 GB of host memory for the KV of each worker (128 GB for each GPU), 512 GB in all," in wide[0]
    assert other.startswith("with as many GPUs, 4 x vllm (point 7) holds with passes that take 15 % longer, and is")
    missed = {**found["targets"][0], "met": False, "value": 12.0}
    assert wording._short({**found, "targets": [missed]})[1].startswith(
        "the service level is missed on this trace: p90_ttft_ms 12 (<= 9); p90_ttft_ms <= 9 is missed; only"
    )
    alone = wording._short({**found, "size": "1 x vLLM TP 8"})
    assert "it holds with the loss of the only worker" in alone
    for change in ({"gpus": 3}, {"best_holds": False}, {"holds": True}):
        lines = wording._short({**found, "sensitivity": [{**longer, "point": 7, **change}]})
        assert not any(line.startswith("with as many GPUs") for line in lines)


def test_traffic_of_sessions_is_as_it_arrives(tmp_path: Path) -> None:
    """Turns wait for answers, so fewer arrive per second than by timestamps alone: in headroom, and in verify.sh."""
    sessions = [
        {"session_id": f"s{at}", "input_length": 500, "output_length": 40, "hash_ids": [100 * at + turn]}
        | ({"delay": 10} if turn else {"timestamp": 300 * at})
        for turn in range(3)
        for at in range(20)
    ]
    trace = tmp_path / "sessions.jsonl"
    trace.write_text("".join(json.dumps(each) + "\n" for each in sessions))
    found = sweep.recommend(trace, SLA, gpus=1, engine="vllm", engine_args=ENGINE, seeds=1, directory=tmp_path / "out")
    point = next(each for each in found.sweep.points if each["id"] == found.content["point"])
    rows = run_trace_replay(**{**point["arguments"], "capture_per_request": True}).per_request
    times = [each["arrival_time_ms"] for each in rows]
    offered = 1000 * len(times) / max(times)
    assert offered < 0.9 * point["figures"]["arrival_rps"]
    headroom = found.content["headroom"]
    assert headroom["nominal_rps"] == pytest.approx(offered)
    assert headroom["breaks_at"] is None or headroom["breaks_at"] > headroom["factor"]
    sweep.export(tmp_path / "out", point["id"], tmp_path / "files", model="m")
    script = (tmp_path / "files" / "verify.sh").read_text()
    rates = {name: float(rate) for name, rate in re.findall(r"bench (\w+) .*--request-rate ([\d.]+)", script)}
    assert rates["expected"] == pytest.approx(offered, rel=1e-3)


def test_headroom_in_words() -> None:
    found = {
        "factor": 1.234,
        "rps": 2.468,
        "nominal_rps": 2.0,
        "limited_by": "p90_ttft_ms <= 9: got 10",
        "breaks_at": 1.25,
    }
    assert wording._headroom(found) == (
        "holds up to 1.23 times this traffic, 2.468 instead of 2 requests/s; 1.25 times this traffic breaks it: "
        "p90_ttft_ms <= 9: got 10"
    )
    sessions = wording._headroom({**found, "rps": 2.02})
    assert sessions.startswith(
        "holds up to 1.23 times this traffic, with timestamps 1.23 times as close: requests then arrive at 2.02 "
        "instead of 2 a second, as turns wait for answers; 1.25 times"
    )
    edge = wording._headroom({**found, "factor": 1.0, "breaks_at": 1.01})
    assert edge.startswith("holds at this traffic, 2 requests/s, and hardly beyond; 1.01 times this traffic breaks it")
    assert wording._headroom({**found, "breaks_at": None}).endswith("; more traffic was not tried")


def test_files_do_what_was_examined(trace: Path, tmp_path: Path) -> None:
    """The answer behind the KV-aware router migrates requests, in its loss and in its files; their README says more."""
    found = sweep.recommend(
        trace, SLA, gpus=4, engine="vllm", engine_args=ENGINE, seeds=2, directory=tmp_path / "out", gpu_hour_price=2
    )
    point, routed = found.content["point"], found.content["basis"]["router"] == "kv_router"
    assert routed
    assert any("--router-mode kv --migration-limit 3" in line for line in found.content["flags"])
    sweep.export(tmp_path / "out", point, tmp_path / "files", model="m")
    assert "--migration-limit 3" in (tmp_path / "files" / "start.sh").read_text().replace(" \\\n    ", " ")
    readme = (tmp_path / "files" / "README.md").read_text()
    for title in ("Hosts", "To install", "Predicted", "Cost", "How sure", "Headroom", "What breaks it", "Autoscaling"):
        assert f"\n## {title}\n" in readme
    assert f"{found.content['headroom']['factor']:.2f} times this traffic" in readme
    assert "p90_itl_ms <= 40" in readme
    assert "(--migration-limit 3)" in readme
    # Other points were not examined.
    other = next(each["id"] for each in found.sweep.points if each["id"] != point)
    sweep.export(tmp_path / "out", other, tmp_path / "other", model="m")
    assert "were not examined" in (tmp_path / "other" / "README.md").read_text()
