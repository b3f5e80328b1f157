"""Readers of measurements: what they find in each format, and that broken files are one line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dynamo.validate import campaigns, sources
from dynamo.validate.measurement import Figures, Measurement, Parallelism
from dynamo.validate.sources import BadSource, silicon

MEASURED = Path(__file__).parent.parent / "examples" / "measured"


def table(**changes: str) -> str:
    """A silicon table with one row."""
    row = dict.fromkeys((*silicon._COLUMNS, *silicon._SIZES, *silicon._POOLS, *silicon._MEASURED), "")
    row |= {"id": "a", "silicon_data_source": "dump; silicon_concurrency=64", "backend": "vllm", "mode": "agg"}
    row |= {"backend_version": "0.19.0", "model_path": "org/model", "system": "h200_sxm", "precision": "fp8"}
    row |= {"isl": "1024", "osl": "8192", "tp_size": "8", "moe_tp_size": "0", "moe_ep_size": "2"}
    row |= {"silicon_ttft_ms": "120.5", "silicon_tpot_ms": "9.25", **changes}
    text = io.StringIO()
    writer = csv.DictWriter(text, list(row), lineterminator="\n")
    writer.writeheader()
    writer.writerow(row)
    return text.getvalue()


SERVING = {
    "model_id": "org/model",
    "request_rate": "inf",
    "max_concurrency": 2,
    "completed": 3,
    "total_input_tokens": 60,
    "total_output_tokens": 9,
    "mean_ttft_ms": 20.0,
    "median_ttft_ms": 19.0,
    "p99_ttft_ms": 30.0,
    "mean_tpot_ms": 5.0,
    "median_tpot_ms": 4.0,
}
DETAILS = {
    "input_lens": [10, 20, 30, 40],
    "output_lens": [1, 3, 5, 0],
    "ttfts": [0.01, 0.02, 0.03, 0.0],
    "itls": [[], [0.004, 0.006], [0.01] * 4, []],
}
AIPERF = {
    "metadata": {"request_start_ns": 2_000_000_000, "benchmark_phase": "profiling", "was_cancelled": False},
    "metrics": {
        "input_sequence_length": {"value": 100, "unit": "tokens"},
        "output_sequence_length": {"value": 5, "unit": "tokens"},
        "time_to_first_token": {"value": 30.5, "unit": "ms"},
        "inter_token_latency": {"value": 4000.0, "unit": "us"},
    },
    "error": None,
}
STATISTICS = {
    "request_count": {"unit": "requests", "avg": 10.0},
    "time_to_first_token": {"unit": "ms", "avg": 195.8, "p50": 175.0, "p90": 251.4, "p99": 253.4},
    "inter_token_latency": {"unit": "ms", "avg": 35.2, "p50": 34.7},
    "input_sequence_length": {"unit": "tokens", "avg": 256.0},
    "output_sequence_length": {"unit": "tokens", "avg": 63.6},
}
GUIDELLM = {
    "args": {"model": "org/model"},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": 4}},
            "requests": {
                "successful": [
                    {
                        "request_start_time": 10.5,
                        "prompt_tokens": 100,
                        "output_tokens": 5,
                        "time_to_first_token_ms": 40.0,
                        "inter_token_latency_ms": 8.0,
                    },
                    {
                        "request_start_time": 10.0,
                        "prompt_tokens": 90,
                        "output_tokens": 1,
                        "time_to_first_token_ms": 20.0,
                        "inter_token_latency_ms": None,
                    },
                ]
            },
        },
    ],
}
ACCELMARK = {
    "suite_id": "suite_A",
    "chip": {"name": "NVIDIA H100 80GB HBM3"},
    "software": {"framework": "vLLM", "framework_version": "0.7.3"},
    "model": {"model_id": "org/model", "precision": "BF16"},
    "task": {"parallelism": {"tensor_parallel_size": 2, "data_parallel_size": 1, "expert_parallel_size": 1}},
    "metrics": {
        "online": {
            "results_by_qps": [
                {
                    "target_qps": 5,
                    **{f"{metric}_ms_{rank}": 10.0 for metric in ("ttft", "tpot") for rank in ("p50", "p90", "p99")},
                }
            ]
        }
    },
}
SUITE = {
    "request_distribution": {
        "input_tokens_p50": 280,
        "input_tokens_p99": 2100,
        "output_tokens_p50": 310,
        "output_tokens_p99": 1200,
    },
    "output_tokens_max": 512,
}
SERVED = [
    {
        "input_toks": 100 + number,
        "output_toks": 5,
        "queued_ts": 50.0 + number,
        "first_token_ts": 50.25 + number,
        "last_token_ts": 50.65 + number,
    }
    for number in (1, 0)
]
META = {
    "model": "meta-llama/Llama-3.1-8B",
    "vllm_version": "0.19.0",
    "engine_kwargs": {
        "tensor_parallel_size": 1,
        "data_parallel_size": 2,
        "enable_expert_parallel": True,
        "max_num_seqs": 128,
    },
    "hardware": {"device_name": "NVIDIA GeForce RTX 4090"},
    "kv_cache": {"num_gpu_blocks": 2588, "block_size": 16},
}


def write(folder: Path, files: dict[str, Any]) -> Path:
    """Writes files, lists as JSON lines; the first one is returned."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content)
        else:
            rows = content if isinstance(content, list) else [content]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / next(iter(files))


