"""Predictions by the AIC SDK as users meet them: with a small SDK made up here, and with the real one where it is."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import TINY, Cli, command, refused, row, script, write_trace
from livetools import until
from pagetools import embedded_in

import dynamo.llm
from dynamo._core import aic, aic_sdk
from dynamo.mocker import AicPerfConfig, MockEngineArgs
from dynamo.replay import run_synthetic_trace_replay

# A prompt token takes 10 us and a decode 2 ms, so that times tell what was asked. Model names choose what goes wrong.
FAKE = {
    "perf_database": """
        import os
        VERSIONS = {
            "h200_sxm": {"vllm": ["0.1", "0.2"], "sglang": ["0.5.10"], "trtllm": ["1.3.0rc10"]},
            "b300": {"vllm": ["0.19.0"], "sglang": []},
        }
        if os.environ.get("FAKE_IS_BROKEN"):
            raise OSError("libfake.so: cannot open shared object file")
        def get_database(*, system, backend, version):
            if version in VERSIONS.get(system, {}).get(backend, []):
                return f"{system}/{backend}/{version}"
            if version.startswith("0.19"):
                raise ValueError("old-style version")
            return None
        def get_supported_databases():
            return VERSIONS
    """,
    "common": """
        import enum
        class GEMMQuantMode(enum.Enum): bfloat16 = 1; int4_wo = 2
        class MoEQuantMode(enum.Enum): bfloat16 = 1
        class FMHAQuantMode(enum.Enum): bfloat16 = 1
        class KVCacheQuantMode(enum.Enum): bfloat16 = 1; int8 = 2; fp8 = 3
        class CommQuantMode(enum.Enum): half = 1
        def get_default_models():
            return {"org/Meta-Alpha-3.1-7B", "org/Beta-2B", "org/Gamma-30B-A3B", "org/Delta-405B-FP8"}
    """,
    "config": """
        import dataclasses
        @dataclasses.dataclass
        class ModelConfig:
            tp_size: int = 1
            attention_dp_size: int = 1
            moe_tp_size: object = None
            moe_ep_size: object = None
            gemm_quant_mode: object = None
            kvcache_quant_mode: object = None
            fmha_quant_mode: object = None
            nextn: int = 0
            nextn_accept_rates: object = None
    """,
    "models": """
        import os, time
        from .common import GEMMQuantMode
        class HuggingFaceDownloadError(Exception): pass
        class Operation:
            def __init__(self, name, ms): self._name, self._ms = name, ms
            def query(self, database, *, x, s, model_name, **rest):
                if model_name == "useless":
                    raise KeyError("no data at all")
                return self._ms(x, s)
        class Model:
            context_ops = [Operation("attention", lambda x, s: x * 0.01), Operation("logits_gemm", lambda x, s: x)]
            generation_ops = [Operation("attention", lambda x, s: x * 1000 + s)]
            def __init__(self, name, config):
                self.name, self.config = name, config
                if name.startswith("moe"):
                    self.context_ops = [*self.context_ops, Operation("context_moe", lambda x, s: x * 0.008)]
                    self.generation_ops = [Operation("generation_moe", lambda x, s: x * 0.5)]
            def get_kvcache_bytes_per_sequence(self, tokens):
                if self.name == "useless":
                    raise KeyError("no KV")
                return tokens * 160000 / self.config.tp_size
        def get_model(*, model_path, model_config, backend_name):
            if model_path == "unheard/of":
                raise HuggingFaceDownloadError("Failed to download\\nconfig.json")
            if model_path == "slow":
                open(os.environ.get("FAKE_IS_LOADING", os.devnull), "w").close()
                time.sleep(3000)
            if model_config.tp_size == 3:
                raise AssertionError("num_heads 16 should be divisible by tp_size 3")
            if model_path == "meta-llama/Meta-Llama-3.1-70B":
                model_config.gemm_quant_mode = model_config.gemm_quant_mode or GEMMQuantMode.bfloat16
            return Model(model_path, model_config)
    """,
    "rust_engine_step": """
        class Handle:
            def __init__(self, model): self.model = model
            def predict_prefill_latency(self, batch, isl, prefix):
                if self.model.name == "short" and isl > 1000:
                    raise ValueError("isl is beyond\\nthe data")
                if self.model.name == "nan" and isl > 1000:
                    return float("nan")
                kv = getattr(self.model.config.kvcache_quant_mode, "name", "bfloat16")
                return 0.01 * (isl - prefix) * (2 if kv != "bfloat16" else 1)
            def predict_decode_latency(self, batch, isl, osl):
                assert osl == 2
                if self.model.name == "useless":
                    raise KeyError("no data at all")
                if self.model.name == "curved":
                    return 2.0 + batch ** 0.5 + (isl / 1000) ** 1.5
                return 2.0 + batch + 10 * self.model.config.nextn + sum(self.model.config.nextn_accept_rates or [])
        def values(operations, indices, x, s):
            return [(operations[i]._name, operations[i]._ms(x, s), 0, "silicon") for i in indices]
        class ExpertHandle(Handle):
            def evaluate_context_ops(self, indices, *, batch_size, s, x):
                return values(self.model.context_ops, indices, x, s)
            def evaluate_generation_ops(self, indices, *, batch_size, s, x):
                return values(self.model.generation_ops, indices, x, s)
        def _cached_engine_handle(model, database):
            return ExpertHandle(model) if model.name == "moe" else Handle(model)
    """,
    "memory": """
        def estimate_num_gpu_blocks(model_path, system, backend, **given):
            assert given["memory_fraction_kind"] == ("of_free" if backend == "trtllm" else "of_total")
            if given["memory_fraction_value"] < 0.1 or "Gamma" in model_path and given.get("tp_size", 1) < 4:
                raise ValueError("no KV budget")
            halves = 2 if model_path == "halved" and given.get("kvcache_quant_mode") != "fp8" else 1
            return (round(1000 * given["memory_fraction_value"]) + given["scheduler_block_size"]) // halves
    """,
}


@pytest.fixture
def fake(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a made-up SDK that processes find before the real one."""
    folder = tmp_path_factory.mktemp("sdk")
    package = folder / "aiconfigurator" / "sdk"
    package.mkdir(parents=True)
    for name in (package.parent, package):
        (name / "__init__.py").touch()
    for name, source in FAKE.items():
        (package / f"{name}.py").write_text(textwrap.dedent(source))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def engine(**fields: Any) -> list[str]:
    return ["--extra-engine-args", json.dumps({"aic_backend": "vllm", "aic_model_path": "m", **fields})]


