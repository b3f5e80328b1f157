"""The command line of ``python -m dynamo.validate``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from dynamo._shell import console
from dynamo.validate import command, held, mapping, overrides, report, runner, sources
from dynamo.validate.measurement import Measurement, Refusal, Replay

_MOST_SEEDS = 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.validate`` with these arguments (those of the process if None).

    Returns the exit code: 0 done, 2 bad input, 1 failed or nothing could be replayed, 3 a prediction did not hold,
    130 interrupted. An OSError of
    standard output is left to the caller.
    """
    return console.exit_code(lambda: _validate(_parser().parse_args(argv)))


def _validate(options: argparse.Namespace) -> int:
    if options.predicted is not None:
        return _held(options)
    rules = _rules(options)
    command.check_jobs(options.jobs)
    folder = Path(options.output)
    _check_folder(folder)
    measurements = sources.read(options.sources, options.source_format)
    validation = validate(measurements, rules, options.jobs, show=command.progress("replayed"))
    try:
        paths = report.write(validation, folder)
    except OSError as error:
        return console.fail(f"cannot write to {str(folder)!r}: {error.strerror}", console.FAILED)
    console.print_text(report.as_text(validation))
    console.print_text(f"\nSaved: {', '.join(map(str, paths))}")
    if not validation.results:
        return console.fail("no measurement could be replayed; the reasons are above", console.FAILED)
    return 0


def _held(options: argparse.Namespace) -> int:
    """Says whether a prediction held, without replays: what is measured may have any number of workers."""
    for name, default in (("engine", None), ("calibration", None), ("splits", False), ("seeds", 1)):
        if getattr(options, name) != default:
            raise console.UsageError(f"--{name}: leave it out: with --predicted nothing is replayed")
    predicted = held.predictions(options.predicted)
    verdict = held.judge(predicted, sources.read(options.sources, options.source_format))
    console.print_text(held.text(verdict))
    return 0 if verdict.held else held.NOT_HELD


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
        "engine": dict(rules.engine),
        **({"splits": True} if rules.splits else {}),
        **({"seeds": rules.seeds} if rules.seeds > 1 else {}),
    }
    return report.Validation([r for r in results if not r.refusal], refused, settings)


def _rules(options: argparse.Namespace) -> mapping.Rules:
    engine = overrides.read(options.engine)
    if options.calibration is not None:
        if options.calibration != "auto" and not Path(options.calibration).is_file():
            raise FileNotFoundError(f"--calibration: {options.calibration!r} is missing; auto takes a shipped profile")
        engine["calibration"] = options.calibration
        overrides.check("--calibration", engine)
    if not 1 <= options.seeds <= _MOST_SEEDS:
        raise console.UsageError(f"--seeds: got {options.seeds}, want an integer from 1 to {_MOST_SEEDS}")
    return mapping.Rules(options.scheduler == "engine", engine, options.splits, options.seeds)


def _check_folder(folder: Path) -> None:
    """Refuses a place for the files that cannot be one, before the replays."""
    if folder.exists() and not folder.is_dir():
        raise console.UsageError(f"--output: {str(folder)!r} is not a folder")
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise console.UsageError(f"--output: {str(folder)!r} cannot be written to")


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="python -m dynamo.validate",
        description="Replay measurements of real engines, and report the error of the simulation.",
        epilog="Formats: " + ", ".join(sources.FORMATS) + ". docs/accuracy.md explains metrics, rules and files.",
    )
    parser.add_argument(
        "sources", nargs="+", metavar="MEASURED", help="file of measurements, or folder with such files"
    )
    command.add_replay_options(parser, "the sources")
    parser.add_argument(
        "--calibration", metavar="FILE|auto", help="calibration profile; auto takes the one shipped for engine and GPU"
    )
    parser.add_argument("--splits", action="store_true", help="replay only measurements of prefill and decode workers")
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="replay synthetic loads N times with different lengths, and report the range of the means (default: 1)",
    )
    parser.add_argument(
        "--predicted", metavar="FILE", help="instead, say whether the predictions of an export (its verify.json) hold"
    )
    parser.add_argument("-o", "--output", default=".", metavar="FOLDER", help="folder of accuracy.json, .csv, .html")
    command.add_jobs(parser)
    return parser
