"""Public traces and results of load generators as workloads: whole files, broken files, seeds, prefixes."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import refused

from dynamo.replay import load_trace, run_trace_replay

Cli = Callable[..., "subprocess.CompletedProcess[str]"]

PROJECT = Path(__file__).parent.parent
PUBLIC = PROJECT / "examples" / "traces" / "public"
MEASURED = PROJECT / "examples" / "measured"

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.5,700,3\n2024-05-10 00:00:00.25,900,4\n"


@pytest.mark.parametrize(
    ("trace_format", "pattern", "requests", "sessions", "tokens"),
    [
        ("azure", "azure/*_code.*", 5000, 5000, (10263587, 137118)),
        ("azure", "azure/*_conv.*", 5000, 5000, (5805639, 1287511)),
        ("splitwise", "splitwise/*_code.*", 2000, 2000, (3973157, 59024)),
        ("vidur", "splitwise/*_conv.*", 2000, 2000, (2209565, 529807)),
        ("weka", "weka/*", 65, 5, (7179021, 28178)),
        ("servegen", "servegen/m-large/*", 55434, 55434, None),
        ("servegen", "servegen/m-small/*", 154136, 154136, None),
        ("servegen", "servegen/mm-image/*", 50028, 50028, None),
        ("servegen", "servegen/deepseek-r1/*", 16053, 16053, None),
    ],
)
def test_files_are_read_whole(
    cli: Cli, trace_format: str, pattern: str, requests: int, sessions: int, tokens: tuple[int, int] | None
) -> None:
    files = sorted(map(str, PUBLIC.glob(pattern)))
    done = cli(*files, "--trace-format", trace_format, "--json", module="dynamo.replay.inspect")
    assert (done.returncode, done.stderr) == (0, "")
    stats = json.loads(done.stdout)
    assert (stats["requests"], stats["sessions"]) == (requests, sessions)
    if tokens:
        assert (stats["total_input_tokens"], stats["total_output_tokens"]) == tokens


def test_the_totals_are_those_of_the_files() -> None:
    """Counted here, line by line and with Python's own readers."""
    for name, rows in [("azure/AzureLLMInferenceTrace_code.head5000.csv.gz", 5000)]:
        lines = gzip.decompress((PUBLIC / name).read_bytes()).decode().splitlines()[1:]
        assert (len(lines), sum(int(line.split(",")[1]) for line in lines)) == (rows, 10263587)
    counted = 0.0
    for path in PUBLIC.glob("servegen/m-large/*-trace.csv.gz"):
        windows = gzip.decompress(path.read_bytes()).decode().splitlines()
        counted += sum(600 * float(window.split(",")[1]) for window in windows)
    assert round(counted) == 55434
    agents = [json.loads(gzip.decompress(path.read_bytes())) for path in PUBLIC.glob("weka/*")]
    assert sum(len(agent["requests"]) for agent in agents) == 65
    assert sum(request["in"] for agent in agents for request in agent["requests"]) == 7179021


@pytest.mark.parametrize(
    ("trace_format", "pattern", "requests", "tokens"),
    [
        ("llmservingsim", "llmservingsim/RTX4090/Llama-3.1-8B/requests.jsonl*", 300, 257239),
        ("llmservingsim", "llmservingsim/RTXPRO6000/Llama-3.1-8B/requests.jsonl*", 300, 257239),
        ("vllm-bench", "dstack-405b/*1000.0qps*", 1000, 215196),
        ("vllm-bench", "dstack-405b/*16.0qps*", 1000, 215196),
    ],
)
def test_measurements_are_workloads(cli: Cli, trace_format: str, pattern: str, requests: int, tokens: int) -> None:
    files = [str(path) for path in MEASURED.glob(pattern)]
    if not files:
        pytest.skip(f"examples/measured has no {pattern}")
    done = cli(*files, "--trace-format", trace_format, "--json", module="dynamo.replay.inspect")
    stats = json.loads(done.stdout)
    assert (stats["requests"], stats["total_input_tokens"]) == (requests, tokens)


def test_arrivals_out_of_order(folder: Path) -> None:
    (folder / "t.csv").write_text(AZURE)
    report = run_trace_replay("t.csv", trace_format="azure")
    assert list(report.requests["arrival_time_ms"]) == [0.0, 250.0]
    assert list(report.requests["trace_row"]) == [2, 1]  # counted from 0: the header is row 0


