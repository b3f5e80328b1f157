"""The command line of ``python -m dynamo.calibrate``."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from dynamo._shell import console
from dynamo._shell.cores import cores
from dynamo.mocker import MockEngineArgs
from dynamo.replay import files
from dynamo.validate import command, mapping, overrides, sources
from dynamo.validate.measurement import Refusal


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.calibrate`` with these arguments (those of the process if None).

    Returns the exit code: 0 done, 2 bad input, 1 failed or nothing could be replayed, 130 interrupted. An OSError of
    standard output is left to the caller.
    """
    return console.exit_code(lambda: _run(_parser().parse_args(argv)))


def _run(given: argparse.Namespace) -> int:
    if find_spec("scipy") is None:
        raise console.UsageError("calibration needs SciPy: pip install 'dynosim[calibrate]'")
    from dynamo.calibrate import calibration, kvpool, profile, report
    from dynamo.calibrate.targets import Part

    _check(given)
    engine = overrides.read(given.engine)
    kv_tokens = kvpool.tokens_of(given.kv_from) if given.kv_from else 0
    if kv_tokens:
        engine["num_gpu_blocks"] = kv_tokens // MockEngineArgs(**engine).block_size
    measurements = sources.read(given.sources, given.source_format)
    part = Part(0.0, given.fit_first)
    options = calibration.Options(
        rules=mapping.Rules(given.scheduler == "engine", engine),
        single_scale=given.single_scale,
        folds=given.folds if given.fit_first == 1 else 0,
        part=part,
        jobs=given.jobs or cores(),
        memory=given.resume,
        on_trial=command.progress("measurements replayed"),
    )
    try:
        found = calibration.calibrate(measurements, options)
    except Refusal as refusal:
        return console.fail(f"no measurement could be replayed: {refusal}", console.FAILED)
    console.print_text(report.as_text(found, part))
    made = {"sources": _hashes(given.sources), "options": _said(given)}
    profiles = {given.output: found.profile({**made, "held_out": report.scores(found)}, kv_tokens)}
    if given.fold_profiles:
        for place, without in enumerate(found.fold_profiles(made, kv_tokens)):
            profiles[os.path.join(given.fold_profiles, f"fold-{place}.json")] = without
    try:
        with files.together():
            for path, made_profile in profiles.items():
                profile.write(made_profile, path)
    except OSError as error:
        return console.fail(f"cannot write {error.filename!r}: {error.strerror}", console.FAILED)
    console.print_text(f'\nSaved: {given.output}; use it as engine argument "calibration": {json.dumps(given.output)}')
    return 0


def _check(given: argparse.Namespace) -> None:
    command.check_jobs(given.jobs)
    if given.folds != 0 and not 2 <= given.folds <= 100:
        raise console.UsageError(f"--folds: got {given.folds}, want 0, or an integer from 2 to 100")
    if not 0 < given.fit_first <= 1:
        raise console.UsageError(f"--fit-first: got {given.fit_first}, want a number above 0, at most 1")
    if given.fold_profiles is not None:
        _check_fold_profiles(given)
    place = Path(given.output)
    if place.is_dir() or not os.access(place.absolute().parent, os.W_OK):
        raise console.UsageError(f"-o: got {given.output!r}, want a file in a folder that can be written to")


def _check_fold_profiles(given: argparse.Namespace) -> None:
    if given.folds == 0 or given.fit_first != 1:
        raise console.UsageError("--fold-profiles: there are no folds; want --folds of 2 or more, and no --fit-first")
    folder = Path(given.fold_profiles)
    if folder.exists() and not folder.is_dir():
        raise console.UsageError(f"--fold-profiles: {given.fold_profiles!r} is not a folder")
    if not os.access(folder if folder.is_dir() else folder.absolute().parent, os.W_OK):
        raise console.UsageError(f"--fold-profiles: {given.fold_profiles!r} cannot be written to")


def _hashes(paths: Sequence[str]) -> list[dict[str, str]]:
    found: list[Path] = []
    for path in map(Path, paths):
        found += sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return [{"file": p.name, "sha256": hashlib.sha256(p.read_bytes()).hexdigest()} for p in found]


def _said(given: argparse.Namespace) -> dict[str, object]:
    kept = ("scheduler", "engine", "folds", "fit_first", *(("single_scale",) if given.single_scale else ()))
    return {name: getattr(given, name) for name in kept if getattr(given, name) is not None}


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="python -m dynamo.calibrate",
        description="Fit physical constants of simulated engines to measurements of real ones, and write a profile.",
        epilog="Formats: " + ", ".join(sources.FORMATS) + ". See docs/calibrate.md.",
    )
    parser.add_argument(
        "sources", nargs="+", metavar="MEASURED", help="file of measurements, or folder with such files"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the profile to write")
    command.add_replay_options(parser, "MEASURED")
    parser.add_argument(
        "--folds",
        type=int,
        default=5,
        metavar="N",
        help="hold configurations out in this many folds, and score on them (default 5; 0: none);"
        " runs of one configuration are held out one by one",
    )
    parser.add_argument(
        "--fold-profiles",
        metavar="FOLDER",
        help="also write the profile of each fold, fitted without its configurations: fold-0.json and so on",
    )
    parser.add_argument(
        "--fit-first",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="for runs with single requests: fit the first share of them and score the rest (default 1: all, in folds)",
    )
    parser.add_argument(
        "--single-scale",
        action="store_true",
        help="fit only one factor on all durations; three runs are enough, for a GPU that is slower overall",
    )
    parser.add_argument("--kv-from", metavar="FILE", help="log or /metrics of the engine, for the size of its KV pool")
    parser.add_argument("--resume", metavar="FILE", help="store replays in this file, and reuse those in it")
    command.add_jobs(parser)
    return parser
