"""Makes the results in the folder runs: what vLLM's benchmark would have written of a server with known knobs.

    python examples/your_gpu/record.py FOLDER

Each figure gets some noise, as those of a real server have.
"""

import json
import random
import sys
from pathlib import Path

from dynamo.replay import run_synthetic_trace_replay

SERVER = {
    "scheduler": "vllm",
    "prefill_scale": 1.35,
    "decode_scale": 1.1,
    "step_overhead_us": 1200,
    "request_overhead_us": 20_000,
    "request_token_overhead_us": 1.5,
}
# Name, clients, prompts, tokens of a prompt and of an answer, as in measure.sh.
RUNS = (
    ("alone", 1, 20, 1024, 256),
    ("few", 4, 40, 1024, 256),
    ("some", 16, 160, 1024, 256),
    ("many", 64, 384, 1024, 256),
    ("long", 2, 24, 8192, 128),
    ("long-many", 12, 72, 8192, 128),
)
NOISE = 0.02


def record(name: str, clients: int, prompts: int, isl: int, osl: int) -> dict[str, object]:
    """One run, in the layout of ``vllm bench serve --save-result``."""
    noise = random.Random(name)
    report = run_synthetic_trace_replay(isl, osl, prompts, extra_engine_args=SERVER, replay_concurrency=clients)
    figures = {}
    for metric in ("ttft", "tpot"):
        off = noise.gauss(1, NOISE)
        for rank in ("mean", "median", "p99"):
            figures[f"{rank}_{metric}_ms"] = round(report[f"{rank}_{metric}_ms"] * off, 3)
    return {
        "model_id": "my-model",
        "num_prompts": prompts,
        "request_rate": "inf",
        "max_concurrency": clients,
        "completed": prompts,
        "total_input_tokens": prompts * isl,
        "total_output_tokens": prompts * osl,
        **figures,
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for run in RUNS:
        (folder / f"{run[0]}.json").write_text(json.dumps(record(*run), indent=1) + "\n")
    (folder / "deployment.json").write_text('{"engine": "vllm", "model": "my-model"}\n')