def report_of(cli: Cli, folder: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    done = cli(*arguments, "--report-json", "report.json")
    assert done.returncode == 0, done
    return json.loads((folder / "report.json").read_text()), done.stderr


ONE = ["--input-tokens", "1000", "--output-tokens", "3", "--request-count", "1"]


@pytest.mark.parametrize("name", ["org/Alpha-3.1-7B", "else/Alpha-3.1-7B-Instruct", "org/meta-alpha-3.1-7b-chat"])
def test_common_names_of_models(fake: Path, cli: Cli, folder: Path, name: str) -> None:
    report, stderr = report_of(cli, folder, *ONE, *engine(aic_model_path=name))
    assert report["timing_model"] == f"aic: {name}, h200_sxm, vllm 0.2, tp 1"
    assert f"aic_model_path: the AIC SDK knows {name} as org/Meta-Alpha-3.1-7B" in stderr


def test_names_of_other_checkpoints_are_not_taken_for_one() -> None:
    models = ["org/Meta-Alpha-3.1-7B", "x/Llama-3.1-70B-Instruct-FP8", "meta-llama/Meta-Llama-3.1-70B"]
    for name, known in [
        ("org/Alpha-3.1-7B-FP8", "org/Alpha-3.1-7B-FP8"),
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Meta-Llama-3.1-70B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Meta-Llama-3.1-70B"),
        ("meta-llama/Llama-3.1-70B-Instruct-FP8", "x/Llama-3.1-70B-Instruct-FP8"),
        ("", ""),
    ]:
        assert aic.known_as(name, models) == known


def test_models_are_listed(fake: Path, cli: Cli) -> None:
    done = cli("models")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  h200_sxm  sglang 0.5.10; trtllm 1.3.0rc10; vllm 0.1, 0.2" in done.stdout
    assert re.search(r"^org/Meta-Alpha-3.1-7B  +e\.\. +gg-$", done.stdout, re.MULTILINE), done.stdout
    rows = json.loads(cli("models", "--json", "--system", "h200_sxm").stdout)["models"]
    at = {"model": "org/Beta-2B", "system": "h200_sxm"}
    assert {"engine": "vllm", "calibration": "gpu", **at} in rows
    assert {"engine": "trtllm", "calibration": None, **at} in rows
    assert len(rows) == 4 * 3
    assert 'error: --system: got "abacus", want one of b300, h200_sxm' in refused(cli("models", "--system", "abacus"))


@pytest.mark.skipif(util.find_spec("aiconfigurator") is not None, reason="the SDK is there")
def test_models_without_the_sdk(cli: Cli) -> None:
    done = cli("models")
    assert done.returncode == 0
    assert "not installed: pip install 'dynosim[aic]'" in done.stderr
    assert re.search(r"^  Llama-3\.1-70B\S* +h100_sxm +vllm +fp8 +\d+$", done.stdout, re.MULTILINE), done.stdout
    assert json.loads(cli("models", "--json").stdout)["aiconfigurator"] is None


def test_passes_last_as_long_as_the_sdk_says(fake: Path, cli: Cli, folder: Path) -> None:
    report, stderr = report_of(cli, folder, *ONE, *engine(aic_backend_version="0.1"))
    assert (report["mean_ttft_ms"], report["mean_itl_ms"]) == pytest.approx((13, 3))
    assert report["timing_model"] == "aic: m, h200_sxm, vllm 0.1, tp 1"
    assert stderr == ""


def test_trtllm(fake: Path, cli: Cli, folder: Path) -> None:
    """Its own version and share of memory: 0.9 of what is free, 932 blocks of 32 tokens here."""
    big = ["--input-tokens", "29000", "--output-tokens", "1000", "--request-count", "1"]
    report, stderr = report_of(cli, folder, *big, *engine(engine_type="trtllm", aic_backend="trtllm"))
    assert report["timing_model"] == "aic: m, h200_sxm, trtllm 1.3.0rc10, tp 1"
    assert "the KV pool of 932 blocks of 32 has room for, and get fewer: request 0: 824 of 1000 tokens" in stderr
    assert report["mean_itl_ms"] == pytest.approx(3)


def test_another_version_stands_in_for_the_default(fake: Path, cli: Cli, folder: Path) -> None:
    report, stderr = report_of(cli, folder, *ONE, *engine())
    assert report["timing_model"] == "aic: m, h200_sxm, vllm 0.2, tp 1"  # the newest one
    assert stderr == ""
    assert report_of(cli, folder, *ONE, *engine(aic_system="b300"))[1] == ""


def test_speculative_decoding_asks_for_whole_steps(fake: Path, cli: Cli, folder: Path) -> None:
    fields = {"aic_nextn": 2, "aic_nextn_accept_rates": "1,1", "aic_backend_version": "0.1"}
    report, _ = report_of(cli, folder, *ONE, *engine(**fields))
    assert report["mean_e2e_latency_ms"] == pytest.approx(10 + 2 + 1 + 20)


def test_data_types(fake: Path, cli: Cli, folder: Path) -> None:
    fields = {"aic_kv_cache_dtype": "fp8", "aic_gemm_dtype": "int4", "aic_backend_version": "0.1"}
    report, _ = report_of(cli, folder, *ONE, *engine(**fields))
    assert report["mean_ttft_ms"] == pytest.approx(23)


def test_the_operations_of_a_model_are_added_up(
    fake: Path, cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMO_AIC_DISABLE_COMPILED_ENGINE", "1")
    report, _ = report_of(
        cli, folder, *ONE, *engine(aic_nextn=1, aic_nextn_accept_rates="0", aic_backend_version="0.1")
    )
    assert report["mean_ttft_ms"] == pytest.approx(1000 * 0.01 + 1 + 2 * 1000 + 1001)


@pytest.mark.parametrize(
    ("changes", "ttft_ms", "words"),
    [
        # The SDK takes 10 ms for the prompt if all ranks have one, 8 of them for experts; here a rank has a fourth.
        ({"aic_model_path": "moe", "dp_size": 4}, 2 + 8 / 4 + 3, "expert layers for the tokens of all ranks"),
        # A release whose compiled engine does not tell operations apart, so that they are asked one by one.
        ({"aic_model_path": "moe-old", "dp_size": 4}, 2 + 8 / 4 + 3, "expert layers for the tokens of all ranks"),
        ({"aic_model_path": "m", "dp_size": 4}, 10 + 3, "a pass of ranks as long as that of the slowest alone"),
        ({"aic_model_path": "moe", "aic_attention_dp_size": 4}, 10 + 3, "vLLM 0.1"),
    ],
)
def test_experts_of_ranks(
    fake: Path, cli: Cli, folder: Path, changes: dict[str, Any], ttft_ms: float, words: str
) -> None:
    own = engine(scheduler="vllm", aic_backend_version="0.1", **changes)
    report, _ = report_of(cli, folder, *ONE, *own)
    assert report["mean_ttft_ms"] == pytest.approx(ttft_ms)
    assert re.search(rf"\nDurations: .*{words}\n", cli(*ONE, *own).stdout)
    # 964 blocks for each rank: a prompt has to fit into those of one, not of all.
    done = cli(*own, "--input-tokens", "110000", "--output-tokens", "1", "--request-count", "1")
    assert ("every request was rejected" in done.stderr) == ("dp_size" in changes)


DEPLOYMENTS = sorted((Path(__file__).parent.parent / "examples" / "deployments").glob("*.yaml"))


@pytest.mark.parametrize("path", DEPLOYMENTS, ids=lambda path: str(path.stem))
def test_example_deployments(fake: Path, cli: Cli, folder: Path, path: Path) -> None:
    """Each says how it is run and what was measured, and runs; here for a model and a GPU of the made-up SDK."""
    assert f"python -m dynamo.replay --config examples/deployments/{path.name}" in path.read_text()
    assert "# Measured (" in path.read_text()
    run = yaml.safe_load(path.read_text())
    for pool in ("prefill_engine_args", "decode_engine_args"):
        engine = run[pool]
        gpus = engine["aic_tp_size"] * engine.get("aic_attention_dp_size", 1)
        assert gpus == engine["aic_moe_tp_size"] * engine["aic_moe_ep_size"]
        engine |= {"aic_system": "h200_sxm", "aic_model_path": "m"}
        engine |= {"aic_backend_version": "0.5.10" if engine["aic_backend"] == "sglang" else "0.2"}
        engine |= {"num_gpu_blocks": 10_000_000 // engine.get("block_size", 1)}
        engine.pop("aic_fmha_dtype", None)
        engine.pop("aic_kv_cache_dtype", None)
    run |= {"request_count": 8, "output_tokens": 8}
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    report, _ = report_of(cli, folder, "--config", "run.yaml")
    assert (report["num_requests"], report["rejected_requests"]) == (8, 0)


def test_the_operations_of_experts_are_added_up(
    fake: Path, cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the compiled engine, 10 + 1 + 8 ms of the prompt are 10 + 1 + 2, and a decode step is of experts only."""
    monkeypatch.setenv("DYNAMO_AIC_DISABLE_COMPILED_ENGINE", "1")
    own = engine(scheduler="vllm", aic_backend_version="0.1", aic_model_path="moe", dp_size=4)
    report, _ = report_of(cli, folder, *ONE, *own)
    assert report["mean_ttft_ms"] == pytest.approx(10 + 1 + 2 + 1)


def test_the_pool_is_estimated(fake: Path, cli: Cli, folder: Path) -> None:
    """964 blocks of 64 tokens, for each of two ranks, hold a prompt that the default of one rank would not."""
    big = ["--input-tokens", "110000", "--output-tokens", "1", "--request-count", "1"]
    done = cli(*big, *engine(aic_attention_dp_size=1))
    assert (done.returncode, "every request was rejected (1 of 1)" in done.stderr) == (1, True)
    report, _ = report_of(cli, folder, *big, *engine(aic_attention_dp_size=2))
    assert report["rejected_requests"] == 0
    assert report["provenance"]["estimated_gpu_blocks"] == {"extra_engine_args": 2 * 964}
    report, _ = report_of(cli, folder, *big, *engine(gpu_memory_utilization=1.0, num_gpu_blocks=2000))
    assert report["rejected_requests"] == 0


def test_the_pool_is_estimated_as_the_engine_does(fake: Path, cli: Cli, folder: Path) -> None:
    """A log of this model has 51.38 GiB; the SDK's answer, 964 blocks, is not asked for. The report has the parts."""
    configs = fake / "aiconfigurator" / "model_configs"
    configs.mkdir()
    llama = {
        "model_type": "llama",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
    }
    (configs / "m_config.json").write_text(json.dumps(llama))
    by_engine = {"aic_system": "h200_sxm", "gpu_memory_gib": 79.2, "kv_pool_estimate": "engine", "max_num_seqs": 1024}
    by_engine |= {"engine_version": "0.11.0", "max_num_batched_tokens": 8192}
    done = cli(*ONE, *engine(**by_engine), "--report-json", "report.json", "--html", "page.html")
    assert done.returncode == 0, done
    page = (folder / "page.html").read_text()
    assert ">KV pool</h2>" in page
    assert "<td class=text>weights</td><td>15.0</td><td>21</td>" in page
    assert "KV pool, estimated as the engine does: " in done.stdout
    assert "71.3 GiB less 15.0 GiB of weights, 4.7 GiB of activations, 0.0 GiB of CUDA graphs" in done.stdout
    made = json.loads((folder / "report.json").read_text())["provenance"]
    parts = made["kv_pool_memory"]["extra_engine_args"]
    assert parts["kv_cache"] / (1 << 30) == pytest.approx(51.38, rel=0.01)
    assert made["estimated_gpu_blocks"]["extra_engine_args"] == parts["tokens"] // 64
    assert "has no config.json of moe" in refused(cli(*ONE, *engine(**by_engine, aic_model_path="moe")))


def test_what_durations_are_of(fake: Path, cli: Cli, folder: Path) -> None:
    """Release, GPU, model, precision, engine, calibration; and the error that was measured of them, if any was."""
    metadata_of = fake / "aiconfigurator-0.12.0.dist-info"
    metadata_of.mkdir()
    (metadata_of / "METADATA").write_text("Metadata-Version: 2.1\nName: aiconfigurator\nVersion: 0.12.0\n")
    common = {"aic_backend_version": "0.2", "aic_model_path": "openai/gpt-oss-120b", "calibration": "auto"}
    done = cli(*ONE, *engine(**common, scheduler="vllm"))
    assert (
        "\nDurations: AIC 0.12.0, h200_sxm, gpt-oss-120b FP4, vLLM 0.2; calibration auto (model)\n"
        "Measured error of TTFT here 7 %, TPOT 2 % (33 rows, median)\n"
    ) in done.stdout
    done = cli(*ONE, *engine(**common))
    assert "(33 rows, median), by vLLM's own rules, which this run does not follow\n" in done.stdout
    done = cli(*ONE, *engine(**common | {"calibration": None}), "--html", "page.html")
    assert "Measured error of TTFT here 43 %, TPOT 6 % (33 rows, median)" in done.stdout
    text = (folder / "page.html").read_text()
    assert "<p>Durations: AIC 0.12.0, h200_sxm, gpt-oss-120b FP4, vLLM 0.2</p>\n<p>Measured error of TTFT" in text
    done = cli(*ONE, *engine(**common | {"aic_model_path": "meta-llama/Llama-3.1-70B-Instruct"}, scheduler="vllm"))
    assert "Llama-3.1-70B-Instruct, vLLM 0.2; calibration auto (model, measured in FP8)\n" in done.stdout
    minimax = {"aic_backend_version": "0.2", "aic_model_path": "MiniMaxAI/MiniMax-M2.5"}
    done = cli(*ONE, *engine(**minimax, scheduler="vllm"))  # of kernels that were not compared with measurements
    assert "Measured error: not known of this deployment\n" in done.stdout
    entry = {"level": "engine", "engine": "vllm", "timing": "aic", "measurements": 2, "knobs": {"decode_scale": 2}}
    profile = {"format": "dynosim-calibration/1", "entries": [{**entry, "kernels": {"aic_gemm_dtype": "int4_wo"}}]}
    (folder / "p.json").write_text(json.dumps(profile))
    done = cli(*ONE, *engine(aic_backend_version="0.2", calibration="p.json"))
    assert "vLLM 0.2; calibration p.json (engine, kernels: aic_gemm_dtype int4_wo)\n" in done.stdout
    # Measured in FP4, on other GPUs; this run is in what the SDK says of the checkpoint.
    done = cli(*ONE, *engine(**common | {"aic_model_path": "meta-llama/Meta-Llama-3.1-70B"}, scheduler="vllm"))
    assert "Meta-Llama-3.1-70B BF16, vLLM 0.2; calibration auto (kin" in done.stdout
    done = cli(*ONE, *engine(aic_backend_version="0.2", speedup_ratio=2))
    assert "\nDurations: AIC 0.12.0, h200_sxm, m, vLLM 0.2; 2 times as fast\nMeasured error: not known" in done.stdout
    pools = [f'{{"worker_type": "{role}", "step_overhead_us": {us}}}' for role, us in (("prefill", 5), ("decode", 0))]
    both = ["--prefill-engine-args", pools[0], "--decode-engine-args", pools[1], "--router-mode", "round_robin"]
    line = (
        "Durations: of prefill: built-in polynomial, of no particular GPU; knobs of your own; of decode: built-in poly"
    )
    assert line in cli(*ONE, *both).stdout


def test_hand_offs_take_the_time_of_the_models_kv(fake: Path, cli: Cli, folder: Path) -> None:
    """1000 tokens of 160,000 bytes at 64 GB/s are 2.5 ms, whatever the parallelism; what is given wins."""

    def activated(**fields: Any) -> tuple[float, str, str]:
        aic = {"aic_backend": "vllm", "aic_backend_version": "0.2", "aic_model_path": "m", "aic_tp_size": 2}
        pools = [json.dumps({"worker_type": role, **aic, **f}) for role, f in (("prefill", fields), ("decode", {}))]
        both = ["--prefill-engine-args", pools[0], "--decode-engine-args", pools[1], "--router-mode", "round_robin"]
        done = cli(*ONE, *both, "--report-jsonl", "rows.jsonl")
        found = json.loads((folder / "rows.jsonl").read_text())
        lines = [text for text in done.stdout.splitlines() if text.startswith("Hand-offs")]
        return found["destination_activated_ms"] - found["source_held_ms"], lines[0], done.stderr

    line = "Hand-offs of KV: 160,000 bytes of a token (of the model), 64 GB/s (assumed)"
    assert activated() == (pytest.approx(2.5), line, "")
    line = "Hand-offs of KV: 160,000 bytes of a token (of the model), 10 GB/s"
    assert activated(kv_transfer_bandwidth=10) == (pytest.approx(16), line, "")
    line = "Hand-offs of KV: 64,000 bytes of a token, 64 GB/s (assumed)"
    assert activated(kv_bytes_per_token=64000) == (pytest.approx(1), line, "")
    assert activated(kv_transfer_bandwidth=0) == (0, "Hand-offs of KV: take no time", "")


def test_a_sweep_knows_the_measured_error(fake: Path, cli: Cli, folder: Path) -> None:
    """A bound that is kept by less than the error is not sure: TTFT is 10 ms of 14, with an error of 43 %."""
    spec = {
        "run": {"input_tokens": 1000, "output_tokens": 3, "request_count": 1},
        "engine": {
            "aic_backend": "vllm",
            "aic_backend_version": "0.2",
            "aic_model_path": "openai/gpt-oss-120b",
            "scheduler": "vllm",
        },
        "search": {"num_workers": [1, 2]},
        "sla": {"p99_ttft_ms": 14, "mean_tpot_ms": 100},
    }
    spec["run"]["extra_engine_args"] = spec.pop("engine")  # type: ignore[index]
    (folder / "spec.json").write_text(json.dumps(spec))
    done = cli("run", "spec.json", "-o", "out", module="dynamo.sweep")
    assert done.returncode == 0, done
    assert "\nMeasured error of TTFT here 43 %, TPOT 6 % (33 rows, median)\n" in done.stdout
    content = json.loads((folder / "out/report.json").read_text())
    point = content["points"][0]
    near = [verdict["figure"] for verdict in point["sla"] if "within_error" in verdict]
    assert near == ["p99_ttft_ms"]
    doubt = (
        f"p99_ttft_ms <= 14 is kept with {point['figures']['p99_ttft_ms']:.5g}, by less than the measured error of 43 %"
    )
    assert f"Not sure at point 1: {doubt}" in done.stdout
    page = (folder / "out/report.html").read_text()
    assert html.escape(doubt) in page
    timing = embedded_in(page)["timings"][0]
    shown = dict(zip(embedded_in(page)["figures"], timing["errors"], strict=True))
    assert (shown["tok_s_per_user"], shown["mean_ttft_ms"], shown["gpus"]) == (0.065, 0.429, None)
    rows = list(csv.DictReader((folder / "out/points.csv").read_text().splitlines()))
    release = installed or "of an unknown release"  # the release of the package, whose code the test replaces
    assert {row["durations"].partition(",")[0] for row in rows} == {f"AIC {release}"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"aic_system": "abacus"}, 'aic_system: got "abacus", want one of b300, h200_sxm'),
        ({"aic_backend": "tgi", "num_gpu_blocks": 9}, 'aic_backend: got "tgi", want one of sglang, trtllm, vllm'),
        ({"aic_system": "b300", "aic_backend": "sglang"}, 'aic_backend: got "sglang", want one of vllm'),
        ({"aic_backend_version": "9"}, 'aic_backend_version: got "9", want one of 0.1, 0.2 for vllm on h200_sxm'),
        (
            {"aic_model_path": "unheard/of"},
            'aic_model_path: got "unheard/of", want a model that the AIC SDK knows, such as org/Beta-2B, '
            "org/Meta-Alpha-3.1-7B, org/Delta-405B-FP8, or a folder with its config.json",
        ),
        ({"aic_model_path": "./nowhere"}, 'aic_model_path: got "./nowhere", want a folder with the config.json'),
        (
            {"aic_tp_size": 3},
            'aic_model_path: "m" cannot be modelled with aic_tp_size 3, aic_attention_dp_size 1: Asser',
        ),
        (
            {"aic_model_path": "useless"},
            'aic_model_path: "useless" has no predictions for vllm 0.2 on h200_sxm: KeyError',
        ),
        ({"aic_kv_cache_dtype": "int3"}, 'aic_kv_cache_dtype: got "int3", want one of bfloat16, int8, fp8'),
        (
            {"aic_model_path": "org/Gamma-30B-A3B"},
            "aic_tp_size: got 1, want 4, the smallest that fits: org/Gamma-30B-A3B on h200_sxm leaves no memory",
        ),
        ({"gpu_memory_utilization": 0.01}, "num_gpu_blocks: got nothing, want it given: it cannot be estimated: "),
    ],
)
def test_what_the_sdk_cannot_do_is_said_before_the_run(
    fake: Path, cli: Cli, fields: dict[str, Any], message: str
) -> None:
    assert f"extra_engine_args: {message}" in refused(cli(*TINY, *engine(**fields)))


def test_an_sdk_that_does_not_load(fake: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_IS_BROKEN", "1")
    assert "aic_backend: the AIC SDK cannot be loaded: OSError: libfake.so" in refused(cli(*TINY, *engine()))


@pytest.mark.parametrize("workers", ["1", "3"])
def test_online(fake: Path, cli: Cli, folder: Path, workers: str) -> None:
    """On the clock the SDK is asked while engines sleep; a prediction that fails ends the run."""
    online = ["--replay-mode", "online", "--num-workers", workers, *engine(aic_backend_version="0.1")]
    report, _ = report_of(cli, folder, *ONE, *online)
    assert report["timing_model"] == "aic: m, h200_sxm, vllm 0.1, tp 1"
    assert report["mean_ttft_ms"] >= 13
    failing = ["--replay-mode", "online", "--num-workers", workers, *engine(aic_model_path="short")]
    done = cli("--input-tokens", "2000", "--output-tokens", "3", "--request-count", "1", *failing)
    assert done.returncode == 1
    assert "prefill of 1 requests with 2000 new tokens after 0: ValueError: isl is beyond" in done.stderr


def test_no_sdk(folder: Path) -> None:
    source = """
        import sys
        sys.modules["aiconfigurator"] = None
        from dynamo.replay.main import main
        sys.exit(main(sys.argv[1:]))
    """
    arguments = [sys.executable, "-c", textwrap.dedent(source), *TINY, *engine()]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=300)
    assert "predictions need the AIC SDK, which is not installed: pip install 'dynosim[aic]'" in refused(done)


@pytest.mark.parametrize(
    ("model", "reason"), [("short", "ValueError: isl is beyond the"), ("nan", "the AIC SDK predicts nan")]
)
def test_a_prediction_that_is_missing_ends_the_run(fake: Path, cli: Cli, folder: Path, model: str, reason: str) -> None:
    done = cli("--input-tokens", "2000", *ONE[2:], *engine(aic_model_path=model))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"error: AIC: prefill of 1 requests with 2000 new tokens after 0: {reason}" in done.stderr
    assert list(folder.iterdir()) == []


def test_ctrl_c_in_the_sdk(fake: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loading = folder / "loading"
    monkeypatch.setenv("FAKE_IS_LOADING", str(loading))
    process = subprocess.Popen(command(*TINY, *engine(aic_model_path="slow")), cwd=folder, stderr=subprocess.PIPE)
    until(loading.exists)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) == 130  # loading takes most of an hour
    assert process.communicate()[1] == b"interrupted\n"


def test_runs_share_sessions_and_predictions(fake: Path, folder: Path) -> None:
    """The second run asks for nothing, however many threads run at a time."""
    done = script(
        """
from concurrent.futures import ThreadPoolExecutor
from dynamo._core import aic
from dynamo.replay import run_synthetic_trace_replay

asked = []
answer = aic.answer
aic.answer = lambda question: asked.append(question) or answer(question)
fields = {"aic_backend": "vllm", "aic_model_path": "m", "aic_backend_version": "0.1"}

def run(_):
    return run_synthetic_trace_replay(500, 40, 30, extra_engine_args=fields, num_workers=2)["mean_ttft_ms"]

first = run(0)
print(len(asked) > 5, len(aic._sessions))
asked.clear()
with ThreadPoolExecutor(4) as pool:
    print({first} == set(pool.map(run, range(8))))
print(sum('"predict"' in question for question in asked), len(aic._sessions))
""",
        cwd=folder,
    )
    assert done.stdout.split("\n")[:3] == ["True 1", "True", "0 1"], done


def test_sessions_open_side_by_side(fake: Path, folder: Path) -> None:
    """Two threads read tables at the same time, but not those of one session twice."""
    done = script(
        """
import json, threading
from dynamo._core import aic

both = threading.Barrier(2, timeout=300)
reading = []

class Tables:
    def __init__(self, asked):
        self.asked = asked
    def prefill(self, batch, tokens, prefix):
        reading.append(self.asked["model"])
        both.wait()
        return 1.0
    def decode(self, batch, context):
        return 1.0
    def experts(self, kind, tokens):
        raise ValueError("none")

aic._compiled = lambda asked, model, database: Tables(asked)
answers = []

def ask(model):
    about = {"backend": "vllm", "system": "h200_sxm", "version": "0.1", "version_given": True, "tp_size": 1}
    answers.append(json.loads(aic.answer(json.dumps({"open": {**about, "model": model}}))))

threads = [threading.Thread(target=ask, args=(model,)) for model in ("a", "b", "a", "b")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(reading), sorted(answer["session"] for answer in answers), aic._reading, aic._sdk_lock.locked())
""",
        cwd=folder,
    )
    assert done.stdout == "['a', 'b'] [0, 0, 1, 1] [] False\n", done


AIC_FLAGS = ["--aic-backend", "vllm", "--aic-system", "h200_sxm", "--aic-model-path", "m"]
BY_AIC = ["--router-mode", "kv_router", "--router-config", '{"router_prefill_load_model": "aic"}', "--num-workers", "2"]


def costs(cli: Cli, folder: Path, *arguments: str) -> list[float]:
    """What the second of two prompts, 5 ms after the first, would cost on each worker, cheapest first."""
    trace = write_trace(folder / "trace.jsonl", [row(0, 1024, 2, [1, 2]), row(5, 1024, 2, [3, 4])])
    report_of(cli, folder, trace, *arguments, "--router-log", "log.jsonl")
    second = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()][1]
    return sorted(worker["cost"] for worker in second["candidates"])


