"""The command line of ``python -m dynamo.replay.diff``."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynamo._shell import console
from dynamo.replay.diff.conditions import parse_condition
from dynamo.replay.diff.defaults import BY, MOVERS
from dynamo.replay.explain import LATENCIES

if TYPE_CHECKING:
    from dynamo.replay.diff.comparison import Comparison


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.replay.diff`` with these arguments (those of the process if None).

    Returns the exit code: 0 done, 1 a condition of ``--fail-if`` fails, 2 bad input, 130 interrupted. An OSError of
    standard output is left to the caller.
    """
    return console.exit_code(lambda: _diff(_parser().parse_args(argv)))


def _diff(options: argparse.Namespace) -> int:
    from dynamo.replay.diff import text
    from dynamo.replay.diff.comparison import compare_sides
    from dynamo.replay.diff.sides import read

    if options.movers < 0:
        raise console.UsageError(f"--movers: got {options.movers}, want 0 or more")
    for condition in options.fail_if:
        parse_condition(condition)
    a, b = read(options.a, options.a), read(options.b, options.b)
    for run, path in zip((a, b), options.rows or (), strict=False):
        rows = read(path, path).rows
        if rows is None:
            raise console.UsageError(f"--rows: {path} is a report, want the file of --report-jsonl")
        run.add_rows(rows)
    found = compare_sides(a, b, fail_if=options.fail_if, movers=options.movers, by=options.by)
    if options.html is not None:
        _write_page(options.html, found)
    if options.json:
        console.print_text(json.dumps(_finite(found.to_dict()), indent=2))
    elif options.markdown:
        console.print_text(text.as_markdown(found))
    else:
        console.print_text(text.as_text(found, ascii_only=not console.draws_boxes()))
    failed = [verdict for verdict in found.verdicts if verdict.failed]
    for verdict in failed:
        console.say(f"failed: {verdict.condition} (found: {verdict.found})")
    return console.FAILED if failed else 0


def _write_page(path: str, found: Comparison) -> None:
    from dynamo.replay import files
    from dynamo.replay.diff import page

    try:
        files.write_whole(path, page.as_html(found))
    except OSError as error:
        raise console.UsageError(f"--html: cannot write {path!r}: {error.strerror}") from None


def _finite(value: Any) -> Any:
    """JSON has no infinities: null stands for the relative change from 0."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="python -m dynamo.replay.diff",
        description="Compare two runs: figures, parts of latencies, single requests, routing.",
        epilog="A and B are reports (--report-json) or rows (--report-jsonl), plain or .gz. Requests, distributions "
        "and routing decisions are compared if rows of both are given, and parts of latencies if both runs had "
        "--explain. Exit codes: 0; 1 if a condition of --fail-if holds; 2 for bad input.",
    )
    parser.add_argument("a", metavar="A", help="the earlier run: a report, or rows")
    parser.add_argument("b", metavar="B", help="the later run: a report, or rows")
    parser.add_argument("--rows", nargs=2, metavar=("A_ROWS", "B_ROWS"), help="rows of both, if A and B are reports")
    parser.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help='exit with 1 if this holds, such as "p99_ttft_ms > +5%%" or "mean_itl_ms > 20"; may be repeated',
    )
    parser.add_argument(
        "--by", choices=list(LATENCIES), default=BY, help=f"latency whose changes are listed (default: {BY})"
    )
    parser.add_argument(
        "--movers",
        type=int,
        default=MOVERS,
        metavar="N",
        help=f"requests that are listed in either direction (default: {MOVERS})",
    )
    parser.add_argument("--html", metavar="FILE", help="also write the comparison as an HTML page")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print Markdown, for pull requests")
    form.add_argument("--json", action="store_true", help="print JSON, for programs")
    return parser