SOURCES: dict[str, dict[str, Any]] = {
    "silicon": {"table.csv": table()},
    "llmservingsim": {"requests.jsonl": SERVED, "meta.json": META},
    "vllm-bench": {"run.json": {**SERVING, **DETAILS}},
    "sglang-bench": {"runs.jsonl": [{**SERVING, "random_range_ratio": 1.0}, {**SERVING, "random_range_ratio": 0.5}]},
    "aiperf": {"profile_export.jsonl": [AIPERF, AIPERF]},
    "genai-perf": {"profile_export_genai_perf.json": STATISTICS},
    "guidellm": {"benchmarks.json": GUIDELLM},
    "accelmark": {"result.json": ACCELMARK, "suite_A.json": SUITE},
}


def only(path: Path) -> Measurement:
    (found,) = sources.read([str(path)])
    return found


def test_every_format_has_an_example() -> None:
    assert set(SOURCES) == set(sources.FORMATS)


@pytest.mark.parametrize("name", SOURCES)
def test_formats_are_detected_and_can_be_forced(folder: Path, name: str) -> None:
    path = write(folder, SOURCES[name])
    found = sources.read([str(path)])
    assert found
    assert {m.source for m in found} <= {name, *silicon.CAMPAIGNS}
    assert sources.read([str(path)], name) == found
    packed = folder / f"packed{path.suffix}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert [m.ttft for m in sources.read([str(packed)])] == [m.ttft for m in found]


def test_silicon(folder: Path) -> None:
    found = only(write(folder, {"table.csv": table()}))
    assert (found.source, found.engine, found.version, found.concurrency) == ("inferencex", "vllm", "0.19.0", 64)
    assert (found.isl, found.osl, found.parallelism) == (1024, 8192, Parallelism(8, 1, 1, 2))
    assert (found.ttft, found.tpot) == (Figures(mean=120.5), Figures(mean=9.25))
    assert found.configuration == "org/model|h200_sxm|fp8|agg|8|||0|2" + "|" * 12
    assert only(write(folder, {"gap.csv": table(isl="1000")})).source == "gap"
    assert only(write(folder, {"blank.csv": table(silicon_tpot_ms="")})).tpot == Figures()


def test_the_public_table() -> None:
    """Totals that examples/measured/README.md states, and two names of one model in one configuration."""
    found = sources.read([str(MEASURED / "silicon_sample.csv")])
    assert len(found) == 1412
    assert sum(m.mode == "agg" for m in found) == 1227
    assert not any("DeepSeek-R1" in m.configuration for m in found)
    assert {m.facts["measured"][:7] for m in found if m.engine == "sglang" and "V3" in m.model and not m.version} == {
        "2025-11"
    }