def test_load_shrinks_while_a_prompt_is_computed(fake: Path, cli: Cli, folder: Path) -> None:
    """The first prompt, 16 blocks, takes 10.24 ms by the SDK: after 5 of them it is less than 8.2 blocks of load."""
    plain = costs(cli, folder, *BY_AIC[:2], *BY_AIC[4:])
    assert plain == [32, 64]  # the blocks of both prompts, to compute and to keep
    decayed = costs(cli, folder, *BY_AIC, *AIC_FLAGS)
    assert decayed[0] == 32
    assert decayed[1] == pytest.approx(64 - 16 * 5 / 10.24, abs=1 / 64)


def test_router_and_engine_may_differ(fake: Path, cli: Cli, folder: Path) -> None:
    report, _ = report_of(cli, folder, *TINY, *BY_AIC, *AIC_FLAGS, *engine(aic_backend_version="0.2"))
    assert report["timing_model"] == "aic: m, h200_sxm, vllm 0.2, tp 1"


def test_what_the_router_cannot_be_told_is_a_warning(fake: Path, cli: Cli, folder: Path) -> None:
    arguments = [*BY_AIC, *AIC_FLAGS[:-1], "short", "--input-tokens", "2000", *ONE[2:]]
    assert "1 durations could not be predicted" in report_of(cli, folder, *arguments)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--aic-backend", "vllm"], "missing: --aic-system, --aic-model-path"),
        (["--aic-nextn", "2"], "missing: --aic-backend, --aic-system, --aic-model-path"),
        (AIC_FLAGS, "want router_mode kv_router with it"),
        ([*AIC_FLAGS, *BY_AIC[:2], *BY_AIC[4:]], 'want router_prefill_load_model "aic" in router_config with it'),
        (BY_AIC, 'router_prefill_load_model: got "aic", want aic_perf_config'),
        ([*BY_AIC, *AIC_FLAGS, "--aic-tp-size", "0"], "aic_perf_config: aic_tp_size: got 0, want an integer >= 1"),
        ([*BY_AIC, *AIC_FLAGS, "--aic-nextn", "6"], "aic_perf_config: aic_nextn: got 6, want an integer from 1 to 5"),
        (
            [*BY_AIC, *AIC_FLAGS, "--aic-system", "x"],
            'aic_perf_config: aic_system: got "x", want one of b300, h200_sxm',
        ),
    ],
)
def test_flags_of_the_router(fake: Path, cli: Cli, arguments: list[str], message: str) -> None:
    assert message in refused(cli(*TINY, *arguments))


