"""Timing models in Python, through the Python functions, the command line and sweeps."""

from __future__ import annotations

import importlib.metadata
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, refused

from dynamo.replay import run_synthetic_trace_replay, timings

ROOT = Path(__file__).parent.parent
TEMPLATE = ROOT / "examples" / "timing" / "template.py"
TRACE = ROOT / "examples" / "traces" / "conversation_400.jsonl.gz"
ONE: dict[str, Any] = {"input_tokens": 600, "output_tokens": 5, "request_count": 4, "arrival_interval_ms": 1000.0}
BUSY: dict[str, Any] = {"input_tokens": 600, "output_tokens": 40, "request_count": 60, "arrival_interval_ms": 4.0}


class Asked:
    """A timing model that keeps what it is asked."""

    def __init__(self, answer: Any, *, pure: bool = True) -> None:
        self.pure = pure
        self.answer = answer
        self.parts: list[tuple[str, int, int, int, int]] = []
        self.batches: list[int] = []

    def __call__(self, batch: timings.Batch) -> Any:
        self.batches.append(len(batch))
        columns = (batch.decode, batch.requests, batch.tokens, batch.context)
        rows = [(batch.stage, *map(int, row)) for row in zip(*columns, strict=True)]
        self.parts += rows
        return [self.answer(row) for row in rows] if callable(self.answer) else self.answer


def test_durations_by_hand() -> None:
    model = Asked(lambda part: 2.0 if part[1] else part[3] / 100)
    report = run_synthetic_trace_replay(**ONE, timing_model=model)
    assert report["mean_ttft_ms"] == pytest.approx(
        8.0
    )  # 600 / 100, and the pass that gives the first token decodes, too
    assert report["mean_tpot_ms"] == pytest.approx(2.0)
    assert report["timing_model"] == f"{__name__}.Asked"
    assert ("", 0, 1, 600, 0) in model.parts
    assert all(part[1:4] == (1, 1, 1) for part in model.parts if part[1])


@pytest.mark.parametrize("scheduler", ["dynamo", "vllm"])
def test_pure_models_are_asked_once_and_say_the_same(scheduler: str) -> None:
    def ms(part: tuple[str, int, int, int, int]) -> float:
        return 3 + 0.01 * part[2] + 0.001 * part[2] * (part[3] + part[4] / 100)

    engine = {"scheduler": scheduler}
    pure, anew = Asked(ms), Asked(ms, pure=False)
    first = run_synthetic_trace_replay(**BUSY, num_workers=2, extra_engine_args=engine, timing_model=pure)
    second = run_synthetic_trace_replay(**BUSY, num_workers=2, extra_engine_args=engine, timing_model=anew)
    for figure in ("mean_ttft_ms", "mean_tpot_ms", "p99_e2e_latency_ms", "duration_ms"):
        assert first[figure] == second[figure], figure
    assert len(pure.parts) == len(set(pure.parts))
    assert max(pure.batches) > 1
    assert set(anew.batches) == {1}
    assert len(anew.parts) > len(set(anew.parts)), "equal parts come up several times"


def test_a_model_may_remember() -> None:
    class Warm:
        passes = 0

        def __call__(self, batch: timings.Batch) -> float:
            self.passes += 1
            return 100.0 if self.passes == 1 else 1.0

    requests = run_synthetic_trace_replay(**ONE, timing_model=Warm()).requests
    assert requests["ttft_ms"][0] > requests["ttft_ms"][1] + 90


def test_both_pools() -> None:
    model = Asked(5.0)
    report = run_synthetic_trace_replay(**BUSY, num_prefill_workers=1, num_decode_workers=2, timing_model=model)
    assert report["completed_requests"] == 60
    assert {part[0] for part in model.parts} == {"prefill", "decode"}


