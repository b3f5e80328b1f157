"""The size of a KV pool as an engine itself states it: in its log, or in what ``/metrics`` answers."""

from __future__ import annotations

import re
from pathlib import Path

# Each has the tokens of the pool, or its blocks and their size.
_TOKENS = (
    re.compile(r"GPU KV cache size: ([\d,]+) tokens"),  # vLLM, log
    re.compile(r"KV Cache is allocated\..*?#tokens: (\d+)"),  # SGLang, log
    re.compile(r"max_total_num_tokens=(\d+)"),  # SGLang, log
    re.compile(r"^sglang:max_total_num_tokens(?:{[^}]*})? ([\d.e+]+)$", re.MULTILINE),  # SGLang, /metrics
)
_CACHE_CONFIG = re.compile(r"^vllm:cache_config_info{([^}]*)}", re.MULTILINE)  # vLLM, /metrics


def tokens_of(path: str) -> int:
    """Returns the tokens that the KV pool holds, from a log or a snapshot of metrics.

    Of several engines in one file the last one counts, as a log may hold earlier starts. Raises ValueError if the file
    does not say, FileNotFoundError if there is none.
    """
    try:
        text = Path(path).read_text(errors="replace")
    except FileNotFoundError:
        raise FileNotFoundError(f"--kv-from: {path!r} is missing") from None
    except OSError as error:
        raise ValueError(f"--kv-from: cannot read {path!r}: {error.strerror}, want a file") from None
    for pattern in _TOKENS:
        if found := pattern.findall(text):
            return int(float(found[-1].replace(",", "")))
    if found := _CACHE_CONFIG.findall(text):
        return _blocks(found[-1], path)
    raise ValueError(
        f"--kv-from: {path!r} does not state the size of a KV pool; want a log of vLLM or SGLang with its start,"
        " or what their /metrics answers"
    )


def _blocks(labels: str, path: str) -> int:
    said = dict(re.findall(r'(\w+)="([^"]*)"', labels))
    if not (said.get("num_gpu_blocks", "").isdigit() and said.get("block_size", "").isdigit()):
        raise ValueError(f"--kv-from: {path!r}: vllm:cache_config_info has no num_gpu_blocks and block_size")
    return int(said["num_gpu_blocks"]) * int(said["block_size"])
