"""``python -m dynamo.replay.inspect``: what a trace is like, before it is replayed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from dynamo import _core
from dynamo._core import values
from dynamo._shell import console
from dynamo._shell.options import run_options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.replay.inspect`` with these arguments (those of the process if None).

    Returns the exit code: 0 done, 2 bad input, 1 failed, 130 interrupted. An OSError of standard output is left to the
    caller.
    """
    return console.exit_code(lambda: _inspect(vars(_parser().parse_args(argv))))


def _inspect(options: dict[str, Any]) -> int:
    as_json = options.pop("json")
    for name, value in options.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                values.text(name, text)
    found = _core.inspect(options)
    console.print_text(json.dumps(found["stats"], indent=2) if as_json else found["text"].rstrip("\n"))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="python -m dynamo.replay.inspect",
        description="Describe a trace: lengths, arrivals, shared prefixes, and possible mistakes.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "trace_files",
        nargs="+",
        metavar="trace_file",
        help="trace, plain or compressed (.gz, .zst); - reads standard input; several for dynamo, servegen and weka",
    )
    parser.add_argument("--trace-format", "--source-format", metavar="TEXT", help=run_options()["trace_format"].help)
    parser.add_argument(
        "--trace-block-size",
        type=int,
        metavar="N",
        help="tokens that one hash_ids entry stands for (default: 512, or as the format says)",
    )
    parser.add_argument("--block-size", type=int, metavar="N", help="tokens in a block of the engine (default: 64)")
    parser.add_argument("--json", action="store_true", default=False, help="print JSON instead of text")
    return parser


if __name__ == "__main__":
    console.run_process(main)
