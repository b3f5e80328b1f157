"""Compares errors with those of AISimulate on one of eight rows of the silicon table, nothing fitted for either.

usage: peer.py AISIMULATE [--part N]

AISIMULATE is the program of that name, of a release that has its data in the wheel. Both get the same model, GPU,
parallelism, limits, data type of the KV cache and requests; all else is the default of each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import statistics
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dynamo.validate import sources
from dynamo.validate.mapping import Rules, replay_of
from dynamo.validate.measurement import ClosedLoop, Length, Measurement, Refusal, Replay
from dynamo.validate.runner import run_all

MEASURED = Path(__file__).parents[2] / "examples" / "measured" / "silicon_sample.csv"
# Tokens of a block of the traces that the peer reads.
BLOCK = 512
LONGEST_S = 300


class Means(NamedTuple):
    """Means of a run, in milliseconds."""

    ttft: float
    tpot: float


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare with AISimulate, nothing fitted.")
    parser.add_argument("program", metavar="AISIMULATE", type=Path, help="program of AISimulate")
    parser.add_argument("--part", type=int, default=8, help="one of how many rows")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    replays = list(chosen(given.part))
    with ThreadPoolExecutor(2) as pool:
        predicted = list(pool.map(partial(prediction, given.program), replays))
    known = [(replay, means) for replay, means in zip(replays, predicted, strict=True) if means is not None]
    simulated = run_all([replay for replay, _ in known], 2)
    print(f"{len(replays)} rows, {len(replays) - len(known)} of them refused by AISimulate")
    for engine in ("vllm", "sglang"):
        both = [
            (replay.measurement, peer, Means(own.outcome.ttft.mean or 0, own.outcome.tpot.mean or 0))
            for (replay, peer), own in zip(known, simulated, strict=True)
            if replay.measurement.engine == engine and own.outcome is not None
        ]
        print(f"{engine}, {len(both)} rows, errors in percent, median (mean)")
        print("  AISimulate", shown([(row, peer) for row, peer, _ in both]))
        print("  this simulator", shown([(row, own) for row, _, own in both]))


def chosen(part: int) -> Iterable[Replay]:
    """Yields one of ``part`` rows, of those that were comparable and of one pool."""
    for row in sources.read([str(MEASURED)]):
        if row.mode != "agg" or int(hashlib.sha256(f"peer{row.id}".encode()).hexdigest(), 16) % part:
            continue
        try:
            yield replay_of(row, Rules())
        except Refusal:
            continue


def prediction(program: Path, replay: Replay) -> Means | None:
    """Returns what the peer predicts; None if it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        trace, config = Path(folder) / "trace.jsonl", Path(folder) / "config.json"
        load = replay.workload
        assert isinstance(load, ClosedLoop)
        trace.write_text("".join(json.dumps(request) + "\n" for request in requests(load)))
        config.write_text(json.dumps(configuration(replay, load, trace)))  # JSON is YAML
        output = f"{folder}/out"
        command = [str(program), "predict", "-c", str(config), "--output-dir", output, "--format", "json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
        except subprocess.TimeoutExpired:
            return None
    if done.returncode != 0:
        print(f"refused: {replay.measurement.model} {replay.measurement.system}: {done.stderr.strip()[-160:]!r}")
        return None
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["completed_requests"] == load.requests
    return Means(report["mean_ttft_ms"], report["mean_tpot_ms"])


def requests(load: ClosedLoop) -> Iterable[dict[str, Any]]:
    """Yields the requests of a load, as lines of a Mooncake trace in which no two share a block."""
    drawn, block = random.Random(0), 0
    for _ in range(load.requests):
        tokens = length(load.isl, drawn)
        blocks = -(-tokens // BLOCK)
        yield {
            "timestamp": 0,
            "input_length": tokens,
            "output_length": length(load.osl, drawn),
            "hash_ids": list(range(block, block + blocks)),
        }
        block += blocks


def length(of: Length, drawn: random.Random) -> int:
    if isinstance(of, int):
        return of
    low, high = of.removeprefix("uniform(").removesuffix(")").split(",")
    return drawn.randint(int(low), int(high))


def configuration(replay: Replay, load: ClosedLoop, trace: Path) -> dict[str, Any]:
    engine = replay.engine
    sglang = engine.get("sglang", {})
    return {
        "engine": {
            "mode": "aggregated",
            "model": engine["aic_model_path"],
            "hardware": engine["aic_system"],
            "backend": engine["engine_type"],
            **({"kvcache_quant_mode": engine["aic_kv_cache_dtype"]} if "aic_kv_cache_dtype" in engine else {}),
            "workers": {
                "aggregated": {
                    "parallelism": {
                        "tensor": engine["aic_tp_size"],
                        "attention_data": engine.get("aic_attention_dp_size", 1),
                        "moe_tensor": engine.get("aic_moe_tp_size", 1),
                        "moe_expert": engine.get("aic_moe_ep_size", 1),
                    },
                    "scheduler": {
                        "max_batched_tokens": engine.get("max_num_batched_tokens", sglang.get("chunked_prefill_size")),
                        "max_sequences": engine["max_num_seqs"],
                    },
                    "kv_cache": {"prefix_caching": False},
                }
            },
        },
        "traffic": {
            "source": {"type": "trace", "paths": [str(trace)], "format": "mooncake", "block_size": BLOCK},
            "load": {"type": "concurrency", "concurrency": load.clients},
        },
    }


def shown(found: Sequence[tuple[Measurement, Means]]) -> str:
    ttft = [abs(means.ttft / (row.ttft.mean or 1) - 1) * 100 for row, means in found]
    tpot = [abs(means.tpot / (row.tpot.mean or 1) - 1) * 100 for row, means in found]
    of = (f"{statistics.median(errors):.1f} ({statistics.mean(errors):.1f})" for errors in (ttft, tpot))
    return "TTFT {}, TPOT {}".format(*of)


if __name__ == "__main__":
    main()