def test_an_engine_has_one_configuration() -> None:
    """Whatever columns a row of the table multiplies: a fit that is scored on an engine has not seen it elsewhere."""
    names: dict[object, set[str]] = {}
    for m in sources.read([str(MEASURED / "silicon_sample.csv")]):
        if m.mode == "agg":
            model = m.configuration.split("|")[0]
            names.setdefault((model, m.system, m.precision, campaigns.parallelism(m)), set()).add(m.configuration)
    assert len(names) > 60
    assert [found for found in names.values() if len(found) > 1] == []


def test_repeated_measurements_count_once(folder: Path) -> None:
    write(folder, {"a.csv": table(), "b.csv": table(id="other")})
    assert [m.id for m in sources.read([str(folder)])] == ["a"]


def test_llmservingsim(folder: Path) -> None:
    found = only(write(folder, SOURCES["llmservingsim"]))
    assert (found.engine, found.version, found.system, found.precision) == ("vllm", "0.19.0", "rtx_4090", "bf16")
    assert found.parallelism == Parallelism(tp=1, attention_dp=2, moe_tp=1, moe_ep=2)
    assert found.engine_args == {"max_num_seqs": 128, "num_gpu_blocks": 2588, "block_size": 16}
    assert found.requests is not None
    assert found.requests.arrival_ms == [0.0, 1000.0]
    assert found.requests.isl == [100, 101]
    assert found.requests.ttft_ms == pytest.approx([250.0, 250.0])
    assert found.requests.tpot_ms == pytest.approx([100.0, 100.0])


def test_the_gpu_of_an_old_recording_is_its_folder(folder: Path) -> None:
    files = {"RTXPRO6000/model/requests.jsonl": SERVED, "RTXPRO6000/model/meta.json": {**META, "hardware": None}}
    assert only(write(folder, files)).system == "rtx_pro_6000_server"


def test_vllm_bench_with_details(folder: Path) -> None:
    found = only(write(folder, SOURCES["vllm-bench"]))
    assert (found.engine, found.model, found.concurrency, found.request_count) == ("vllm", "org/model", 2, 3)
    assert found.requests is not None
    assert (found.requests.isl, found.requests.osl) == ([10, 20, 30], [1, 3, 5])  # the fourth failed
    assert found.requests.ttft_ms == pytest.approx([10, 20, 30])
    assert math.isnan(found.requests.tpot_ms[0])
    assert found.requests.tpot_ms[1:] == pytest.approx([5, 10])
    assert found.tpot.mean == pytest.approx(7.5)


def test_vllm_bench_with_arrivals(folder: Path) -> None:
    run = {**SERVING, **DETAILS, "max_concurrency": None, "start_times": [5.0, 4.0, 6.0, 7.0]}
    found = only(write(folder, {"run.json": run}))
    assert found.requests is not None
    assert found.requests.arrival_ms == [0.0, 1000.0, 2000.0]
    assert found.requests.isl == [20, 10, 30]


def test_requests_without_rate_or_limit_come_at_once(folder: Path) -> None:
    found = only(write(folder, {"run.json": {**SERVING, **DETAILS, "max_concurrency": None}}))
    assert found.requests is not None
    assert found.requests.arrival_ms == [0.0] * 3


def test_sglang_bench_has_a_run_per_line(folder: Path) -> None:
    found = sources.read([str(write(folder, SOURCES["sglang-bench"]))])
    assert [(m.engine, m.concurrency, m.isl, m.osl) for m in found] == [("sglang", 2, 20, 3)] * 2
    assert found[0].ttft == Figures(20.0, 19.0, None, 30.0)
    assert found[0].requests is None


def test_a_deployment_says_what_ran(folder: Path) -> None:
    deployment = {"engine": "vllm", "system": "NVIDIA H100 80GB HBM3", "tp": 8, "engine_args": {"max_num_seqs": 64}}
    found = only(write(folder, {"run.json": SERVING, "deployment.json": deployment}))
    assert (found.engine, found.system, found.parallelism.tp) == ("vllm", "h100_sxm", 8)
    assert found.engine_args == {"max_num_seqs": 64}
    with pytest.raises(BadSource, match=r"deployment\.json: unknown key 'sytem', did you mean system\?"):
        sources.read([str(write(folder, {"run.json": SERVING, "deployment.json": {"sytem": "h100"}}))])


