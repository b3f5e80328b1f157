"""``python -m dynamo.replay tiers``: how much host memory a trace is worth."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dynamo._core import values
from dynamo._shell import console
from dynamo._shell.options import run_options
from dynamo.replay.tiers import curve, simulate, text


def main(argv: Sequence[str]) -> int:
    """Runs the command with these arguments, without its name, and returns the exit code."""
    return console.exit_code(lambda: _tiers(_parser().parse_args(argv)))


def _tiers(options: argparse.Namespace) -> int:
    for path in options.trace_files:
        values.text("trace_files", path)
    engine = None if options.extra_engine_args is None else simulate.engine_args(options.extra_engine_args)
    reading = {
        name: value for name in ("trace_format", "trace_block_size") if (value := getattr(options, name)) is not None
    }
    size = options.block_size or int((engine or {}).get("block_size") or 64)
    bytes_of = options.kv_bytes_per_token or (engine or {}).get("kv_bytes_per_token")
    if engine is not None and options.kv_bytes_per_token:
        engine.setdefault("kv_bytes_per_token", options.kv_bytes_per_token)
    sizes = _numbers("--sizes", options.sizes)
    pool = _pool(engine)
    asked = [*sizes, *([] if pool is None else [pool])]
    found = curve.of(options.trace_files, reading, block_size=size, sizes=asked, kv_bytes_per_token=bytes_of)
    if pool is not None:
        found["gpu"] = found["asked"].pop()
    if engine is not None:
        simulate.add(found, options.trace_files, reading, {**engine, "block_size": size}, options.replay_concurrency)
    if options.html is not None:
        _write_page(options.html, found)
    if options.json:
        console.print_text(json.dumps(found, indent=1))
    else:
        console.print_text(text.of(found, ascii_only=not console.draws_boxes()))
    return 0


def _pool(engine: dict[str, Any] | None) -> int | None:
    """Returns the blocks of the GPU's pool, if the engine says how many there are."""
    blocks = (engine or {}).get("num_gpu_blocks")
    return blocks if isinstance(blocks, int) and not isinstance(blocks, bool) and 0 < blocks < 1 << 31 else None


def _numbers(name: str, given: str | None) -> list[int]:
    """Sizes in blocks that are separated by commas."""
    if given is None:
        return []
    words = given.split(",")
    if not all(word.strip().isdecimal() and int(word) < 1 << 31 for word in words):
        raise console.UsageError(f"{name}: got {json.dumps(given)}, want numbers of blocks such as 1000,4000")
    return [int(word) for word in words]


def _write_page(path: str, found: dict[str, Any]) -> None:
    from dynamo.replay import files
    from dynamo.replay.tiers import page

    try:
        files.write_whole(Path(path), page.as_html(found))
    except OSError as error:
        raise console.UsageError(f"--html: cannot write {path!r}: {error.strerror}") from None


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"got {text!r}, want an integer of at least 1")
    return int(text)


def _parser() -> console.Parser:
    parser = console.Parser(
        prog="python -m dynamo.replay tiers",
        description="Show how many prompt tokens of a trace are hits in caches of all sizes, and the size from which "
        "more memory is worth less. The curve is exact for LRU eviction and requests that run one after another on one "
        "worker. With --extra-engine-args, five sizes are also replayed. (To replay a trace with the name of this "
        "command, write ./tiers.)",
    )
    parser.add_argument(
        "trace_files",
        nargs="+",
        metavar="trace_file",
        help="trace, plain or compressed (.gz, .zst); several for dynamo, servegen and weka",
    )
    parser.add_argument("--trace-format", metavar="TEXT", help=run_options()["trace_format"].help)
    parser.add_argument("--trace-block-size", type=_positive, metavar="N", help=run_options()["trace_block_size"].help)
    parser.add_argument("--block-size", type=_positive, metavar="N", help="tokens in a KV block (default: 64)")
    parser.add_argument("--sizes", metavar="N,...", help="further sizes to show, in blocks")
    parser.add_argument(
        "--kv-bytes-per-token", type=_positive, metavar="N", help="bytes of a token's KV: sizes are shown in GB, too"
    )
    parser.add_argument(
        "--extra-engine-args",
        metavar="JSON",
        help="an engine with scheduler vllm or sglang, with which the trace is replayed at five sizes of host memory",
    )
    parser.add_argument(
        "--replay-concurrency",
        type=_positive,
        metavar="N",
        help="requests at a time in these replays",
    )
    parser.add_argument("--html", metavar="FILE", help="also write an HTML page with the curve")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    return parser
