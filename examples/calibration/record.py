"""Makes the runs in this folder: what AIPerf would have recorded of a server with known knobs.

    python examples/calibration/record.py FOLDER

Each figure gets some noise, as those of a real server have.
"""

import json
import random
import sys
from pathlib import Path

from dynamo.replay import run_synthetic_trace_replay

KNOBS = {
    "prefill_scale": 1.4,
    "decode_scale": 0.95,
    "step_overhead_us": 1500,
    "seq_overhead_us": 40,
    "request_overhead_us": 35_000,
}
NOISE = 0.02


def record(folder: Path, clients: int) -> None:
    """One run of a closed loop, in the layout of AIPerf's profile_export.jsonl."""
    noise = random.Random(clients)
    report = run_synthetic_trace_replay(
        "uniform(200,3000)",
        "uniform(40,160)",
        6 * clients + 40,
        extra_engine_args={"scheduler": "vllm", **KNOBS},
        replay_concurrency=clients,
        seed=clients,
    )
    rows = report.requests
    lines = []
    for i in range(len(rows["ttft_ms"])):
        metrics = {
            "time_to_first_token": (rows["ttft_ms"][i] * noise.gauss(1, NOISE), "ms"),
            "inter_token_latency": (rows["itl_ms"][i] * noise.gauss(1, NOISE), "ms"),
            "input_sequence_length": (int(rows["input_length"][i]), "tokens"),
            "output_sequence_length": (int(rows["output_length"][i]), "tokens"),
        }
        metadata = {"request_start_ns": round(rows["arrival_time_ms"][i] * 1e6), "benchmark_phase": "profiling"}
        values = {name: {"value": round(value, 4), "unit": unit} for name, (value, unit) in metrics.items()}
        lines.append(json.dumps({"metadata": metadata, "metrics": values}) + "\n")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "profile_export.jsonl").write_text("".join(lines))
    (folder / "deployment.json").write_text(json.dumps({"engine": "vllm", "concurrency": clients}) + "\n")


if __name__ == "__main__":
    for clients in (2, 16, 48):
        record(Path(sys.argv[1]) / f"clients-{clients}", clients)
