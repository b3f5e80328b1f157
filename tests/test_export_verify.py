"""verify.sh of exports: its benchmark runs against our own server, and what dynamo.validate says of their results."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from livetools import Service, mocker
from servetools import Server

from dynamo import sweep
from dynamo.sweep.exports import plan as plans
from dynamo.sweep.exports import verify
from dynamo.validate import held
from dynamo.validate.main import main
from dynamo.validate.measurement import Figures, Measurement

MODEL = "a/model"
ENGINE = {"max_num_seqs": 4, "timing_model": "fixed", "fixed_prefill_ms": 40, "fixed_decode_ms": 10, "block_size": 16}
RUNS = ["alone", "light", "expected", "peak", "busy", "full"]
# Stands in for the benchmark client of vLLM: the flags that verify.sh gives, and the keys of its results.
CLIENT = """#!{python}
import argparse, concurrent.futures, json, random, sys, time, urllib.request
assert sys.argv[1:3] == ["bench", "serve"]
parser = argparse.ArgumentParser(allow_abbrev=False)
for flag, kind in {{"backend": str, "base-url": str, "endpoint": str, "model": str, "dataset-name": str,
                   "random-range-ratio": float, "random-input-len": int, "random-output-len": int,
                   "random-prefix-len": int, "percentile-metrics": str, "metric-percentiles": str, "seed": int,
                   "result-dir": str, "result-filename": str, "num-prompts": int, "max-concurrency": int,
                   "request-rate": float}}.items():
    parser.add_argument("--" + flag, type=kind)
for flag in ("ignore-eos", "save-result", "save-detailed"):
    parser.add_argument("--" + flag, action="store_true", required=True)
o = parser.parse_args(sys.argv[3:])
assert (o.backend, o.dataset_name, o.random_range_ratio) == ("openai", "random", 0)

def ask(at):
    time.sleep(max(0, at - time.monotonic()))
    tokens = [random.randrange(32, 120) for _ in range(o.random_input_len)]
    body = {{"model": o.model, "prompt": tokens, "max_tokens": o.random_output_len, "ignore_eos": True, "stream": True}}
    headers = {{"content-type": "application/json"}}
    request = urllib.request.Request(o.base_url + o.endpoint, json.dumps(body).encode(), headers)
    begin, seen = time.monotonic(), []
    with urllib.request.urlopen(request) as answer:
        for line in answer:
            if line.startswith(b"data: {{") and json.loads(line[6:])["choices"]:
                seen.append(time.monotonic())
    return begin, seen[0] - begin, [b - a for a, b in zip(seen, seen[1:])][: o.random_output_len - 1]

random.seed(o.seed)
at, starts = time.monotonic(), []
for _ in range(o.num_prompts):
    starts.append(at)
    at += random.expovariate(o.request_rate) if o.request_rate else 0
with concurrent.futures.ThreadPoolExecutor(o.max_concurrency or 64) as clients:
    done = list(clients.map(ask, starts))
mean = lambda values: 1000 * sum(values) / len(values)
result = {{"model_id": o.model, "completed": len(done), "request_rate": o.request_rate or "inf", "burstiness": 1.0,
          "max_concurrency": o.max_concurrency, "num_prompts": o.num_prompts,
          "total_input_tokens": o.random_input_len * len(done), "total_output_tokens": o.random_output_len * len(done),
          "mean_ttft_ms": mean([t for _, t, _ in done]), "mean_tpot_ms": mean([sum(g) / len(g) for _, _, g in done]),
          "input_lens": [o.random_input_len] * len(done), "output_lens": [len(g) + 1 for _, _, g in done],
          "ttfts": [t for _, t, _ in done], "itls": [g for _, _, g in done], "start_times": [b for b, _, _ in done]}}
open(o.result_dir + "/" + o.result_filename, "w").write(json.dumps(result))
"""


def export(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An export whose runs take a second each."""
    for name, value in {"_SECONDS": 1, "_FEWEST": 8, "_ALONE": 5}.items():
        monkeypatch.setattr(verify, name, value)
    traffic = {"input_tokens": 40, "output_tokens": 11, "request_count": 30, "arrival_interval_ms": 100}
    sweep.run({"run": {**traffic, "extra_engine_args": ENGINE}, "search": {"seed": [1]}}, folder / "sweep")
    sweep.export(folder / "sweep", "best", folder / "out", model=MODEL)
    return folder / "out"