@pytest.mark.parametrize(("name", "known"), [("engine", "vllm, sglang, trtllm"), ("mode", "agg, disagg")])
def test_a_deployment_of_an_unknown_kind(folder: Path, name: str, known: str) -> None:
    path = write(folder, {"run.json": SERVING, "deployment.json": {name: "vlm"}})
    with pytest.raises(BadSource, match=rf"deployment\.json: {name}: got \"vlm\", want one of {known}"):
        sources.read([str(path)])


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("run.json", {k: v for k, v in SERVING.items() if k != "mean_tpot_ms"}, "mean_tpot_ms is missing"),
        ("run.json", json.dumps(SERVING)[:-9], "not JSON: "),
        ("runs.jsonl", json.dumps(AIPERF) + "\n" + json.dumps(AIPERF)[:-9], None),
        ("table.csv", table().replace("silicon_ttft_ms", "ttft"), "silicon_ttft_ms is missing"),
    ],
)
def test_a_folder_whose_file_is_almost_of_a_format(folder: Path, name: str, content: Any, fault: str | None) -> None:
    """It is named with its fault. Of a file that has a format, the reader says it."""
    write(folder, {f"results/{name}": content, "results/notes.json": {"x": 1}})
    with pytest.raises(BadSource) as caught:
        sources.read([str(folder / "results")])
    assert f"results/{name}" in str(caught.value)
    assert "notes.json" not in str(caught.value)
    if fault is not None:
        assert re.search(rf"{name} is almost [a-z-]+: .*{fault}", str(caught.value))


def test_a_byte_order_mark(folder: Path) -> None:
    found = only(write(folder, {"run.json": "\ufeff" + json.dumps(SERVING)}))
    assert found.source == "vllm-bench"


def test_aiperf(folder: Path) -> None:
    late = json.loads(json.dumps(AIPERF))
    late["metadata"]["request_start_ns"] += 1_500_000_000
    failed = {**AIPERF, "metrics": {}, "error": {"code": 499}}
    warm = {**AIPERF, "metadata": {**AIPERF["metadata"], "benchmark_phase": "warmup"}}
    statistics = {
        "aiperf_version": "0.8",
        "input_config": {"loadgen": {"concurrency": 7}, "endpoint": {"model_names": ["m"]}},
    }
    found = only(
        write(folder, {"profile_export.jsonl": [late, AIPERF, failed, warm], "profile_export_aiperf.json": statistics})
    )
    assert (found.source, found.model, found.concurrency) == ("aiperf", "m", 7)
    assert found.requests is not None
    assert found.requests.arrival_ms == [0.0, 1500.0]
    assert found.requests.ttft_ms == [30.5, 30.5]
    assert found.requests.tpot_ms == [4.0, 4.0]


def test_prompts_of_aiperf_are_as_long_as_the_server_reports(folder: Path) -> None:
    reported = {**AIPERF, "metrics": {**AIPERF["metrics"], "usage_prompt_tokens": {"value": 103, "unit": "tokens"}}}
    found = only(write(folder, {"profile_export.jsonl": [AIPERF, reported]}))
    assert found.requests is not None
    assert sorted(found.requests.isl) == [100, 103]


def test_a_run_of_aiperf_counts_once(folder: Path) -> None:
    write(
        folder, {"profile_export.jsonl": [AIPERF], "profile_export_aiperf.json": {**STATISTICS, "aiperf_version": "1"}}
    )
    assert len(sources.read([str(folder)])) == 1


def test_genai_perf(folder: Path) -> None:
    config = {"model_names": ["m"], "perf_analyzer": {"stimulus": {"concurrency": 16}}}
    found = only(write(folder, {"profile_export_genai_perf.json": {**STATISTICS, "input_config": config}}))
    assert (found.model, found.concurrency, found.request_count, found.isl, found.osl) == ("m", 16, 10, 256, 64)
    assert found.ttft == Figures(195.8, 175.0, 251.4, 253.4)
    assert found.tpot == Figures(35.2, 34.7)


def test_guidellm(folder: Path) -> None:
    found = only(write(folder, SOURCES["guidellm"]))
    assert (found.model, found.concurrency) == ("org/model", 4)
    assert found.requests is not None
    assert (found.requests.arrival_ms, found.requests.isl) == ([0.0, 500.0], [90, 100])
    assert math.isnan(found.requests.tpot_ms[0])