def test_a_data_type_left_to_the_model_is_no_flag(cli: Cli) -> None:
    assert cli(*TINY, "--aic-gemm-dtype", "auto").returncode == 0


def test_the_class_of_the_router() -> None:
    config = AicPerfConfig("vllm", "h200_sxm", "m", 2, aic_moe_ep_size=2)
    assert (config.aic_tp_size, config.aic_moe_ep_size, config.aic_gemm_dtype) == (2, 2, None)
    assert AicPerfConfig("vllm", "h200_sxm", "m").aic_tp_size == 1
    assert AicPerfConfig.from_json(config.to_json()) == config == config.copy()
    assert dynamo.llm.AicPerfConfig is AicPerfConfig
    with pytest.raises(TypeError, match="aic_system: got nothing"):
        AicPerfConfig("vllm")
    with pytest.raises(ValueError, match="aic_nextn: got 6, want an integer from 1 to 5"):
        AicPerfConfig("vllm", "h200_sxm", "m", aic_nextn=6)
    with pytest.raises(ValueError, match='want router_prefill_load_model "aic"'):
        run_synthetic_trace_replay(8, 2, 2, num_workers=2, router_mode="kv_router", aic_perf_config=config)
    with pytest.raises(TypeError, match="aic_perf_config: got 5"):
        run_synthetic_trace_replay(8, 2, 2, aic_perf_config=5)  # type: ignore[arg-type]


