"""SGLang engines as users meet them; their passes are tested in Go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Cli, refused, row, write_trace

from dynamo.mocker import HostCacheArgs, MockEngineArgs, SglangArgs
from dynamo.replay import run_synthetic_trace_replay, run_trace_replay
from dynamo.replay.reporting import format_report_table


def test_one_request() -> None:
    report = run_synthetic_trace_replay(10, 3, 1, extra_engine_args={"engine_type": "sglang", "num_gpu_blocks": 1000})
    assert report["mean_ttft_ms"] == pytest.approx(22.930822)
    assert report["duration_ms"] == pytest.approx(35.64623)


def test_prefix_hits_of_single_tokens(folder: Path) -> None:
    rows = [row(0, 10, 2, range(10)), row(100, 12, 2, [*range(8), *range(200, 204)]), row(200, 10, 2, range(10))]
    trace = write_trace(folder / "trace.jsonl", rows)
    args = MockEngineArgs(engine_type="sglang", num_gpu_blocks=100, sglang=SglangArgs(page_size=1))
    report = run_trace_replay(trace, extra_engine_args=args, trace_block_size=1)
    assert report.requests["reused_input_tokens"].tolist() == [0, 8, 10]
    assert report.requests["first_token_ms"].tolist() == pytest.approx([27.536896, 128.412704, 210.8836])


def test_host_tier(folder: Path, cli: Cli) -> None:
    """A prompt whose cache had to leave the GPU is loaded back; the report counts what was copied."""
    rows = [row(0, 64, 2, range(1, 5)), row(100, 96, 2, range(11, 17)), row(300, 72, 3, range(1, 6))]
    trace = write_trace(folder / "trace.jsonl", rows)
    own = {"engine_type": "sglang", "scheduler": "sglang", "block_size": 16, "num_gpu_blocks": 9}
    tier = HostCacheArgs(num_blocks=32, load_ms_per_block=20, store_ms_per_block=1)
    report = run_trace_replay(trace, extra_engine_args=MockEngineArgs(**own, host_cache=tier), trace_block_size=16)
    assert report.requests["reused_input_tokens"].tolist() == [0, 0, 64]
    assert report.requests["first_token_ms"].tolist()[2] == pytest.approx(380)
    assert (report["host_stored_blocks"], report["host_loaded_blocks"], report["host_load_ms"]) == (10, 4, 80)
    assert (report["host_missed_blocks"], "host_loaded_bytes" in report) == (0, False)
    bytes_of = {"kv_bytes_per_token": 1000, "num_host_blocks": 32, "host_offload_h2d_bandwidth_gbps": 0.0008}
    sized = run_trace_replay(trace, extra_engine_args={**own, **bytes_of}, trace_block_size=16)
    assert (sized["host_loaded_bytes"], sized["host_load_ms"], sized["host_store_ms"]) == (64_000, pytest.approx(80), 0)
    assert sized["host_load_busy_ratio"] == pytest.approx(80 / sized["duration_ms"])
    assert "0.00 GB copied back (link busy" in format_report_table(sized)
    without = run_trace_replay(trace, extra_engine_args=own, trace_block_size=16)
    assert without.requests["reused_input_tokens"].tolist() == [0, 0, 0]
    assert not [name for name in without if name.startswith("host_")]
    given = json.dumps({**own, "host_cache": {"num_blocks": 0}})
    assert "host_cache.num_blocks: got 0" in refused(cli(trace, "--extra-engine-args", given))


def test_policies_order_the_queue(folder: Path) -> None:
    rows = [
        row(0, 12, 1, range(12)),
        row(50, 4, 6, range(900, 904)),
        row(60, 8, 1, range(500, 508)),
        row(61, 8, 1, [*range(4), *range(600, 604)]),
        row(62, 14, 1, [*range(12), 700, 701]),
    ]
    trace = write_trace(folder / "trace.jsonl", rows)
    firsts = {}
    for policy in ("fifo", "fcfs", "lpm"):
        engine = {"engine_type": "sglang", "num_gpu_blocks": 200, "max_num_seqs": 2}
        engine["sglang"] = {"schedule_policy": policy}
        report = run_trace_replay(trace, extra_engine_args=engine, trace_block_size=1)
        firsts[policy] = report.requests["first_admit_ms"].tolist()[2:]
    assert firsts["fifo"] == firsts["fcfs"] == pytest.approx([73.372064, 99.136877, 125.093611])
    assert firsts["lpm"] == pytest.approx([126.499233, 100.542499, 73.372064])


def test_the_slot_leak_is_an_option(folder: Path) -> None:
    rows = [row(0, 4, 8, range(4)) for _ in range(3)] + [row(900, 15, 1, range(50, 65))]
    trace = write_trace(folder / "trace.jsonl", rows)
    lasts = {}
    for quirks in (True, False):
        settings = SglangArgs(clip_max_new_tokens=1, reference_quirks=quirks)
        args = MockEngineArgs(engine_type="sglang", num_gpu_blocks=20, sglang=settings)
        report = run_trace_replay(trace, extra_engine_args=args, trace_block_size=1)
        assert report["completed_requests"] == 4
        lasts[quirks] = report.requests["last_token_ms"].tolist()
    assert lasts[True][:3] == pytest.approx([517.437431, 357.761992, 239.172932])
    assert lasts[False] != lasts[True]


def test_what_can_never_run_is_rejected(folder: Path) -> None:
    rows = [row(0, 6, 5, range(6)), row(1, 4, 2, range(50, 54))]
    trace = write_trace(folder / "trace.jsonl", rows)
    with pytest.warns(UserWarning, match="1 of 2 requests can never run"):
        report = run_trace_replay(
            trace, extra_engine_args={"engine_type": "sglang", "num_gpu_blocks": 10}, trace_block_size=1
        )
    assert report.requests["terminal_status"] == ["rejected", "completed"]
    assert "num_gpu_blocks is 10" in report.requests["rejection_reason"][0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule_policy": "LPM"}, 'sglang.schedule_policy: got "LPM", want one of fifo, fcfs, lpm'),
        ({"page_sise": 4}, 'unknown field "sglang.page_sise", did you mean "sglang.page_size"?'),
        ({"max_prefill_tokens": 0}, "sglang.max_prefill_tokens: got 0, want an integer >= 1"),
        ({"schedule_conservativeness": -1}, "sglang.schedule_conservativeness: got -1, want a finite number >= 0"),
        ({"page_size": 16, "chunked_prefill_size": 24}, "got 24, want a multiple of block_size, 16"),
    ],
)
def test_refusals(cli: Cli, settings: dict[str, object], message: str) -> None:
    engine = json.dumps({"engine_type": "sglang", "sglang": settings})
    synthetic = ["--input-tokens", "20", "--output-tokens", "3", "--request-count", "5"]
    assert message in refused(cli(*synthetic, "--extra-engine-args", engine))


def test_warnings(cli: Cli) -> None:
    engine = json.dumps({"engine_type": "sglang", "block_size": 3, "preemption_mode": "fifo"})
    done = cli("--input-tokens", "20", "--output-tokens", "3", "--request-count", "5", "--extra-engine-args", engine)
    assert done.returncode == 0
    assert "engine argument preemption_mode has no effect with engine_type sglang" in done.stderr
    assert "sglang.chunked_prefill_size is 8190" in done.stderr