def test_a_loaded_trace_is_drawn_with_the_seed_of_each_run() -> None:
    files = sorted(PUBLIC.glob("servegen/deepseek-r1/chunk-2-*"))
    trace = load_trace(files, trace_format="servegen")
    assert len(trace) == 312
    options: dict[str, Any] = {"replay_concurrency": 4, "max_sim_time_ms": 60_000}
    seeds = {seed: dict(run_trace_replay(trace, seed=seed, **options)) for seed in (1, 2)}
    assert seeds[1]["total_output_tokens"] != seeds[2]["total_output_tokens"]
    direct = run_trace_replay(files, trace_format="servegen", seed=2, **options)
    assert direct["total_output_tokens"] == seeds[2]["total_output_tokens"]


def test_prompts_share_what_is_asked_for(folder: Path) -> None:
    rows = "".join(f"2024-05-10 00:{second // 60:02}:{second % 60:02},1280,3\n" for second in range(100))
    (folder / "t.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    alone = run_trace_replay("t.csv", trace_format="azure")
    assert alone["prefix_cache_reused_ratio"] == 0
    shared = run_trace_replay("t.csv", trace_format="azure", trace_shared_prefix_ratio=0.5, trace_num_prefix_groups=4)
    assert shared["prefix_cache_reused_ratio"] == pytest.approx(0.5 * 96 / 100)


def test_a_saved_workload_replays_to_the_same_report(cli: Cli, folder: Path) -> None:
    trace = str(PUBLIC / "weka" / "trace_0504.json.gz")
    done = cli(trace, "--trace-format", "weka", "--save-trace", "saved.jsonl", "--report-json", "one.json")
    assert done.returncode == 0
    done = cli("saved.jsonl", "--trace-block-size", "64", "--report-json", "two.json")
    assert done.returncode == 0
    one, two = (json.loads((folder / name).read_text()) for name in ("one.json", "two.json"))
    for key in ("duration_ms", "mean_ttft_ms", "prefix_cache_reused_ratio", "total_input_tokens"):
        assert one[key] == two[key]


@pytest.mark.parametrize("module", ["dynamo.replay", "dynamo.replay.inspect"])
@pytest.mark.parametrize(
    ("name", "trace_format", "text", "named"),
    [
        ("a.csv", "azure", AZURE.replace("700", "many"), 'a.csv line 2: ContextTokens: got "many", want an integer'),
        ("a.csv", "mooncake", AZURE, "(it looks like trace_format azure)"),
        ("a.csv", "azure", AZURE.splitlines()[0], "a.csv: holds no requests"),
        ("a.json", "weka", '{"requests": [{"t": 0, "in": -1}]}', "a.json line 1: requests[0].in: got -1, want"),
        ("a.json", "guidellm", "{", "a.json line 1: broken JSON: the file ends too early"),
        ("a.csv", "servegen", "0,1,1,Gamma,1,1", "a.csv: the name of the file must end in -trace.csv or -dataset.json"),
        ("a.json", "bailian", "", "a.json: holds no requests"),
    ],
)
def test_broken_files(cli: Cli, folder: Path, module: str, name: str, trace_format: str, text: str, named: str) -> None:
    (folder / name).write_text(text)
    assert named in refused(cli(name, "--trace-format", trace_format, module=module))
    assert [path.name for path in folder.iterdir()] == [name]


def test_lengths_without_arrivals_need_clients(cli: Cli, folder: Path) -> None:
    (folder / "t.jsonl").write_text('{"input_toks": 100, "output_toks": 3}\n' * 4)
    named = "t.jsonl: the requests have no arrival times, they need replay_concurrency"
    assert named in refused(cli("t.jsonl", "--trace-format", "sharegpt"))
    report = run_trace_replay("t.jsonl", trace_format="sharegpt", replay_concurrency=2)
    assert report["completed_requests"] == 4


def test_options_without_effect_are_named(cli: Cli, folder: Path) -> None:
    (folder / "t.csv").write_text(AZURE)
    done = cli("t.csv", "--trace-format", "azure", "--trace-block-size", "64")
    assert done.returncode == 0
    assert "trace_block_size 64 has no effect with trace_format azure" in done.stderr
