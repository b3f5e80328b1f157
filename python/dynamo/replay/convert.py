"""``python -m dynamo.replay.convert``: recordings of requests become traces."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from dynamo import _core
from dynamo._core import values
from dynamo._shell import console
from dynamo.replay import files


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.replay.convert`` with these arguments (those of the process if None).

    Returns the exit code: 0 done, 2 bad input, 1 the trace could not be written, 130 interrupted.
    An OSError of standard output is left to the caller.
    """
    return console.exit_code(lambda: _convert(_parser().parse_args(argv)))


def _convert(options: argparse.Namespace) -> int:
    inputs = [os.path.expanduser(values.text("input_path", path)) for path in options.input_path]
    output = os.path.expanduser(values.text("output_file", options.output_file))
    files.check_writable("--output-file", output)
    files.check_distinct([("--output-file", output), *(("--input-path", path) for path in dict.fromkeys(inputs))])
    summary = _core.convert({"input_path": inputs, "output_file": output, "agentic": options.agentic})
    console.print_text(f"{summary}Saved trace to: {output}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="python -m dynamo.replay.convert", description="Convert recordings of requests to traces."
    )
    kinds = parser.add_subparsers(required=True, metavar="agent-trace")
    agent = kinds.add_parser(
        "agent-trace",
        help="request traces of Dynamo to Mooncake JSONL",
        description="Write request traces that Dynamo has recorded as Mooncake JSONL.",
    )
    agent.add_argument(
        "--input-path",
        nargs="+",
        action="extend",
        required=True,
        metavar="FILE",
        help="recordings, plain or compressed (.gz, .zst); - reads standard input",
    )
    agent.add_argument("--output-file", required=True, metavar="FILE", help="the trace to write")
    agent.add_argument(
        "--agentic",
        action="store_true",
        help="keep the dependencies between requests and tools, for --trace-format agentic_mooncake",
    )
    return parser


if __name__ == "__main__":
    console.run_process(main)
