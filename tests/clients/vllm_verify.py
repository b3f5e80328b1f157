"""``verify.sh`` of an export with ``vllm bench serve`` itself: make test-clients VLLM=COMMAND.

The prediction holds for the simulated engine, and does not for one that takes 1.5 times as long.

usage: vllm_verify.py COMMAND
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from serve_agreement import make_tokenizer
from servetools import serving

from dynamo import sweep
from dynamo.sweep.exports import verify

ENGINE = {"max_num_seqs": 8, "timing_model": "fixed", "fixed_prefill_ms": 60, "fixed_decode_ms": 30, "block_size": 16}
TRAFFIC = {"input_tokens": 64, "output_tokens": 16, "request_count": 200}
ARRIVALS = {"arrival_process": "poisson"}
# Served engines, and the exit code of the script.
HELD, NOT_HELD = 0, 3
SLOWER = {**ENGINE, "fixed_prefill_ms": 90, "fixed_decode_ms": 45}
# A client that asks again a moment after its answer waits for a pass more: that shows where passes take long.
LONG = {**ENGINE, "fixed_prefill_ms": 200, "fixed_decode_ms": 200}
SERVED = {
    "as simulated": (ENGINE, ENGINE, 3, HELD),
    "1.5 times slower": (ENGINE, SLOWER, 3, NOT_HELD),
    "as simulated, with long passes": (LONG, LONG, 1.2, HELD),
}


def export(folder: Path, model: Path, engine: dict[str, object], rate: float) -> Path:
    """An export whose runs with a rate take half a minute, not two."""
    verify._SECONDS, verify._FEWEST = 30, 20
    run = {**TRAFFIC, **ARRIVALS, "request_rate": rate, "extra_engine_args": engine}
    sweep.run({"run": run, "search": {"seed": [1]}}, folder / "sweep")
    sweep.export(folder / "sweep", "best", folder / "out", model=str(model))
    return folder / "out"


def main(vllm: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_tokenizer(folder / "model")
        # The python3 beside the interpreter of this script has dynosim.
        path = [str(Path(sys.executable).parent), str(Path(vllm).parent), os.environ["PATH"]]
        for number, (which, (simulated, served, rate, wanted)) in enumerate(SERVED.items()):
            out = export(folder / str(number), model, simulated, rate)
            engine = ["--extra-engine-args", json.dumps(served), "--model-name", str(model)]
            with serving(folder / f"server-{number}", *engine) as server:
                environment = {
                    **os.environ,
                    "PATH": ":".join(path),
                    "HF_HUB_OFFLINE": "1",
                    "URL": server.url,
                    "RESULTS": str(folder / f"results-{number}"),
                }
                done = subprocess.run(
                    ["sh", out / "verify.sh"], env=environment, capture_output=True, text=True, check=False
                )
            assert done.returncode == wanted, f"{which}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
            print(f"{which}: {done.stdout[done.stdout.rindex('The prediction') :].splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
