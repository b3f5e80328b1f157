"""The command line of ``python -m dynamo.validate``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dynamo._shell import console
from dynamo.validate import mapping, overrides, report, runner, sources
from dynamo.validate.measurement import Measurement, Refusal, Replay


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.validate`` with these arguments (those of the process if None).

    Returns the exit code: 0 done, 2 bad input, 1 failed or nothing could be replayed, 130 interrupted. An OSError of
    standard output is left to the caller.
    """
    return console.exit_code(lambda: _validate(_parser().parse_args(argv)))


def _validate(options: argparse.Namespace) -> int:
    rules = _rules(options)
    jobs = options.jobs
    if jobs is not None and jobs < 1:
        raise console.UsageError(f"--jobs: got {jobs}, want an integer >= 1")
    folder = Path(options.output)
    _check_folder(folder)
    measurements = sources.read(options.sources, options.source_format)
    validation = validate(measurements, rules, jobs, show=_progress())
    try:
        paths = report.write(validation, folder)
    except OSError as error:
        return console.fail(f"cannot write to {str(folder)!r}: {error.strerror}", console.FAILED)
    console.print_text(report.as_text(validation))
    console.print_text(f"\nSaved: {', '.join(map(str, paths))}")
    if not validation.results:
        return console.fail("no measurement could be replayed; the reasons are above", console.FAILED)
    return 0


def validate(
    measurements: Sequence[Measurement],
    rules: mapping.Rules,
    jobs: int | None = None,
    show: runner.OnResult | None = None,
) -> report.Validation:
    """Replays measurements, with as many processes as ``jobs`` says, one per core by default."""
    replays: list[Replay] = []
    refused: list[report.Refused] = []
    for measurement in measurements:
        try:
            replays.append(mapping.replay_of(measurement, rules))
        except Refusal as refusal:
            refused.append(report.Refused(measurement, str(refusal)))
    results = runner.run_all(replays, jobs, show)
    refused += [report.Refused(r.replay.measurement, r.refusal) for r in results if r.refusal]
    settings = {
        "scheduler": "engine" if rules.own_scheduler else "dynamo",
        "receive_interval": rules.receive_interval,
        "engine": dict(rules.engine),
    }
    return report.Validation([r for r in results if not r.refusal], refused, settings)


def _rules(options: argparse.Namespace) -> mapping.Rules:
    engine = overrides.read(options.engine)
    if options.calibration is not None:
        if options.calibration != "auto" and not Path(options.calibration).is_file():
            raise FileNotFoundError(f"--calibration: {options.calibration!r} is missing; auto takes a shipped profile")
        engine["calibration"] = options.calibration
        overrides.check("--calibration", engine)
    return mapping.Rules(options.scheduler == "engine", options.receive_interval, engine)


def _check_folder(folder: Path) -> None:
    """Refuses a place for the files that cannot be one, before the replays."""
    if folder.exists() and not folder.is_dir():
        raise console.UsageError(f"--output: {str(folder)!r} is not a folder")
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise console.UsageError(f"--output: {str(folder)!r} cannot be written to")


def _progress() -> runner.OnResult | None:
    """A counter on a terminal, nothing otherwise."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} replayed{end}", end="", file=sys.stderr, flush=True)

    return show


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="python -m dynamo.validate",
        description="Replay measurements of real engines, and say how far the simulation is off.",
        epilog="Formats: " + ", ".join(sources.FORMATS) + ". docs/accuracy.md explains metrics, rules and files.",
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="file of measurements, or folder with such files")
    parser.add_argument(
        "--source-format",
        choices=list(sources.FORMATS),
        metavar="NAME",
        help="format of the sources (default: detected)",
    )
    parser.add_argument(
        "--scheduler",
        choices=("engine", "dynamo"),
        default="engine",
        help="scheduling rules: those of the measured engine (default), or of Dynamo's mocker",
    )
    parser.add_argument(
        "--receive-interval",
        action="store_true",
        help="with the scheduler_recv_interval that the benchmark scripts gave SGLang",
    )
    parser.add_argument("--engine", metavar="JSON", help="engine arguments that win over those of a measurement; @FILE")
    parser.add_argument(
        "--calibration", metavar="FILE|auto", help="calibration profile; auto takes the one shipped for engine and GPU"
    )
    parser.add_argument("-o", "--output", default=".", metavar="FOLDER", help="where accuracy.json, .csv and .html go")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="processes (default: one per core)")
    return parser