def test_accelmark(folder: Path) -> None:
    found = only(write(folder, SOURCES["accelmark"]))
    assert (found.engine, found.system, found.precision, found.request_rate) == ("vllm", "h100_sxm", "bf16", 5.0)
    assert found.ttft == Figures(None, 10.0, 10.0, 10.0)
    assert str(found.isl).startswith("lognormal(mean=407.")
    assert str(found.osl).endswith(",max=512)")
    (folder / "suite_A.json").unlink()
    assert only(folder / "result.json").isl is None


def test_all_public_measurements_are_read() -> None:
    found = sources.read([str(MEASURED)])
    counts = {name: sum(m.source == name for m in found) for name in ("llmservingsim", "accelmark", "vllm-bench")}
    assert counts == {"llmservingsim": 3, "accelmark": 192, "vllm-bench": 29}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has none of the known formats"),
        ("hello\n", "has none of the known formats"),
        (table(isl="x"), 'line 2: isl: got "x", want an integer above 0'),
        (table(silicon_ttft_ms="nan"), 'line 2: silicon_ttft_ms: got "nan", want a number >= 0'),
        (table().replace("osl", "isl2"), "a silicon table needs the column osl"),
        (json.dumps({**SERVING, "completed": 0}), "completed: got 0, want an integer above 0"),
        (json.dumps({**SERVING, **DETAILS, "ttfts": [1]}), "of one length"),
        (json.dumps(AIPERF) + "\n{\n", "line 2: not JSON"),
        (json.dumps(SERVED[0]), "needs meta.json beside it"),
    ],
)
def test_faults_are_named(folder: Path, content: str, message: str) -> None:
    (folder / "file").write_text(content)
    with pytest.raises(BadSource) as caught:
        sources.read(["file"])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="'missing' is missing"):
        sources.read(["missing"])
    (folder / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(BadSource, match="not UTF-8"):
        sources.read(["binary"])
    (folder / "cut.gz").write_bytes(gzip.compress(b"x" * 1000)[:-9])
    with pytest.raises(BadSource, match="not a whole gzip file"):
        sources.read(["cut.gz"])
    (folder / "empty").mkdir()
    with pytest.raises(BadSource, match="no file of measurements"):
        sources.read(["empty"])


def changed(draw: random.Random, value: Any) -> Any:
    """A JSON value with one thing in it changed."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        if draw.random() < 0.2:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: changed(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.9:
        index = draw.randrange(len(value))
        return [*value[:index], changed(draw, value[index]), *value[index + 1 :]]
    return draw.choice(
        [None, True, -1, 0, 1.5, 1e300, "x", "", [], {}, [None], {"value": "x"}, math.inf, 10**30, "inf"]
    )


def garbled(draw: random.Random, text: str) -> str:
    """A text with a part removed, repeated or replaced."""
    at, end = sorted(draw.choices(range(len(text) + 1), k=2))
    return text[:at] + draw.choice(["", text[at:end] * 2, ",", '"', "\n", "\x00", "é"]) + text[end:]


def mutations(name: str) -> Sequence[Callable[[random.Random, Any], Any]]:
    return [garbled] if name == "silicon" else [changed, lambda draw, value: garbled(draw, as_text(value))]


def as_text(value: Any) -> str:
    rows = value if isinstance(value, list) else [value]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("name", SOURCES)
def test_mutated_files_are_read_or_refused_in_one_line(folder: Path, name: str) -> None:
    """No change of a file ends in anything but measurements or a line that says what is wrong."""
    messages = []
    for seed in range(100):
        draw = random.Random(seed)
        files = dict(SOURCES[name])
        broken = draw.choice(list(files))
        files[broken] = draw.choice(mutations(name))(draw, files[broken])
        try:
            found = sources.read([str(write(folder, files))], name)
        except BadSource as error:
            messages.append(str(error))
        else:
            assert all(isinstance(m, Measurement) for m in found), seed
    assert len(messages) > 10
    assert not any("\n" in message for message in messages)
