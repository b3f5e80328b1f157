"""What the command lines of validation and calibration share: options for measurements, and a counter of replays."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from dynamo._shell import console
from dynamo.validate import sources


def add_replay_options(parser: argparse.ArgumentParser, read: str) -> None:
    """Adds the options that say how measurements are read and replayed; ``read`` names the files in the help."""
    parser.add_argument(
        "--source-format",
        "--trace-format",
        choices=list(sources.FORMATS),
        metavar="NAME",
        help=f"format of {read} (default: detected)",
    )
    parser.add_argument(
        "--scheduler",
        choices=("engine", "dynamo"),
        default="engine",
        help="scheduling rules: those of the measured engine (default), or of Dynamo's mocker",
    )
    parser.add_argument("--receive-interval", action=_NowKnown, nargs=0, help=argparse.SUPPRESS)
    parser.add_argument(
        "--engine",
        "--extra-engine-args",
        metavar="JSON",
        help="engine arguments that override those of a measurement, or @FILE",
    )


class _NowKnown(argparse.Action):
    """Refuses the option that had SGLang look for requests as seldom as the benchmark scripts made it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.error("--receive-interval: leave it out: the scheduler_recv_interval of the scripts is always used")


def add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="processes (default: one per core)")


def check_jobs(jobs: int | None) -> None:
    """Raises UsageError for a number of processes that cannot be one."""
    if jobs is not None and jobs < 1:
        raise console.UsageError(f"--jobs: got {jobs}, want an integer >= 1")


def progress(what: str) -> Callable[[int, int], None] | None:
    """Returns a counter of replays on a terminal, with words after it; nothing otherwise."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} {what}{end}", end="", file=sys.stderr, flush=True)

    return show