SHIPPED = Path(__file__).parent.parent / "gocore" / "calibration" / "shipped" / "profile.json"
OSS = "openai/gpt-oss-120b"


def shipped_knobs(**about: str) -> dict[str, float | str]:
    """The knobs of the one shipped entry about this, with the factors of its model on one GPU."""
    shipped = json.loads(SHIPPED.read_text())
    (entry,) = [e for e in shipped["entries"] if all(e.get(name, "") == value for name, value in about.items())]
    knobs = dict(entry["knobs"])
    for factor in shipped["factors"]:
        if factor["engine"] == "vllm" and factor.get("tp") == 1 and factor.get("model") == entry.get("model"):
            knobs = {name: float(f"{value * factor['knobs'][name]:.4g}") for name, value in knobs.items()}
    return {**knobs, "pass_time": entry["pass_time"]}


@pytest.mark.parametrize(
    ("model", "about", "words"),
    [
        (
            OSS,
            {"level": "model", "model": "gpt-oss-120b", "system": "h200_sxm"},
            "level model (vllm, gpt-oss-120b, h200_sxm, fp4; ",
        ),
        ("m", {"level": "gpu", "engine": "vllm", "system": "h200_sxm"}, "as nothing was measured for m, h200_sxm"),
    ],
)
def test_the_shipped_calibration(
    fake: Path, cli: Cli, folder: Path, model: str, about: dict[str, str], words: str
) -> None:
    """It equals the knobs of its entry, given one by one, and is named."""
    chosen = {"aic_system": "h200_sxm", "aic_model_path": model, "scheduler": "vllm", "aic_moe_tp_size": 1}
    report, stderr = report_of(cli, folder, *ONE, *engine(**chosen, calibration="auto"))
    assert "warning: calibration auto: level " in stderr
    assert words in stderr
    knobs = shipped_knobs(**about)
    plain, _ = report_of(cli, folder, *ONE, *engine(**chosen))
    given, _ = report_of(cli, folder, *ONE, *engine(**chosen, **knobs))
    assert report["mean_ttft_ms"] == pytest.approx(given["mean_ttft_ms"], rel=1e-12)
    assert report["mean_itl_ms"] == pytest.approx(given["mean_itl_ms"], rel=1e-12)
    assert given["mean_ttft_ms"] > plain["mean_ttft_ms"]
    assert given["mean_itl_ms"] != plain["mean_itl_ms"]


