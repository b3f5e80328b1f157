"""``vllm bench serve`` itself, with its backends for completions, chats and embeddings: make test-clients VLLM=COMMAND.

usage: vllm_bench.py URL COMMAND
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from serve_agreement import make_tokenizer

REQUESTS, TOKENS = 20, 16
PATHS = {
    "openai": "/v1/completions",
    "openai-chat": "/v1/chat/completions",
    "openai-embeddings": "/v1/embeddings",
}


def bench(vllm: str, backend: str, url: str, folder: Path, tokenizer: Path) -> None:
    """Every request has an answer, and those of text are as long as was asked for."""
    command = [vllm, "bench", "serve", "--backend", backend, "--base-url", url, "--endpoint", PATHS[backend]]
    command += ["--model", "builtin:bytes", "--tokenizer", str(tokenizer), "--dataset-name", "random"]
    command += ["--random-input-len", "64", "--random-output-len", str(TOKENS), "--ignore-eos", "--disable-tqdm"]
    command += ["--num-prompts", str(REQUESTS), "--request-rate", "inf", "--save-result", "--save-detailed"]
    command += ["--result-filename", f"{backend}.json"]
    subprocess.run(
        command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    seen = json.loads((folder / f"{backend}.json").read_text())
    assert seen["completed"] == REQUESTS, seen
    if backend != "openai-embeddings":
        assert seen["output_lens"] == [TOKENS] * REQUESTS, seen["output_lens"]
        assert all(ttft > 0 for ttft in seen["ttfts"]), seen["ttfts"]


def main(url: str, vllm: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = make_tokenizer(folder / "tokenizer")
        for backend in PATHS:
            bench(vllm, backend, url, folder, tokenizer)
            print(f"vllm bench serve --backend {backend}: {REQUESTS} of {REQUESTS} answered", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
