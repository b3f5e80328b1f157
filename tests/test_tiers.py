"""Sizes of host memory: ``python -m dynamo.replay tiers``."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Cli, refused, row, write_trace
from pagetools import embedded_in, faint, watched
from tiertools import BLOCK, one_prompt

from dynamo.replay import page, run_trace_replay
from dynamo.replay.page import data


@pytest.fixture
def trace(folder: Path) -> Path:
    """Conversations that go on in turn, each turn with a block or two more."""
    rnd = random.Random(36)
    grown: list[list[int]] = [[] for _ in range(25)]
    rows, fresh = [], 0
    for at in range(250):
        prompt = rnd.choice(grown)
        for _ in range(rnd.randint(1, 2)):
            fresh += 1
            prompt.append(fresh)
        rows.append(row(at, len(prompt) * BLOCK + 5, 2, [*prompt, 100_000 + at]))
    return write_trace(folder / "trace.jsonl", rows)


def found_by(cli: Cli, trace: Path, *more: str) -> Any:
    done = cli("tiers", trace, "--trace-block-size", str(BLOCK), "--block-size", str(BLOCK), "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_curve_is_what_replays_find(trace: Path, cli: Cli) -> None:
    """At five sizes, twice the pool and more, vLLM finds on its host what the curve says."""
    found = found_by(cli, trace)
    enough, pool = found["enough"]["blocks"], found["largest_request_blocks"] + 2
    sizes = [pool * 2 + (enough - pool * 2) * step // 4 for step in range(5)]
    assert sizes[0] < sizes[1]
    asked = found_by(cli, trace, "--sizes", ",".join(map(str, sizes)))["asked"]
    assert [point["blocks"] for point in asked] == sizes
    engine = {"scheduler": "vllm", "block_size": BLOCK, "num_gpu_blocks": pool, "max_model_len": pool * BLOCK}
    for point in asked:
        report = run_trace_replay(
            trace,
            extra_engine_args={**engine, "num_host_blocks": point["blocks"]},
            trace_block_size=BLOCK,
            replay_concurrency=1,
        )
        assert report["prefix_cache_reused_ratio"] == pytest.approx(point["hit_ratio"], abs=0.01)
    assert asked[-1]["hit_ratio"] > asked[0]["hit_ratio"] + 0.1
    assert 0 < found["knee"]["blocks"] < enough
    assert [point["hit_ratio"] for point in found["points"]] == sorted(point["hit_ratio"] for point in found["points"])


def test_text_page_and_replays(trace: Path, cli: Cli, folder: Path) -> None:
    page = folder / "tiers.html"
    engine = {"scheduler": "vllm", "num_gpu_blocks": 40, "host_link": "pcie5"}
    done = cli(
        "tiers", trace, "--trace-block-size", str(BLOCK), "--block-size", str(BLOCK), "--html", page,
        "--kv-bytes-per-token", "1000000",
        "--extra-engine-args", json.dumps({**engine, "host_cache_gb": 9, "host_cache": {"num_blocks": 5}}),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Knee: " in done.stdout
    assert "Found in the replay" in done.stdout
    assert "In the replays " in done.stdout
    assert "has no effect" not in done.stderr
    assert "GB" in done.stdout
    text = page.read_text()
    assert "Mean TTFT (ms)" in text
    data = embedded_in(text)
    assert (data["unit"], data["mark"]["name"], len(data["replays"])) == ("GB", "knee", 5)
    assert data["curve"][-1][0] == data["widest"]


def test_requests_larger_than_the_pool(trace: Path, cli: Cli) -> None:
    """The answer says that the replays are of fewer requests than the curve."""
    found = found_by(cli, trace)
    engine = {"scheduler": "vllm", "num_gpu_blocks": found["largest_request_blocks"] // 2, "kv_bytes_per_token": 1000}
    reading = ("--trace-block-size", str(BLOCK), "--block-size", str(BLOCK), "--extra-engine-args", json.dumps(engine))
    rejected = {point["rejected_requests"] for point in found_by(cli, trace, *reading[4:])["simulated"]}
    done = cli("tiers", trace, *reading)
    assert done.returncode == 0, done.stderr
    assert len(rejected) == 1
    assert 0 < (most := rejected.pop()) < found["requests"]
    assert f"{most} of {found['requests']} requests do not fit the GPU's pool." in done.stdout
    assert f"warning: {most} of {found['requests']} requests " in done.stderr


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_page_in_a_browser(trace: Path, cli: Cli, folder: Path, browser: Any, width: int, colours: str) -> None:
    """The curve has axes with units, the knee, what the pointer shows, and a table; the page fits its window."""
    done = cli("tiers", trace, "--trace-block-size", str(BLOCK), "--block-size", str(BLOCK), "--html", "tiers.html")
    assert done.returncode == 0, done.stderr
    with watched(browser, folder / "again.html") as (open_page, asked):
        shown = open_page((folder / "tiers.html").read_text(), width, colours)
        assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        shown.locator("#curve .curve").wait_for()
        names = shown.locator("#curve svg text").all_text_contents()
        assert shown.locator("#curve .curve").evaluate("line => getComputedStyle(line).stroke") != "none"
        assert {"cache, blocks", "prompt tokens found, %", "knee"} <= set(names)
        shown.locator("#curve svg").hover(position={"x": 150, "y": 100})
        shown.locator(".tip", has_text="found: ").wait_for()
        shown.locator("#curve summary").press("Enter")
        shown.locator("#curve tbody tr").last.wait_for()  # it is filled when it is opened, not at once
        rows = shown.locator("#curve tbody tr").all_inner_texts()
        assert len(rows) == len({size for size, _ in embedded_in(shown.content())["curve"]})
        assert faint(shown) == []
        assert asked == [(folder / "again.html").as_uri()]


def test_a_trace_that_shares_nothing(folder: Path, cli: Cli) -> None:
    trace = write_trace(folder / "trace.jsonl", [row(0, 40, 2, [1, 2, 3]), row(1, 40, 2, [4, 5, 6])])
    done = cli("tiers", trace, "--trace-block-size", "16", "--block-size", "16", "--html", folder / "page.html")
    assert done.returncode == 0, done.stderr
    assert "a cache finds nothing" in done.stdout


@pytest.mark.parametrize(
    ("more", "want"),
    [
        (["--sizes", "5,x"], '--sizes: got "5,x", want numbers of blocks'),
        (["--extra-engine-args", "{}"], "want scheduler vllm or sglang"),
        (["--extra-engine-args", "[]"], "want a JSON object"),
        (["--kv-bytes-per-token", "0"], "--kv-bytes-per-token: got '0', want an integer of at least 1"),
    ],
)
def test_refused(trace: Path, cli: Cli, more: list[str], want: str) -> None:
    assert want in refused(cli("tiers", trace, "--trace-block-size", "16", *more))


def test_page_that_cannot_be_written(trace: Path, cli: Cli) -> None:
    done = cli("tiers", trace, "--trace-block-size", "16", "--html", f"{trace}/page.html")
    assert "--html: cannot write" in refused(done)


def test_explain_says_what_the_tier_saved(trace: Path, cli: Cli, folder: Path) -> None:
    engine = {"scheduler": "vllm", "block_size": BLOCK, "num_gpu_blocks": 40, "kv_bytes_per_token": 1000}
    common = ["--trace-block-size", str(BLOCK), "--report-json", folder / "report.json", "--explain"]
    tiered = {**engine, "num_host_blocks": 400, "host_link": "pcie5"}
    done = cli(trace, "--extra-engine-args", json.dumps(tiered), *common)
    assert done.returncode == 0, done.stderr
    assert "Host Memory Against None: prompt tokens found " in done.stdout
    report = json.loads((folder / "report.json").read_text())
    alone = {name: value for name, value in engine.items() if name != "kv_bytes_per_token"}
    plain = run_trace_replay(trace, extra_engine_args={**alone, "async_scheduling": False}, trace_block_size=BLOCK)
    assert report["without_host_memory"]["mean_ttft_ms"] == plain["mean_ttft_ms"]
    assert report["prefix_cache_reused_ratio"] > plain["prefix_cache_reused_ratio"]
    done = cli(trace, "--extra-engine-args", json.dumps(engine), *common)
    assert "Against None" not in done.stdout


def test_copies_over_time(trace: Path, folder: Path) -> None:
    """Series, page and timeline have what the report has of copies."""
    speed = {"load_ms_per_block": 0.7, "store_ms_per_block": 1.3, "latency_ms": 0.5}
    engine = {
        "scheduler": "vllm",
        "block_size": BLOCK,
        "num_gpu_blocks": 60,
        "host_cache": {"num_blocks": 500, **speed},
    }
    report = run_trace_replay(
        trace,
        extra_engine_args=engine,
        trace_block_size=BLOCK,
        timeseries_step="100ms",
        timeline=str(folder / "t.pftrace"),
    )
    assert 0 < report["host_reused_ratio"] < report["first_admission_prefix_cache_reused_ratio"]
    series = report.timeseries
    rows = series["worker"] == -1
    for verb, done in (("store", "stored"), ("load", "loaded")):
        blocks = np.nan_to_num(series[f"host_{done}_blocks_per_s"][rows])
        busy = np.nan_to_num(series[f"host_{verb}_busy"][rows])
        assert 0.1 * blocks[:-1].sum() <= report[f"host_{done}_blocks"] <= 0.1 * blocks.sum() + 200
        assert 100 * busy[:-1].sum() <= report[f"host_{verb}_ms"] * (1 + 1e-9)
        assert busy.max() > 0
    hits = np.nan_to_num(series["host_hit_rate"][rows])
    assert 0 < hits.max() <= 1
    names = {figure["name"] for figure in data.of(report)["series"]["figures"]}
    assert {"host_hit_rate", "host_load_busy", "host_store_busy", "host_loaded_blocks_per_s"} <= names
    assert "Prompt tokens found on the host" in page.as_html(report)
    events = (folder / "t.pftrace").read_bytes()
    assert b"copies to the host" in events
    assert b"copies from the host" in events
    plain = {name: value for name, value in engine.items() if name != "host_cache"}
    alone = run_trace_replay(trace, extra_engine_args=plain, trace_block_size=BLOCK, timeseries_step="100ms")
    assert not [name for name in (*alone, *alone.timeseries) if name.startswith("host_")]
    assert "on the host" not in page.as_html(alone)


def test_no_knee_and_what_the_gpu_finds(folder: Path, cli: Cli) -> None:
    """All prompts share a block, and half of them come again late: behind the first block the curve is even."""
    prompts = [[1, *range(10 + 8 * at, 18 + 8 * at)] for at in range(20)]
    rows = [row(at, 9 * BLOCK + 3, 2, prompt) for at, prompt in enumerate([*prompts, *prompts])]
    trace = write_trace(folder / "trace.jsonl", rows)
    for blocks, want in ((30, "host memory adds something only if it is larger than that"), (900, "adds nothing.")):
        engine = json.dumps({"scheduler": "vllm", "num_gpu_blocks": blocks, "kv_bytes_per_token": 1_000_000})
        done = cli(
            "tiers", trace, "--trace-block-size", str(BLOCK), "--block-size", str(BLOCK), "--extra-engine-args", engine
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert want in done.stdout
        assert "Cache (blocks)" in done.stdout
        assert ("Knee: " in done.stdout) != ("No knee: " in done.stdout)


def shared(tier: dict[str, Any], **more: Any) -> Any:
    """A run of four workers, in turn, that all get the same long prompts."""
    engine = {"scheduler": "vllm", "block_size": BLOCK, "num_gpu_blocks": 90, "host_cache": tier}
    prompts = [[100 * at + block for block in range(60)] for at in range(4)]
    rows = [row(150 * at, 60 * BLOCK, 3, prompts[at % 3]) for at in range(60)]
    trace = write_trace(more.pop("folder") / "shared.jsonl", rows)
    return run_trace_replay(trace, extra_engine_args=engine, trace_block_size=BLOCK, num_workers=4, **more)


def test_a_store_that_workers_share(folder: Path) -> None:
    tier = {"num_blocks": 400, "load_ms_per_block": 0.1, "store_ms_per_block": 0.1}
    alone = shared(tier, folder=folder)
    together = shared({**tier, "shared": True}, folder=folder)
    assert together["prefix_cache_reused_ratio"] > alone["prefix_cache_reused_ratio"]
    assert together["host_stored_blocks"] == 3 * 60  # each prompt once
    assert together["mean_ttft_ms"] < alone["mean_ttft_ms"]
    narrow = shared({**tier, "shared": True, "shared_ms_per_block": 2}, folder=folder)
    assert narrow["mean_ttft_ms"] > together["mean_ttft_ms"]
    assert narrow["host_load_ms"] > together["host_load_ms"]
    rows = [shared({**tier, "shared": True}, folder=folder).requests["ttft_ms"].tolist() for _ in range(2)]
    assert rows[0] == rows[1]


def test_nodes_have_a_store_each(folder: Path) -> None:
    """Two nodes of two workers compute each prompt once each; one node of four computes it once."""
    tier = {"num_blocks": 400, "load_ms_per_block": 0.1, "store_ms_per_block": 0.1, "shared": True}
    for workers, want in ((4, 1), (2, 2), (1, 4)):
        report = shared({**tier, "shared_workers": workers}, folder=folder)
        assert report["host_stored_blocks"] == 3 * 60 * want
    alone = shared({name: value for name, value in tier.items() if name != "shared"}, folder=folder)
    assert report["prefix_cache_reused_ratio"] == alone["prefix_cache_reused_ratio"]


@pytest.mark.parametrize(
    ("engine", "want"),
    [
        ({"shared_workers": 2}, "host_cache.shared_workers: got 2, want it left out, or shared true with it"),
        (
            {"shared_ms_per_block": 1},
            "host_cache.shared_ms_per_block: got 1, want it left out, or shared true with it",
        ),
        ({"shared": True, "offload_prompt_only": False}, "host_cache.offload_prompt_only: got false, want true"),
    ],
)
def test_what_a_shared_store_refuses(trace: Path, cli: Cli, engine: dict[str, Any], want: str) -> None:
    args = json.dumps({"scheduler": "vllm", "host_cache": {"num_blocks": 50, **engine}})
    assert want in refused(cli(trace, "--trace-block-size", "16", "--extra-engine-args", args))


@pytest.mark.parametrize(
    ("tier", "at_ms", "found", "lost"),
    [
        pytest.param({}, 1000, 0, 4, id="its own host is gone"),
        pytest.param({"shared": True}, 1000, 63, 0, id="a store is still there"),
        pytest.param({"shared": True}, 55, 0, 4, id="but for what was on its way"),
        pytest.param({"shared": True, "shared_workers": 1}, 1000, 63, 0, id="the memory of its node, too"),
        pytest.param({"storage_blocks": 50, "storage_prefetch_threshold": 1}, 1000, 63, 4, id="and storage"),
    ],
)
def test_what_a_lost_worker_leaves(folder: Path, tier: dict[str, Any], at_ms: int, found: int, lost: int) -> None:
    """The copy of four blocks takes from about 46 to 86 ms. Another worker takes the place of the lost one, and gets
    the same prompt again."""
    report = run_trace_replay(
        write_trace(folder / "lost.jsonl", [row(0, 64, 2, [1, 2, 3, 4]), row(2000, 64, 2, [1, 2, 3, 4])]),
        extra_engine_args={
            "scheduler": "vllm",
            "block_size": BLOCK,
            "num_gpu_blocks": 50,
            "host_cache": {"num_blocks": 50, "store_ms_per_block": 10, **tier},
        },
        trace_block_size=BLOCK,
        faults=[{"kind": "crash", "at_ms": at_ms, "target": "worker:0", "duration_ms": 0}],
        migration_limit=0,
    )
    rows = report.requests
    assert rows["reused_input_tokens"][1] == found
    assert report["host_lost_blocks"] == lost
    assert "storage_lost_blocks" not in report or report["storage_lost_blocks"] == 0


def test_routers_count_lower_tiers(folder: Path) -> None:
    """One prompt comes again and again: to the worker that has it or, if the store counts as much, to both."""
    hot, both = one_prompt(folder, {"scheduler": "vllm"}, shared=True)
    assert len(set(hot.requests["decode_worker_idx"].tolist())) == 1
    assert hot["host_loaded_blocks"] == 0
    assert set(both.requests["decode_worker_idx"].tolist()) == {0, 1}
    assert both["host_loaded_blocks"] == 40
    assert both["host_stored_blocks"] == hot["host_stored_blocks"] == 40


def loads_again(folder: Path, engine: dict[str, Any], **more: Any) -> Any:
    """A prompt, another one that takes its room on the GPU, and the first one again, which comes from the host."""
    rows = [row(0, 64, 2, [1, 2, 3, 4]), row(100, 96, 2, [*range(11, 17)]), row(300, 64, 3, [1, 2, 3, 4])]
    tier = {"num_blocks": 32, "load_ms_per_block": 1, "store_ms_per_block": 1}
    return run_trace_replay(
        write_trace(folder / "again.jsonl", rows),
        extra_engine_args={"block_size": BLOCK, "num_gpu_blocks": 7, **engine, "host_cache": tier},
        trace_block_size=BLOCK,
        attribution=True,
        **more,
    )


def test_which_part_of_the_first_token_is_loading(folder: Path) -> None:
    """The times are those of vLLM's scheduler: four blocks are loaded in 4 ms, and the prompt's last token computed."""
    report = loads_again(folder, {"scheduler": "vllm"})
    rows = report.requests
    assert rows["ttft_ms"][2] == pytest.approx(48.714563)
    assert rows["ttft_kv_transfer_ms"].tolist() == [0, 0, pytest.approx(4)]
    assert rows["ttft_worker_wait_ms"][2] == pytest.approx(0)
    spent = sum(rows[f"ttft_{part}_ms"][2] for part in ("kv_transfer", "own_prompt", "decode"))
    assert spent == pytest.approx(rows["ttft_ms"][2])
    assert report["attribution"]["ttft_ms"]["parts"]["kv_transfer"]["mean"] == pytest.approx(4 / 3)


def test_ranks_have_hosts_of_their_own(folder: Path, cli: Cli) -> None:
    """Of two ranks, which take requests in turn, the one that computed a prompt finds it on its host."""
    engine = {"scheduler": "vllm", "dp_size": 2, "dp_routing": "round_robin"}
    report = loads_again(folder, engine, timeline=str(folder / "ranks.pftrace"), timeseries_step="50ms")
    assert report.requests["dp_rank"].tolist() == [0, 1, 0]
    assert report["host_stored_blocks"] == 4 + 6  # of a prompt of 64 tokens that is still on its GPU nothing is loaded
    busy = report["host_store_busy_ratio"] * report["duration_ms"] * 2
    assert busy == pytest.approx(report["host_store_ms"]) == pytest.approx(10)
    events = (folder / "ranks.pftrace").read_bytes()
    assert b"copies to the host" in events
    assert b"copies to the host, rank 1" in events
    args = {**engine, "host_cache": {"num_blocks": 50, "shared": True}}
    done = cli(folder / "again.jsonl", "--trace-block-size", str(BLOCK), "--extra-engine-args", json.dumps(args))
    assert "dp_size: got 2, want 1 with host_cache.shared or storage" in refused(done)


def test_ranks_of_sglang_have_hosts_of_their_own(folder: Path, cli: Cli) -> None:
    """Each rank copies its prompt; the third request finds the first one on its rank."""
    engine = {
        "engine_type": "sglang",
        "scheduler": "sglang",
        "dp_size": 2,
        "num_gpu_blocks": 9,
        "sglang": {"overlap_schedule": False},
    }
    report = loads_again(folder, engine)
    assert report.requests["dp_rank"].tolist() == [0, 1, 0]
    assert report["host_stored_blocks"] == 4 + 6
    busy = report["host_store_busy_ratio"] * report["duration_ms"] * 2
    assert busy == pytest.approx(report["host_store_ms"]) == pytest.approx(10)
    args = {**engine, "block_size": BLOCK, "host_cache": {"num_blocks": 50, "storage_blocks": 9}}
    done = cli(folder / "again.jsonl", "--trace-block-size", str(BLOCK), "--extra-engine-args", json.dumps(args))
    assert "dp_size: got 2, want 1 with host_cache.shared or storage" in refused(done)


@pytest.mark.parametrize("engine", [{"scheduler": "vllm"}, {"engine_type": "sglang", "scheduler": "sglang"}])
def test_answers_are_found_with_the_next_turn(folder: Path, engine: dict[str, Any]) -> None:
    """A trace of what is new in each turn: its second prompt is the first one, the answer and 16 tokens more."""
    first = {"session_id": "a", **row(0, 4 * BLOCK, 4 * BLOCK, [1, 2, 3, 4])}
    second = {"session_id": "a", "delay": 5, "input_length": BLOCK, "output_length": 2, "hash_ids": [5]}
    trace = write_trace(folder / "trace.jsonl", [first, second])
    report = run_trace_replay(
        trace,
        extra_engine_args={**engine, "block_size": BLOCK, "host_cache": {"num_blocks": 50}},
        trace_format="mooncake-delta",
        trace_block_size=BLOCK,
    )
    found = report.requests["reused_input_tokens"].tolist()
    assert found == [0, 7 * BLOCK]  # the last token of an answer is not computed


def test_figures_of_the_host_with_faults(trace: Path) -> None:
    """A crash long after the end changes nothing of them."""
    engine = {"scheduler": "vllm", "block_size": BLOCK, "num_gpu_blocks": 40, "host_cache": {"num_blocks": 500}}
    late = [{"kind": "crash", "at_ms": 9_000_000, "target": "worker:0", "duration_ms": 0}]
    plain, faulty = (
        run_trace_replay(trace, trace_block_size=BLOCK, extra_engine_args=engine, faults=faults)
        for faults in (None, late)
    )
    figures = {name: value for name, value in plain.items() if name.startswith("host_")}
    assert figures["host_loaded_blocks"] > 0
    assert {name: faulty[name] for name in figures} == figures


@pytest.mark.parametrize("more", [{"dp_size": 2}, {"kv_cache_groups": [{"type": "full"}, {"type": "linear"}]}])
def test_curves_are_of_one_cache(trace: Path, cli: Cli, more: dict[str, Any]) -> None:
    (name,) = more
    engine = json.dumps({"scheduler": "vllm", "num_gpu_blocks": 400, **more})
    words = refused(cli("tiers", trace, "--trace-block-size", str(BLOCK), "--extra-engine-args", engine))
    assert f"--extra-engine-args: {name}: got " in words
    assert "want it left out: the curve is of one cache" in words
