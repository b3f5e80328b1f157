"""Exported graphs of Dynamo on a cluster, live against simulated: mockers with the flags of the manifest."""

from __future__ import annotations

import concurrent.futures
import json
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphcluster import GRAPHS, ApiServer, Operator, assumed, stand_in

from dynamo import sweep
from dynamo.replay import run_trace_replay

MODEL = "tiny"
BLOCK = 16
OPTIONS = {"worker": "extra_engine_args", "prefill": "prefill_engine_args", "decode": "decode_engine_args"}
# Long passes, so that what busy cores add is small beside them.
ENGINE = {
    "scheduler": "dynamo", "block_size": BLOCK, "num_gpu_blocks": 512, "max_num_seqs": 4, "max_num_batched_tokens": 512,
    "timing_model": "fixed", "fixed_prefill_ms": 200, "fixed_decode_ms": 100,
}  # fmt: skip
RUNS: dict[str, dict[str, Any]] = {
    "two workers": {"num_workers": 2, "router_mode": "kv_router", "extra_engine_args": ENGINE},
    "two pools": {
        "num_prefill_workers": 1,
        "num_decode_workers": 2,
        "router_mode": "round_robin",
        "prefill_engine_args": {**ENGINE, "worker_type": "prefill"},
        "decode_engine_args": {**ENGINE, "worker_type": "decode"},
    },
}
# How far the median of live latencies may be from the simulated one: a live request is not faster, and HTTP, tokenizer
# and timers of busy cores add less than half of it and a second.
AT_LEAST, AT_MOST, MORE_MS = 0.95, 1.5, 1000.0
TRIALS = 5  # for a machine that stands still for a moment, after which other requests are there together


class Differs(AssertionError):
    """Live workers did something else than those of the simulation, maybe because of other timing."""


def requests() -> list[dict[str, Any]]:
    """Twelve requests of two conversations: four shared blocks, then one of its own each, every 400 ms."""
    return [
        {
            "timestamp": 400 * n,
            "input_length": 5 * BLOCK,
            "output_length": 11,
            "hash_ids": [*(10 * (n % 2) + i for i in range(4)), 100 + n],
        }
        for n in range(12)
    ]


def prompt(request: dict[str, Any]) -> str:
    """Words for the blocks of a request: equal blocks have equal words."""
    return " ".join(f"tok{3 + BLOCK * block % 1900 + i}" for block in request["hash_ids"] for i in range(BLOCK))


def exported(folder: Path, run: dict[str, Any]) -> Path:
    trace = folder / "trace.jsonl"
    trace.write_text("".join(json.dumps(request) + "\n" for request in requests()))
    base = {"trace": str(trace), "trace_block_size": BLOCK, **run}
    sweep.run({"run": base, "search": {"seed": [1]}}, folder / "sweep")
    sweep.export(folder / "sweep", "best", folder / "out", model=MODEL)
    return trace


def rehearse(cluster: ApiServer, folder: Path, run: dict[str, Any], release: str) -> None:
    """Starts what the manifest of a release names, sends the trace, and compares with the simulation."""
    trace = exported(folder, run)
    graph = yaml.safe_load((folder / "out" / f"dynamo-{release}.yaml").read_text())
    version, name = graph["apiVersion"].rpartition("/")[2], graph["metadata"]["name"]
    status, answer = cluster.call("POST", GRAPHS.format(version), graph)
    assert status == 201, answer
    simulated = json.loads((folder / "out" / "prediction.json").read_text())["after_defaults"]
    durations = {role: assumed(simulated[option]) for role, option in OPTIONS.items() if option in simulated}
    operator = Operator(cluster, folder, durations)
    with operator.stack:
        operator.reconcile(version, name)
        front = operator.until_serving(MODEL)
        live = play(front)
    # The same again, with what was read from the manifest in the place of what was simulated.
    again: dict[str, Any] = {"router_mode": run["router_mode"]}
    if operator.router:
        again["router_config"] = operator.router
    for role, engines in operator.engines.items():
        again[OPTIONS[role]] = engines[0]
        again["num_workers" if role == "worker" else f"num_{role}_workers"] = len(engines)
    report = run_trace_replay(str(trace), trace_block_size=BLOCK, capture_per_request=True, **again)
    rows = sorted(report.per_request, key=lambda row: row["trace_row"])
    assert any(cached for _, cached in live)
    expected = statistics.median(row["e2e_latency_ms"] for row in rows)
    took = statistics.median(ms for ms, _ in live)
    found = [cached for _, cached in live]
    wanted = [row["reused_input_tokens"] for row in rows]
    if found != wanted or not AT_LEAST * expected <= took <= AT_MOST * expected + MORE_MS:
        raise Differs((found, wanted, took, expected))


def play(front: Any) -> list[tuple[float, int]]:
    """Sends each request when the trace says so. Returns how many ms each took, and what was cached."""
    began = time.monotonic()

    def send(request: dict[str, Any]) -> tuple[float, int]:
        time.sleep(max(0.0, began + request["timestamp"] / 1000 - time.monotonic()))
        sent = time.monotonic()
        status, answer = front.complete(prompt(request), request["output_length"], ignore_eos=True)
        assert status == 200, answer
        assert answer["usage"]["completion_tokens"] == request["output_length"]
        cached = (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return 1000 * (time.monotonic() - sent), cached

    with concurrent.futures.ThreadPoolExecutor(12) as clients:
        return list(clients.map(send, requests()))


@pytest.mark.filterwarnings("ignore:.*hand-offs of KV take no time")
@pytest.mark.parametrize("release", ["1.3", "1.6"])
@pytest.mark.parametrize("case", RUNS)
def test_graphs_start_on_a_cluster(tmp_path: Path, case: str, release: str) -> None:
    for trial in range(TRIALS):
        folder = tmp_path / str(trial)
        folder.mkdir()
        try:
            with stand_in(folder) as cluster:
                return rehearse(cluster, folder, RUNS[case], release)
        except Differs:
            if trial == TRIALS - 1:
                raise