def test_what_no_shipped_calibration_is_for(fake: Path, cli: Cli) -> None:
    words = refused(cli(*ONE, *engine(engine_type="trtllm", aic_backend="trtllm", calibration="auto")))
    assert "calibration: got auto, want a profile for trtllm with aic durations; it has " in words


installed = metadata.version("aiconfigurator") if util.find_spec("aiconfigurator") else None
with_sdk = pytest.mark.skipif(installed is None, reason="the extra [aic] is not installed")
with_sdk_0_10 = pytest.mark.skipif(
    installed != "0.10.0", reason=f"these numbers are of aiconfigurator 0.10.0, not {installed}"
)


@with_sdk
def test_the_real_sdk(tmp_path: Path) -> None:
    args = MockEngineArgs(aic_backend="vllm", aic_model_path="Qwen/Qwen3-0.6B")
    config = AicPerfConfig("vllm", "h200_sxm", "Qwen/Qwen3-0.6B")
    report = run_synthetic_trace_replay(
        1000,
        20,
        10,
        extra_engine_args=args,
        num_workers=2,
        router_mode="kv_router",
        router_config={"router_prefill_load_model": "aic"},
        aic_perf_config=config,
    )
    assert report["timing_model"].startswith("aic: Qwen/Qwen3-0.6B, h200_sxm, vllm ")
    assert 1 < report["mean_ttft_ms"] < 1000
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="aic_model_path: "):
        run_synthetic_trace_replay(8, 2, 1, extra_engine_args={"aic_backend": "vllm", "aic_model_path": str(tmp_path)})