class Standalone(Server):
    """A server with the engine of the export."""

    def __init__(self, folder: Path) -> None:
        engine = ["--extra-engine-args", json.dumps(ENGINE), "--model-name", MODEL]
        Service.__init__(self, mocker("--standalone", "--http-port", "0", *engine), folder / "server.log", {})


def change(out: Path, what: Callable[[dict[str, Any]], object]) -> None:
    """Changes the predictions of an export."""
    found = json.loads((out / "verify.json").read_text())
    what(found)
    (out / "verify.json").write_text(json.dumps(found))


def test_the_script_runs_against_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its six runs are answered as predicted, with time for busy cores. A prediction that is far off does not hold."""
    out, programs = export(tmp_path, monkeypatch), tmp_path / "programs"
    programs.mkdir()
    python = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
    texts = {"vllm": CLIENT.format(python=sys.executable), "python3": python}
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    change(out, lambda found: found["tolerance"].update(ttft_ms=30_000, tpot=50))
    with Standalone(tmp_path) as server:
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "URL": server.url}
        done = subprocess.run(["sh", out / "verify.sh"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The prediction held." in done.stdout
    results = sorted(file.name for file in (out / "results").iterdir())
    assert results == sorted([*(f"{name}.json" for name in RUNS), "deployment.json", "of"])
    alone = json.loads((out / "results" / "alone.json").read_text())
    assert len(set(re.findall(r"--seed (\d+)", (out / "verify.sh").read_text()))) == len(RUNS)
    assert alone["mean_ttft_ms"] >= 40
    assert alone["mean_ttft_ms"] + 10 * alone["mean_tpot_ms"] >= 40 + 10 * 10  # wherever the client was late

    def too_fast(found: dict[str, Any]) -> None:
        found["tolerance"].update(ttft=0.3, ttft_ms=0, tpot=0.2)
        for run in found["runs"].values():
            run["ttft"], run["tpot"] = ({k: v / 3 for k, v in run[name].items()} for name in ("ttft", "tpot"))

    change(out, too_fast)
    # No server is there any more: results that are there are not measured again.
    again = subprocess.run(["sh", out / "verify.sh"], env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 3, again.stdout + again.stderr
    assert "The prediction did not hold." in again.stdout
    assert "decode_scale" in again.stdout
    # Results of another deployment, or of an unknown one, do not count either.
    for said in ("point 1 of another sweep\n", None):
        (out / "results" / "of").unlink()
        if said is not None:
            (out / "results" / "of").write_text(said)
        other = subprocess.run(["sh", out / "verify.sh"], env=environment, capture_output=True, text=True, check=False)
        assert (other.returncode, other.stdout) == (2, "")
        assert "results has results of something else, want a new folder: RESULTS=NEW" in other.stderr


def test_results_are_of_a_deployment(tmp_path: Path) -> None:
    """Equal deployments with equal traffic may share results; one with another limit or rate may not."""
    said = []
    for at, change in enumerate(({}, {}, {"max_num_seqs": 5}, {"fixed_decode_ms": 11})):
        traffic = {"input_tokens": 40, "output_tokens": 11, "request_count": 30, "arrival_interval_ms": 100 + at // 3}
        run = {**traffic, "extra_engine_args": {**ENGINE, **change}}
        sweep.run({"run": run, "search": {"seed": [1]}}, tmp_path / f"{at}")
        sweep.export(tmp_path / f"{at}", "best", tmp_path / f"out{at}", model=MODEL)
        said += re.findall(r'^of="(point 1 [0-9a-f]{16})"$', (tmp_path / f"out{at}" / "verify.sh").read_text(), re.M)
    assert said[0] == said[1]
    assert len(set(said)) == 3


def test_the_service_level_in_the_expected_run(tmp_path: Path) -> None:
    """Its bounds are predicted and measured, and decide nothing: the run is not the traffic itself."""
    traffic = {"input_tokens": 40, "output_tokens": 11, "request_count": 30, "arrival_interval_ms": 100}
    sla = {"p90_ttft_ms": 900, "p90_itl_ms": 40, "median_tpot_ms": 30, "output_tok_s_per_gpu": {"min": 1}}
    given = {"run": {**traffic, "extra_engine_args": ENGINE}, "search": {"seed": [1]}, "sla": sla}
    sweep.run(given, tmp_path / "sweep")
    sweep.export(tmp_path / "sweep", "best", tmp_path / "out", model=MODEL)
    known = held.predictions(str(tmp_path / "out" / "verify.json"))
    assert sorted(known["limits"], key=str) == sorted(
        [
            {"metric": "ttft", "rank": "p90", "at_most": 900},
            {"metric": "itl", "rank": "p90", "at_most": 40},
            {"metric": "tpot", "rank": "p50", "at_most": 30},
        ],
        key=str,
    )
    assert known["runs"]["expected"]["itl"]["p50"] == pytest.approx(10, rel=0.01)
    limits = {"limits": [{"metric": "itl", "rank": "p90", "at_most": 40}]}
    base = predicted()
    base["runs"]["expected"] |= {"itl": {"p90": 12.0}}
    runs = measured()
    without = held.judge({**base, **limits}, runs)
    assert without.held
    assert "p90 ITL <= 40 ms: not measured: 12.0 ms predicted in expected, with prompts" in held.text(without)
    assert held.text(without).endswith("The prediction held.\nWhether the service level is kept was not measured.")
    at = RUNS.index("expected")
    runs[at] = Measurement(**{**vars(runs[at]), "itl": Figures(p90=55.5)})
    late = held.judge({**base, **limits}, runs)
    assert late.held
    assert "NOT KEPT: 12.0 ms predicted, 55.5 ms measured in expected" in held.text(late)
    assert held.text(late).endswith("The prediction held.\nThe service level is NOT kept by what expected measured.")
    runs[at] = Measurement(**{**vars(runs[at]), "itl": Figures(p90=13.5)})
    kept = held.text(held.judge({**base, **limits}, runs))
    assert "kept: 12.0 ms predicted, 13.5 ms measured in expected" in kept
    assert "beyond the bound" not in kept
    assert kept.endswith("The prediction held.\nThe service level is kept by what expected measured.")
    near = {"limits": [{"metric": "itl", "rank": "p90", "at_most": 14}], "breaks_with_longer_percent": 4}
    close = held.text(held.judge({**base, **near}, runs))
    assert "with prompts and answers of mean length. It may be off up to 14.4 ms, beyond the bound" in close
    assert close.splitlines()[-1].startswith("By the simulation it breaks with passes that take 4 % longer, and a TPOT")
    far = held.text(held.judge({**base, **near, "breaks_with_longer_percent": 25}, runs))
    assert "By the simulation" not in far


def test_a_margin_that_is_smaller_than_the_tolerance(tmp_path: Path) -> None:
    """The README says it, and verify.json has what the verdict says it by."""
    traffic = {"input_tokens": 40, "output_tokens": 11, "request_count": 30, "arrival_interval_ms": 100}
    sweep.run({"run": {**traffic, "extra_engine_args": ENGINE}, "search": {"seed": [1]}}, tmp_path / "sweep")
    (point,) = sweep.load(tmp_path / "sweep").content["points"]
    plan = plans.of(point, MODEL, None)
    for endurance, said in (
        ({"holds": 3, "breaks": 4}, "up to 20 % longer, but the service level breaks with passes that take 4 % longer"),
        ({"holds": 20, "breaks": 25}, ""),
        ({"holds": 100, "breaks": None}, ""),
        ({"unknown": "x"}, ""),
        (None, ""),
    ):
        known = dataclasses.replace(plan, recommendation={"endurance": endurance})
        assert said in verify.too_wide(known)
        assert bool(verify.too_wide(known)) == bool(said)
        margin = json.loads(verify.files(known)["verify.json"]).get("breaks_with_longer_percent")
        assert margin == (endurance or {}).get("breaks")


@pytest.mark.parametrize(("cached", "prefix", "said"), [(0.04, "", "4 % of its prompts"), (0.5, "50", "of 50 tokens")])
def test_prefixes_are_those_found_in_caches(cached: float, prefix: str, said: str) -> None:
    traffic = verify.Traffic(100, 10, cached)
    assert traffic.flags[4:] == (["--random-prefix-len", prefix] if prefix else [])
    assert int(traffic.flags[1]) + int(prefix or 0) == 100
    assert said in verify._prefix(traffic, False)
    assert ("host memory is not measured" in verify._prefix(traffic, True)) == (cached > 0.05)


def predicted(workers: int = 1) -> dict[str, Any]:
    figures = {"mean": 100.0, "p50": 100.0, "p90": 120.0, "p99": 130.0}
    runs = {name: {"completed": 10, "ttft": figures, "tpot": figures} for name in RUNS}
    return {"workers": workers, "tolerance": {"ttft": 0.3, "tpot": 0.2, "ttft_ms": 50}, "runs": runs}


def measured(**factors: tuple[float, float]) -> list[Measurement]:
    """Results that differ from the prediction by factors of TTFT and TPOT."""

    def figures(factor: float) -> Figures:
        return Figures(100 * factor, 100 * factor, 120 * factor, 130 * factor)

    return [
        Measurement(
            id=name, source="vllm-bench", file=f"r/{name}.json", request_count=10,
            ttft=figures(factors.get(name, (1, 1))[0]), tpot=figures(factors.get(name, (1, 1))[1]),
        )
        for name in RUNS
    ]  # fmt: skip


def test_bounds_of_what_holds() -> None:
    assert held.judge(predicted(), measured()).held
    inside = held.judge(predicted(), measured(alone=(1.79, 1.19), peak=(0.21, 0.81)))
    assert inside.held, held.text(inside)
    outside = held.judge(predicted(), measured(alone=(1.81, 1.0), light=(1.0, 0.79)))
    assert {(f.run, f.metric) for f in outside.figures if not f.held} == {("alone", "ttft"), ("light", "tpot")}
    late = held.judge(predicted(), measured(expected=(1.75, 1.0)))
    assert {(f.run, f.rank) for f in late.figures if not f.held} == {("expected", "p90")}


@pytest.mark.parametrize(
    ("factors", "said", "unsaid"),
    [
        ({"alone": (1, 1.5)}, "a decode pass alone takes 1.50 times", "in batches"),
        ({"alone": (3, 1)}, "a prompt alone takes +200 ms", "wait otherwise"),
        ({"full": (1, 1.5)}, "right alone and wrong in batches: seq_overhead_us", "decode_scale"),
        ({"peak": (9, 1)}, "wait otherwise than predicted: the KV pool", "prefill_scale"),
    ],
)
def test_what_to_calibrate(factors: dict[str, tuple[float, float]], said: str, unsaid: str) -> None:
    text = held.text(held.judge(predicted(workers=2), measured(**factors)))
    assert "The prediction did not hold." in text
    assert said in text
    assert unsaid not in text
    assert "python -m dynamo.calibrate RESULTS -o profile.json" in text
    assert "engine.sh of the export starts one" in text


def test_lost_requests_do_not_hold() -> None:
    runs = measured()
    runs[3] = Measurement(**{**vars(runs[3]), "request_count": 7})
    verdict = held.judge(predicted(), runs)
    assert not verdict.held
    assert "peak: 3 requests were not answered" in held.text(verdict)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--predicted", "none.json"], "--predicted: 'none.json' is missing, want verify.json"),
        (["--predicted", "empty.json"], "want verify.json that python -m dynamo.sweep export wrote"),
        (["--predicted", "good.json"], "MEASURED: no alone.json among 1 results"),
        (["--predicted", "good.json", "--splits"], "--splits: leave it out"),
        (["--predicted", "good.json", "--seeds", "2"], "--seeds: leave it out"),
    ],
)
def test_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.json").write_text("{}")
    Path("good.json").write_text(json.dumps({"schema": 1, **predicted()}))
    Path("results").mkdir()
    run = {"model_id": "m", "completed": 3, "mean_ttft_ms": 5, "mean_tpot_ms": 1, "total_input_tokens": 3}
    Path("results/other.json").write_text(json.dumps({**run, "total_output_tokens": 3, "max_concurrency": 1}))
    assert main(["results", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert problem in err
