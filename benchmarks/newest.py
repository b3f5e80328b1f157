#!/usr/bin/env python3
"""Runs a replay by the function of ai-dynamo 1.6, which has no command line for it any more.

usage: PYTHON newest.py [trace_file] [options of python -m dynamo.replay] --report-json FILE

PYTHON is that of an environment with ai-dynamo 1.6. Flat engine arguments become nested ones. Options are passed on
under their names; what it does not know it says itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OUTSIDE = ("dp_size", "startup_time", "tensor_parallel_size")
RENAMED = {"engine_type": "backend", "kv_bytes_per_token": "kv_transfer_bytes_per_token"}
OBJECTS = ("extra_engine_args", "prefill_engine_args", "decode_engine_args")
SIZES = ("input_tokens", "output_tokens", "request_count")


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Engine arguments as 1.6 takes them, of a mocker with the polynomial timing model."""
    engine: dict[str, Any] = {"backend": "vllm", "timing_model": {"type": "polynomial"}}
    outside = {}
    for name, value in flat.items():
        if name in OUTSIDE:
            outside[name] = value
        else:
            engine[RENAMED.get(name, name)] = value
    return {"engine": engine, **outside}


def parameters(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The trace, if there is one, and the named parameters."""
    traces, named = [], {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            traces.append(word)
            continue
        text = rest.pop(0)
        try:
            named[word[2:].replace("-", "_")] = json.loads(text)
        except ValueError:
            named[word[2:].replace("-", "_")] = text
    return traces, named


def main() -> None:
    traces, named = parameters(sys.argv[1:])
    report = Path(named.pop("report_json"))
    engines = [name for name in OBJECTS if name in named] or ["extra_engine_args"]
    for name in engines:
        named[name] = nested(named.get(name, {}))
    from dynamo.replay import run_synthetic_trace_replay, run_trace_replay  # of ai-dynamo

    if traces:
        found = run_trace_replay(traces[0], **named)
    else:
        sizes = [named.pop(name) for name in SIZES]
        if "replay_concurrency" not in named:
            named.setdefault("arrival_interval_ms", 1.0)
        found = run_synthetic_trace_replay(*sizes, **named)
    report.write_text(json.dumps(found.summary))


if __name__ == "__main__":
    main()
