"""Live workers whose passes last as long as the AIC SDK says: with the small SDK of test_aic.py."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from livetools import get, make_model, post, records, stream, until
from test_aic import fake
from test_live import Workers, answer, bad_input, generate, workers

__all__ = ["fake"]

SLOW_PREDICTIONS = """
import os, time
from aiconfigurator.sdk import rust_engine_step as engine
real = engine.Handle.predict_decode_latency
def slow(self, batch, isl, osl):
    if isl > 200:
        time.sleep(float(os.environ["PREDICTION_S"]))
    return real(self, batch, isl, osl)
engine.Handle.predict_decode_latency = slow
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_model(tmp_path_factory.mktemp("models") / "tiny"))


def engine_file(folder: Path, **fields: Any) -> list[str]:
    path = folder / "engine.json"
    path.write_text(json.dumps({"aic_backend": "vllm", **fields}))
    return ["--extra-engine-args", str(path)]


@contextmanager
def early(folder: Path, *arguments: str) -> Iterator[Workers]:
    """Workers whose start is not waited for."""
    with Workers(folder, *arguments) as w:
        yield w


def prompt(tokens: int, output: int) -> dict[str, Any]:
    return {**generate(output), "token_ids": list(range(3, 3 + tokens))}


def breaks_off(url: str, body: dict[str, Any]) -> None:
    with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
        assert "complete_final" not in post(url, body)[1]


def test_passes_last_as_long_as_the_sdk_says(fake: Path, tmp_path: Path, model: str) -> None:
    """A prompt of 10,000 tokens takes 100 ms, a decode of one request 3 ms; ranks have pools of their own."""
    size = ["--block-size", "16", "--aic-attention-dp-size", "2", "--data-parallel-size", "2"]
    with workers(tmp_path, "--model-path", model, "--aic-perf-model", "--aic-backend-version", "0.1", *size) as w:
        assert f"aic: {model}, h200_sxm, vllm 0.1, tp 1, attention dp 2; 916 KV blocks for each rank" in w.log
        assert records(w.root, "mdc")[0]["card_json"]["runtime_config"]["total_kv_blocks"] == 916

        def latencies(answers: int) -> list[float]:
            for name in ("time_to_first_token", "e2e_request_latency"):
                w.until_metric(f"vllm:{name}_seconds_count", answers)
            names = ("vllm:time_to_first_token_seconds_sum", "vllm:e2e_request_latency_seconds_sum")
            return [w.metric(name) for name in names]

        taken = []
        for start in range(3, 33):  # on a busy machine tokens may be sent late
            before = latencies(start - 3)
            body = {**generate(21), "token_ids": list(range(start, start + 10_000))}
            assert len(answer(post(w.url(), body)[1])[0]) == 21
            first, last = (after - then for after, then in zip(latencies(start - 2), before, strict=True))
            assert first > 0.1
            assert last > 0.1 + 20 * 0.003
            if first < 0.19 and last < 0.1 + 20 * 0.010:
                return
            taken.append((first, last))
        pytest.fail(f"always too long: {taken}")