@with_sdk
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("Qwen/Qwen3-0.6B", "level gpu (vllm, h200_sxm; "),
        pytest.param(
            OSS,
            "level model (vllm, gpt-oss-120b, h200_sxm, fp4; ",
            marks=pytest.mark.skipif(
                not (installed or "").startswith("0.12"), reason=f"aiconfigurator 0.12 has it, not {installed}"
            ),
        ),
    ],
)
def test_the_shipped_calibration_with_the_real_sdk(cli: Cli, folder: Path, model: str, words: str) -> None:
    chosen = {"aic_system": "h200_sxm", "aic_model_path": model, "scheduler": "vllm", "aic_moe_tp_size": 1}
    plain, _ = report_of(cli, folder, *ONE, *engine(**chosen))
    report, stderr = report_of(cli, folder, *ONE, *engine(**chosen, calibration="auto"))
    assert words in stderr
    assert report["mean_ttft_ms"] > plain["mean_ttft_ms"]


QWEN, LLAMA, FP8, MOE = "Qwen/Qwen3-0.6B", "meta-llama/Meta-Llama-3.1-8B", "Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-30B-A3B"
# Model and sizes, then a question (kind, batch, tokens, prefix) and its answer in ms.
PREDICTIONS: list[tuple[str, dict[str, Any], tuple[int, int, int, int], float]] = [
    (QWEN, {}, (0, 1, 1000, 0), 3.856994535856708),
    (QWEN, {}, (0, 1, 1040, 960), 4.2259191151235695),
    (QWEN, {}, (0, 2, 1500, 0), 7.751614410876643),
    (QWEN, {}, (1, 1, 1000, 0), 1.4954340084020235),
    (QWEN, {}, (1, 1, 1001, 0), 1.4954684250727017),
    (QWEN, {}, (1, 4, 2048, 0), 1.5181334702648477),
    (QWEN, {"nextn": 2}, (1, 1, 1000, 0), 1.5542511827878622),
    (LLAMA, {}, (0, 1, 1000, 0), 22.377216523077607),
    (LLAMA, {}, (0, 2, 750, 0), 31.508775783476793),
    (LLAMA, {}, (1, 1, 1000, 0), 4.973574670699994),
    (LLAMA, {}, (1, 64, 2048, 0), 9.2899084826486),
    (LLAMA, {"system": "h100_sxm"}, (0, 1, 1000, 0), 21.396272682256654),
    (LLAMA, {"system": "h100_sxm"}, (1, 1, 1000, 0), 6.403548666561343),
    (FP8, {}, (0, 1, 1000, 0), 70.40894678823253),
    (FP8, {}, (1, 64, 2048, 0), 23.77608864639634),
    (MOE, {"tp_size": 2, "moe_tp_size": 2, "moe_ep_size": 1}, (0, 1, 1000, 0), 19.269919541760668),
    (MOE, {"tp_size": 2, "moe_tp_size": 2, "moe_ep_size": 1}, (1, 1, 1000, 0), 3.4134799502752657),
    (MOE, {"attention_dp_size": 2, "moe_tp_size": 1, "moe_ep_size": 2}, (0, 1, 1000, 0), 28.54257065545049),
    (MOE, {"attention_dp_size": 2, "moe_tp_size": 1, "moe_ep_size": 2}, (1, 1, 1000, 0), 4.766944819513134),
]
POOLS = [(QWEN, 0.9, 17796), (LLAMA, 0.9, 13792), (LLAMA, 0.8, 11987), (FP8, 0.9, 11528), (FP8, 0.8, 9723)]