def test_ratios_apply() -> None:
    plain = run_synthetic_trace_replay(**ONE, timing_model=lambda _: 10)
    twice = run_synthetic_trace_replay(**ONE, timing_model=lambda _: 10, extra_engine_args={"speedup_ratio": 2.0})
    assert twice["mean_tpot_ms"] == pytest.approx(plain["mean_tpot_ms"] / 2)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (-1, r"prefill of 1 requests with 600 new tokens after 0: it returned -1, want milliseconds, 0 or more$"),
        (float("nan"), r"it returned nan, want milliseconds"),
        ("5", r'it returned "5", want milliseconds'),
        (True, r"it returned true, want milliseconds"),
        ([1.0, 2.0], r"it returned 2 durations, want 1$"),
        (None, r"it returned null|it returned None"),
    ],
)
def test_wrong_answers(answer: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        run_synthetic_trace_replay(**ONE, timing_model=lambda _: answer)
    assert str(raised.value).startswith("timing_model: ")
    assert "\n" not in str(raised.value)


def test_what_it_raises_ends_the_run() -> None:
    def broken(batch: timings.Batch) -> float:
        if batch.decode[0]:
            raise KeyError("no table")
        return 1.0

    with pytest.raises(
        RuntimeError, match=r"^timing_model: decode of 1 requests of 600 tokens: .*broken: KeyError"
    ) as raised:
        run_synthetic_trace_replay(**ONE, timing_model=broken)
    assert isinstance(raised.value.__cause__, KeyError)

    def interrupted(batch: timings.Batch) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_synthetic_trace_replay(**ONE, timing_model=interrupted)


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match="timing_model: got 7, want a function of a batch"):
        run_synthetic_trace_replay(**ONE, timing_model=7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got the class Asked, want an object"):
        run_synthetic_trace_replay(**ONE, timing_model=Asked)
    engine = {"fixed_prefill_ms": 5.0, "fixed_decode_ms": 1.0}
    with pytest.raises(ValueError, match="it left out, as extra_engine_args choose the timing model fixed"):
        run_synthetic_trace_replay(**ONE, timing_model=lambda _: 1, extra_engine_args=engine)


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = importlib.metadata.EntryPoint("gpu", f"{__name__}:seven", timings.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [offered] if group == timings.GROUP else [])
    report = run_synthetic_trace_replay(**ONE, timing_model="gpu")
    assert (report["mean_tpot_ms"], report["timing_model"]) == (pytest.approx(7.0), "gpu")
    with pytest.raises(ValueError, match=r'timing_model: got "cpu", want MODULE:NAME, .* is installed \(gpu\)$'):
        run_synthetic_trace_replay(**ONE, timing_model="cpu")


def seven(batch: timings.Batch) -> float:
    """A timing model."""
    return 7.0


def test_template(cli: Cli, folder: Path) -> None:
    options = [str(TRACE), "--num-workers", "2", "--report-json", str(folder / "report.json")]
    done = cli(*options, "--timing-model", f"{TEMPLATE}:roofline")
    assert done.returncode == 0, done.stderr
    assert "template.py:roofline" in done.stdout
    report = json.loads((folder / "report.json").read_text())
    assert [file["argument"] for file in report["provenance"]["inputs"]] == ["trace_files", "timing_model"]
    assert report["min_tpot_ms" if "min_tpot_ms" in report else "mean_tpot_ms"] > 16e9 / 3.35e12 * 1000
    again = cli("--from-report", str(folder / "report.json"), "--report-json", str(folder / "again.json"))
    assert again.returncode == 0, again.stderr
    assert json.loads((folder / "again.json").read_text())["mean_ttft_ms"] == report["mean_ttft_ms"]
    assert "has no rooflin" in refused(cli(*options, "--timing-model", f"{TEMPLATE}:rooflin"))
    assert "does not exist" in refused(cli(*options, "--timing-model", f"{folder}/none.py:f"))


def test_knob_of_a_sweep(folder: Path) -> None:
    (folder / "gpus.py").write_text("def fast(batch):\n    return 2\n\n\ndef slow(batch):\n    return 6\n")
    names = [f"{folder / 'gpus.py'}:{name}" for name in ("fast", "slow")]
    spec = {"run": {**BUSY, "num_workers": 1}, "search": {"timing_model": names}}
    (folder / "sweep.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "dynamo.sweep", "run", str(folder / "sweep.json"), "-o", str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    points = json.loads((folder / "out" / "report.json").read_text())["points"]
    found = {point["knobs"]["timing_model"]: point["figures"]["mean_tpot_ms"] for point in points}
    assert found[names[0]] < found[names[1]]


def test_fixed_times_with_a_deviation(cli: Cli, folder: Path) -> None:
    def figures(name: str) -> dict[str, float]:
        path = folder / f"{name}.json"
        work = ["--input-tokens", "600", "--output-tokens", "40", "--request-count", "20", "--arrival-interval-ms", "4"]
        done = cli(*work, "--timing-model", f"{TEMPLATE.with_name('jitter.py')}:Jitter", "--report-json", str(path))
        assert done.returncode == 0, done.stderr
        report: dict[str, float] = json.loads(path.read_text())
        return report

    first, again = figures("first"), figures("again")
    assert first["mean_ttft_ms"] == again["mean_ttft_ms"]
    assert 6 < first["mean_tpot_ms"] < 60

    jitter = runpy.run_path(str(TEMPLATE.with_name("jitter.py")))["Jitter"](
        prompt_ms=40, step_ms=8, deviation=0.2, seed=3
    )
    steps = jitter(timings.Batch("", [[1, 4, 1, 100]] * 4000))
    assert min(steps) > 0
    assert sum(steps) / 4000 == pytest.approx(8, abs=0.1)  # four standard deviations of the mean
    assert (sum((ms - 8) ** 2 for ms in steps) / 4000) ** 0.5 == pytest.approx(1.6, rel=0.06)
    assert sum(jitter(timings.Batch("", [[0, 1, 512, 0]] * 4000))) / 4000 == pytest.approx(40, abs=0.5)