def test_batches_are_those_of_a_rank(fake: Path, tmp_path: Path, model: str) -> None:
    """Eight requests at once on one rank are a batch of eight, whatever the attention data parallelism is."""
    fields = {"aic_attention_dp_size": 8, "num_gpu_blocks": 1000}
    with workers(tmp_path, "--model-path", model, *engine_file(tmp_path, **fields)) as w:
        url = w.url()
        threads = [threading.Thread(target=post, args=(url, generate(301))) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        w.until_metric("vllm:inter_token_latency_seconds_count", 8 * 300)
        mean = w.metric("vllm:inter_token_latency_seconds_sum") / w.metric("vllm:inter_token_latency_seconds_count")
        # 10 ms in a batch of eight; 3 ms alone, as at the begin and the end, and 66 ms in one of 64.
        assert 0.006 < mean < 0.05


def test_another_version_stands_in(fake: Path, tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model, *engine_file(tmp_path)) as w:
        assert f"aic: {model}, h200_sxm, vllm 0.2, tp 1" in w.log  # the newest one


def test_options_without_the_switch(fake: Path, tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model, "--aic-tp-size", "2", "--aic-system", "b300") as w:
        assert "aic_tp_size has no effect without aic_perf_model" in w.log
        assert "aic_system has no effect without aic_perf_model" in w.log


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--aic-system", "tpu"], 'aic_system: got "tpu", want one of'),
        (["--aic-tp-size", "3"], "num_heads 16 should be divisible by tp_size 3"),
        (["--aic-tp-size", "0"], "aic_tp_size: got 0"),
        (["--aic-backend-version", "9"], 'aic_backend_version: got "9", want one of 0.1, 0.2'),
        (["--gpu-memory-utilization", "0.01"], "it cannot be estimated: ValueError: no KV budget"),
        (["--aic-backend", "tgi"], "aic_backend: got"),
    ],
)
def test_bad_sessions(fake: Path, tmp_path: Path, model: str, arguments: list[str], problem: str) -> None:
    standard = ["--model-path", model, "--discovery-backend", "file", "--aic-perf-model"]
    bad_input(tmp_path, [*standard, *arguments], problem)


@pytest.mark.skipif(util.find_spec("aiconfigurator") is not None, reason="it is installed")
def test_without_the_sdk(tmp_path: Path, model: str) -> None:
    arguments = ["--model-path", model, "--discovery-backend", "file", "--aic-perf-model"]
    bad_input(tmp_path, arguments, "predictions need the AIC SDK, which is not installed")


def test_a_failing_prediction_ends_the_worker(fake: Path, tmp_path: Path, model: str) -> None:
    """The request breaks off, so that a frontend tries elsewhere. The worker goes; the process with its last one."""
    fields = {"aic_model_path": "short", "num_gpu_blocks": 1000}
    with workers(tmp_path, "--model-path", model, "--num-workers", "2", *engine_file(tmp_path, **fields)) as w:
        urls = [r["transport"]["http"] for r in records(w.root) if r["endpoint"] == "generate"]
        assert len(answer(post(urls[0], generate())[1])[0]) == 4
        breaks_off(urls[0], prompt(2000, 4))
        until(lambda: len(records(w.root, "mdc")) == 1)
        assert get(w.status + "/health")[0] == 503
        assert post(urls[0], generate())[0] == 404
        assert len(answer(post(urls[1], generate())[1])[0]) == 4
        breaks_off(urls[1], prompt(2000, 4))
        assert w.wait() == 1
        assert (
            "prefill of 1 requests with 2000 new tokens after 0: ValueError: isl is beyond the data"
            in w.log.splitlines()[-1]
        )
        assert w.log.splitlines()[-1].startswith("error: worker ")
        assert records(w.root, "mdc") == records(w.root) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_ends_while_the_sdk_loads(
    fake: Path, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    loading = tmp_path / "loading"
    monkeypatch.setenv("FAKE_IS_LOADING", str(loading))
    with early(tmp_path, "--model-path", model, *engine_file(tmp_path, aic_model_path="slow")) as w:
        until(loading.exists)
        w.stop(number)
        assert w.wait() == code  # loading takes most of an hour
        assert records(w.root, "mdc") == []
        assert "Traceback" not in w.log


def test_signals_while_the_sdk_predicts(fake: Path, tmp_path: Path, model: str) -> None:
    """One waits for the answers; two do not."""
    (fake / "sitecustomize.py").write_text(SLOW_PREDICTIONS)
    for signals, prediction_s in ((1, "3"), (2, "3000")):
        folder = tmp_path / str(signals)
        folder.mkdir()
        arguments = ("--model-path", model, *engine_file(folder, num_gpu_blocks=1000))
        with workers(folder, *arguments, PREDICTION_S=prediction_s) as w:
            lines = stream(w.url(), prompt(200, 3))
            next(lines)
            w.stop(signal.SIGINT)
            w.wait_for("shutting down")
            if signals == 1:
                assert len(list(lines)) == 2 + 2
            else:
                w.stop(signal.SIGINT)
            assert w.wait() == 130
            assert records(w.root, "mdc") == []
            assert "Traceback" not in w.log