@pytest.fixture
def ask() -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    from dynamo._core import aic

    def ask(verb: str, question: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(aic.answer(json.dumps({verb: question})))
        assert "error" not in answer, answer
        return answer

    return ask


def session(ask: Callable[[str, dict[str, Any]], dict[str, Any]], model: str, **changes: Any) -> int:
    asked = {"backend": "vllm", "system": "h200_sxm", "version": "0.19.0", "version_given": True, "model": model}
    opened: int = ask("open", {**asked, "tp_size": 1, "attention_dp_size": 1, **changes})["session"]
    return opened


@with_sdk
def test_expert_layers_with_the_real_sdk(ask: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
    """They are a part of the whole that grows with the tokens, and a dense model has none."""
    asked = {"backend": "vllm", "system": "h200_sxm", "version": "0.24.0", "version_given": False, "tp_size": 1}
    opened = ask("open", {**asked, "model": MOE, "attention_dp_size": 2, "moe_tp_size": 1, "moe_ep_size": 2})
    assert opened["experts"] is True
    questions = [(0, 1, 1000, 0), (2, 1, 1000, 0), (2, 1, 500, 0), (1, 64, 1000, 0), (3, 64, 0, 0), (3, 1, 0, 0)]
    whole, experts, half, step, of_step, of_one = ask(
        "predict", {"session": opened["session"], "questions": questions}
    )["ms"]
    assert whole > experts > half > 0
    assert step > of_step > of_one > 0
    assert ask("open", {**asked, "model": QWEN, "attention_dp_size": 2})["experts"] is False


@pytest.mark.skipif(not hasattr(yaml, "CSafeLoader"), reason="PyYAML without libyaml")
def test_yaml_of_the_sdk_is_read_by_libyaml() -> None:
    """What it reads is the same, and others read as before, also after an error."""
    slow, used = yaml.safe_load, []
    text = "a: [1, 2.5, ~, yes, 2026-11-24]\nb: &x {c: d}\ne: *x\n"
    with aic_sdk.quick_yaml():
        used.append(yaml.safe_load is slow)
        assert yaml.safe_load(text) == slow(text)
    with pytest.raises(yaml.YAMLError), aic_sdk.quick_yaml():
        yaml.safe_load("[")
    assert used == [False]
    assert yaml.safe_load is slow


@with_sdk_0_10
def test_predictions_of_release_0_10(ask: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
    for model, changes, question, ms in PREDICTIONS:
        answer = ask("predict", {"session": session(ask, model, **changes), "questions": [question]})
        assert answer == {"ms": [ms], "errors": {}}, (model, changes, question)


@with_sdk_0_10
def test_operations_add_up_to_what_the_compiled_engine_says(folder: Path) -> None:
    """In processes of their own, because sessions are kept. pyarrow, which reads the tables, has to fit numpy 1.26."""
    if int(metadata.version("pyarrow").partition(".")[0]) >= 20:
        pytest.skip("needs pyarrow < 20")
    options = [*ONE, *engine(aic_model_path=QWEN), "--report-json"]
    reports = []
    for variable in ("", "1"):
        environment = {**os.environ, "DYNAMO_AIC_DISABLE_COMPILED_ENGINE": variable}
        subprocess.run(command(*options, "report.json"), cwd=folder, env=environment, check=True, capture_output=True)
        reports.append(json.loads((folder / "report.json").read_text()))
    assert [reports[0][key] for key in ("mean_ttft_ms", "mean_itl_ms")] == [
        reports[1][key] for key in ("mean_ttft_ms", "mean_itl_ms")
    ]


@with_sdk_0_10
@pytest.mark.parametrize(("model", "fraction", "blocks"), POOLS)
def test_pools_of_release_0_10(
    ask: Callable[[str, dict[str, Any]], dict[str, Any]], model: str, fraction: float, blocks: int
) -> None:
    question = {"session": session(ask, model), "block_size": 64, "max_num_tokens": 8192}
    kind = {"memory_fraction_kind": "of_total", "memory_fraction_value": fraction}
    assert ask("capacity", {**question, **kind}) == {"blocks": blocks}


@with_sdk_0_10
def test_a_run_on_release_0_10(cli: Cli, folder: Path) -> None:
    """The first pass takes prompt and decode, each rounded to nanoseconds."""
    report, stderr = report_of(cli, folder, *ONE, *engine(aic_model_path=QWEN))
    assert stderr == ""
    assert report["mean_ttft_ms"] == pytest.approx(3.856995 + 1.495434, abs=1e-9)
    assert report["min_itl_ms"] == pytest.approx(1.495468, abs=1e-9)
