"""How well the times that a load generator measures at the OpenAI-compatible server agree with an offline replay of the
same requests: ``vllm bench serve`` drives the server, and its result, with the times of sending, is replayed."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serve import ours

ENGINE = ["--num-workers", "2", "--block-size", "16"]
# A difference counts if it is larger than both.
LARGEST_SHARE, LARGEST_MS = 0.03, 2.0

Times = dict[str, list[float]]  # TTFT, ITL: milliseconds


def make_tokenizer(folder: Path) -> Path:
    """A tokenizer for the load generator whose tokens are printable characters, as the server counts them."""
    vocabulary = {"\u0120": 0} | {chr(code): code - 32 for code in range(33, 127)}  # \u0120 stands for a space
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return folder


def measure(vllm: str, url: str, folder: Path, requests: int, rate: float) -> Path:
    """Runs the load generator against a server; returns the file with its result."""
    command = [vllm, "bench", "serve", "--backend", "openai", "--base-url", url, "--model", "builtin:bytes"]
    command += [
        "--tokenizer",
        str(make_tokenizer(folder / "tokenizer")),
        "--dataset-name",
        "random",
        "--random-input-len",
        "400",
    ]
    command += ["--random-output-len", "60", "--random-range-ratio", "0.5", "--ignore-eos", "--disable-tqdm"]
    command += ["--num-prompts", str(requests), "--request-rate", str(rate)]
    command += ["--extra-body", '{"add_special_tokens": false}']
    command += ["--save-result", "--save-detailed", "--result-filename", "measured.json"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    if done.returncode:
        raise SystemExit(f"vllm bench serve failed: {done.stderr[-2000:]}")
    return folder / "measured.json"


def measured_times(result: dict[str, Any]) -> Times:
    gaps = [[1000 * gap for gap in itls] for itls in result["itls"]]
    return {"TTFT": [1000 * ttft for ttft in result["ttfts"]], "ITL": [statistics.mean(g) for g in gaps]}


def replayed_times(path: Path, folder: Path) -> Times:
    """The same requests at the same times, offline."""
    rows = folder / "rows.jsonl"
    command = [sys.executable, "-m", "dynamo.replay", str(path), "--trace-format", "vllm-bench", *ENGINE[:2]]
    command += [
        "--extra-engine-args",
        '{"block_size": 16}',
        "--report-jsonl",
        str(rows),
        "--report-json",
        "report.json",
    ]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    table = [json.loads(line) for line in rows.read_text().splitlines()]
    return {"TTFT": [row["ttft_ms"] for row in table], "ITL": [row["itl_ms"] for row in table]}


def percentile(share: float) -> Callable[[list[float]], float]:
    return lambda values: sorted(values)[min(len(values) - 1, int(share * len(values)))]


FIGURES: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.mean,
    "median": statistics.median,
    "90 %": percentile(0.9),
}


def compare(measured: Times, replayed: Times) -> bool:
    """Prints a table; returns whether all figures agree."""
    agree = True
    print("| | measured ms | replayed ms | difference |\n|---|---|---|---|")
    for name in measured:
        for figure, of in FIGURES.items():
            seen, wanted = of(measured[name]), of(replayed[name])
            off = seen - wanted
            agree = agree and (abs(off) <= LARGEST_MS or abs(off) <= LARGEST_SHARE * wanted)
            print(f"| {name}, {figure} | {seen:.2f} | {wanted:.2f} | {off:+.2f} ms, {100 * off / wanted:+.1f} % |")
    return agree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", default="vllm", help="the command vllm (pip install vllm)")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rate", type=float, default=10, help="requests per second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with ours(folder, None, *ENGINE) as server:
            path = measure(options.vllm, server.url, folder, options.requests, options.rate)
        if not compare(measured_times(json.loads(path.read_text())), replayed_times(path, folder)):
            raise SystemExit(f"a difference is larger than {LARGEST_MS:g} ms and {100 * LARGEST_SHARE:g} %")


if __name__ == "__main__":
    main()
