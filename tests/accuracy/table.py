#!/usr/bin/env python3
"""Make the tables of docs/accuracy.md: how far simulations are off from the public measurements.

usage: table.py [--folds FOLDER] [--write FILE] [--keep FOLDER] [--jobs N] [--resume FILE]

It needs aiconfigurator 0.12 and SciPy beside dynosim, and takes some minutes. Prints Markdown, or puts it in place of
all that follows the line "<!-- tables -->" in FILE. FOLDER has calibration profiles fold-0.json, fold-1.json and so on:
each was fitted without the configurations of its fold, which are scored with it. --resume keeps replays in a file and
goes on with it after an interruption.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path

from dynamo._shell.cores import cores
from dynamo.calibrate import calibration, folds, targets
from dynamo.calibrate import report as calibrations
from dynamo.calibrate.targets import Part, is_comparable
from dynamo.calibrate.trials import Trial
from dynamo.validate import report, scores, sources
from dynamo.validate.campaigns import had_cold_start
from dynamo.validate.main import validate
from dynamo.validate.mapping import Rules, replay_of
from dynamo.validate.measurement import Measurement, Refusal, Replay
from dynamo.validate.report import Refused, Validation
from dynamo.validate.runner import Result, asked, run_all
from dynamo.validate.scores import METRICS, Key, Summary

sys.path.insert(0, str(Path(__file__).parent))

import sure

PROJECT = Path(__file__).parent.parent.parent
MEASURED = PROJECT / "examples" / "measured"
FOLDS = PROJECT / "examples" / "calibration" / "folds"
MARK = "<!-- tables -->\n"
SDK = "0.12"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=Path, default=FOLDS)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--keep", type=Path, help="also write accuracy.json, .csv and .html of the first table here")
    parser.add_argument("--jobs", type=int, default=cores(), help="processes (default: one per core)")
    parser.add_argument("--resume", type=Path, help="keep the replays of the silicon table in this file")
    given = parser.parse_args()
    release = metadata.version("aiconfigurator")
    if not release.startswith(SDK):
        sys.exit(f"table.py: got aiconfigurator {release}, want {SDK}")
    warnings.simplefilter("ignore")
    text = "\n".join(tables(given))
    if given.write is None:
        print(text)
        return
    page = given.write.read_text()
    if MARK not in page:
        sys.exit(f"table.py: {given.write} has no line {MARK.strip()}")
    given.write.write_text(page.partition(MARK)[0] + MARK + "\n" + text + "\n")


def tables(given: argparse.Namespace) -> Iterable[str]:
    table = sources.read([str(MEASURED / "silicon_sample.csv")])
    aggregated = [m for m in table if m.mode == "agg"]
    plain, results = replayed_twice(aggregated, profiles_in(given.folds), given)
    if given.keep is not None:
        report.write(plain, given.keep)
    yield from overview(plain)
    yield from calibrated(plain.results, results, len(profiles_in(given.folds)))
    warm = [r for r in plain.results if not had_cold_start(r.replay.measurement)]
    yield from by_group("By engine, model, GPU and precision", "model, GPU, precision", warm)
    yield from by_group("By number of clients", "concurrency", plain.results)
    yield from by_group("By number of clients, calibrated", "concurrency", results)
    yield from sure.table(plain.results, results)
    yield from single_requests()
    yield from second_halves()
    yield from others()
    yield from split_pools(table)
    yield from not_replayed(table, plain)


def profiles_in(folder: Path) -> list[Path]:
    found = sorted(folder.glob("fold-*.json"), key=lambda path: int(path.stem.partition("-")[2]))
    if not found:
        sys.exit(f"table.py: {folder} has no fold-0.json; make profiles writes the profiles of folds")
    return found


def replayed_twice(
    rows: Sequence[Measurement], profiles: Sequence[Path], given: argparse.Namespace
) -> tuple[Validation, list[Result]]:
    """All rows with nothing fitted, and with the profile of their fold.

    Both in the same processes, which ask the SDK once.
    """
    replays: list[Replay] = []
    refused: list[Refused] = []
    for row in rows:
        try:
            replays.append(replay_of(row, Rules()))
        except Refusal as refusal:
            refused.append(Refused(row, str(refusal)))
    fitted = with_profiles([r.measurement for r in replays], profiles)
    memory = Kept(given.resume, profiles)
    missing = [r for r in (*replays, *fitted) if memory.find(r) is None]
    # Some at a time, those that ask the SDK the same together: what is done is kept.
    missing.sort(key=lambda replay: str(asked(replay)))
    size = 24 * given.jobs
    for at in range(0, len(missing), size):
        memory.keep(run_all(missing[at : at + size], given.jobs))
        told("silicon table")(min(at + size, len(missing)), len(missing))
    results = [memory.find(r) for r in replays]
    found = [r for r in results if r is not None and not r.refusal]
    refused += [Refused(r.replay.measurement, r.refusal) for r in results if r is not None and r.refusal]
    after = [r for r in map(memory.find, fitted) if r is not None and not r.refusal]
    return Validation(found, refused, {"scheduler": "engine", "engine": {}}), after


class Kept:
    """Results of replays, kept in a file of pickles if there is one."""

    def __init__(self, path: Path | None, profiles: Sequence[Path]) -> None:
        self._path = path
        self._texts = {str(profile): profile.read_text() for profile in profiles}
        self._known: dict[str, Result] = {}
        if path is not None and path.exists():
            with path.open("rb") as file, contextlib.suppress(EOFError, pickle.UnpicklingError):
                while True:
                    self._known.update([pickle.load(file)])

    def find(self, replay: Replay) -> Result | None:
        return self._known.get(self._key(replay))

    def keep(self, results: Sequence[Result]) -> None:
        for result in results:
            self._known[self._key(result.replay)] = result
        if self._path is not None:
            with self._path.open("ab") as file:
                for result in results:
                    pickle.dump((self._key(result.replay), result), file)

    def _key(self, replay: Replay) -> str:
        profile = self._texts.get(str(replay.engine.get("calibration")), "")
        said = [replay.measurement.id, sorted(map(str, replay.engine.items())), str(replay.workload), profile]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def told(what: str) -> Callable[[int, int], None]:
    """A progress line on standard error for a long part."""

    def show(done: int, total: int) -> None:
        print(f"\r{what}: {done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return show


HEAD = (
    "| {} | rows | TTFT mean | median | signed | p90 | TPOT mean | median | signed | p90 | AIC static TTFT, TPOT |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def line(name: str, rows: str, found: dict[str, Summary | None]) -> str:
    cells = [cell for metric in METRICS for cell in figures(found[metric])]
    static = [found[f"static_{metric}"] for metric in METRICS]
    control = ", ".join(f"{s.mean_abs:.1f}" if s else "-" for s in static)
    return f"| {name} | {rows} | {' | '.join(cells)} | {control} |"


def figures(found: Summary | None) -> list[str]:
    if found is None:
        return ["-"] * 4
    return [f"{found.mean_abs:.1f}", f"{found.median_abs:.1f}", f"{found.signed:+.1f}", f"{found.p90_abs:.1f}"]


def overview(plain: Validation) -> Iterable[str]:
    every = len(plain.results) + len(plain.refused)
    share = 100 * len(plain.results) / every
    yield "### Nothing fitted\n"
    yield f"{len(plain.results)} of {every} measurements of one pool were replayed ({share:.0f} %).\n"
    yield HEAD.format("engine")
    for key, found in scores.grouped(plain.results, "engine").items():
        yield line(key[0], replayed(plain, key[0]), found)
    yield line("sglang, Qwen3-32B on H100", *of_group(plain, ("sglang", "Qwen3-32B", "h100_sxm", "bf16")))
    yield ""


def replayed(found: Validation, engine: str) -> str:
    done = sum(r.replay.measurement.engine == engine for r in found.results)
    return f"{done} of {done + sum(r.measurement.engine == engine for r in found.refused)}"


def of_group(found: Validation, group: Key) -> tuple[str, dict[str, Summary | None]]:
    summaries = scores.grouped(found.results, "model, GPU, precision")[group]
    first = summaries["ttft"]
    return str(first.count if first else 0), summaries


CALIBRATED_HEAD = (
    "| {} | rows | TTFT before: median, mean | after: median [90 % interval], mean | TPOT before | after |\n"
    "|---|---|---|---|---|---|"
)


def calibrated(before: Sequence[Result], results: Sequence[Result], count: int) -> Iterable[str]:
    """The score on held-out configurations with the committed profiles."""
    yield "### Calibrated, on configurations that were held out\n"
    yield f"{count} folds by configuration (model, GPU, precision, parallelism); every row is replayed with the"
    yield "profile that has not seen its configuration. Error of means in percent; intervals are of the median, from"
    yield "500 draws of configurations.\n"
    yield CALIBRATED_HEAD.format("silicon table")
    chosen: tuple[tuple[str, Callable[[Replay], bool]], ...] = (("comparable", is_comparable), ("all", lambda _: True))
    for engine in ("vllm", "sglang"):
        for title, counts in chosen:
            yield compared(f"{engine}, {title}", *(of_engine(found, engine, counts) for found in (before, results)))
    yield ""
    yield CALIBRATED_HEAD.format("comparable rows of")
    every = sorted({r.replay.measurement.group for r in results if is_comparable(r.replay)})
    for group in every:
        some = [
            [r for r in found if r.replay.measurement.group == group and is_comparable(r.replay)]
            for found in (before, results)
        ]
        yield compared(" ".join(group), *some)
    yield ""


def with_profiles(rows: Sequence[Measurement], profiles: Sequence[Path]) -> list[Replay]:
    """Each row with the profile of its fold."""
    replays: list[Replay] = []
    for row in rows:
        profile = profiles[folds.fold_of(row.configuration, len(profiles))]
        with contextlib.suppress(Refusal):
            replays.append(replay_of(row, Rules(engine={"calibration": str(profile)})))
    return replays


def of_engine(found: Sequence[Result], engine: str, counts: Callable[[Replay], bool]) -> list[Result]:
    return [r for r in found if r.replay.measurement.engine == engine and counts(r.replay)]


def compared(name: str, before: Sequence[Result], after: Sequence[Result]) -> str:
    """A row of the table of held-out configurations."""
    old, new = (folds.score([r.replay for r in found], list(map(trial_of, found))) for found in (before, after))
    assert old is not None, name
    assert new is not None, name
    cells = [f"{new.count}"]
    for metric in METRICS:
        low, high = new.interval[metric]
        cells.append(f"{old.median[metric]:.1f}, {old.mean[metric]:.1f}")
        cells.append(f"{new.median[metric]:.1f} [{low:.1f}, {high:.1f}], {new.mean[metric]:.1f}")
    return f"| {name} | {' | '.join(cells)} |"


def trial_of(result: Result) -> Trial:
    assert result.outcome is not None, "refused replays are left out"
    return targets.simulated(result.replay.measurement, result.outcome)


def by_group(title: str, grouping: str, results: Sequence[Result]) -> Iterable[str]:
    yield f"### {title}\n"
    yield from groups(grouping, results)
    yield ""


def groups(grouping: str, results: Sequence[Result]) -> Iterable[str]:
    """A table with a line per group."""
    yield HEAD.format("group")
    for key, found in scores.grouped(results, grouping).items():
        count = max(s.count for s in found.values() if s is not None)
        yield line(" ".join(key), str(count), found)


def single_requests() -> Iterable[str]:
    """Runs of which every request was measured: signed errors of mean and percentiles, and KS distances."""
    found = validate(sources.read([str(MEASURED / "llmservingsim"), str(MEASURED / "dstack-405b")]), Rules())
    yield "### Every request: signed errors in percent, and KS distances\n"
    yield "| run | metric | mean | p50 | p90 | p99 | KS |\n|---|---|---|---|---|---|---|"
    for result in found.results:
        distances = scores.distances_of(result)
        for metric in METRICS:
            off = report.percentile_errors(result, metric)
            cells = " | ".join(f"{100 * off[name]:+.1f}" if name in off else "-" for name in scores.FIGURES)
            yield f"| {short(result.replay.measurement)} | {metric.upper()} | {cells} | {distances[metric]:.2f} |"
    yield from refusals(found.refused)
    yield ""


def second_halves() -> Iterable[str]:
    """The same runs inside vLLM, second half, before and after a fit to the first half."""
    measured = sources.read([str(MEASURED / "llmservingsim" / "RTXPRO6000")])
    first = Part(0.0, 0.5)
    found = calibration.calibrate(measured, calibration.Options(folds=0, part=first))
    yield "### The second half of a run, after a fit to its first half\n"
    yield "The last 150 of 300 requests, and knobs that were fitted to the first 150.\n"
    yield "| run | | TTFT mean | p50 | p99 | KS | TPOT mean | p50 | p99 | KS |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for replay, word, cells in calibrations.rest(found, first):
        figures = " | ".join(" | ".join(f"{off:+.1f}" for off in c[:-1]) + f" | {c[-1]:.2f}" for c in cells)
        yield f"| {short(replay.measurement)} | {word} | {figures} |"
    yield ""


def short(row: Measurement) -> str:
    """A measurement by its model, GPU and load."""
    load = f", {row.request_rate:g}/s" if row.request_rate else ""
    return f"{row.model.rpartition('/')[2]}, {row.system}, {row.engine} {row.version}{load}"


def others() -> Iterable[str]:
    """Percentiles at request rates. Lengths are not recorded, so only the order of magnitude can agree."""
    found = validate(sources.read([str(MEASURED / "accelmark")]), Rules(), show=told("accelmark"))
    yield "### AccelMark: medians at request rates, lengths of requests not recorded\n"
    yield from groups("model, GPU, precision", found.results)
    yield from refusals(found.refused)
    yield ""


def split_pools(table: Sequence[Measurement]) -> Iterable[str]:
    """Prefill and decode workers, nothing fitted."""
    found = validate([m for m in table if m.mode == "disagg"], Rules(splits=True), show=told("splits"))
    yield "### Prefill and decode workers\n"
    every = len(found.results) + len(found.refused)
    yield f"{len(found.results)} of {every} measurements of splits were replayed, nothing fitted. vLLM's hand-offs"
    yield "are by its own rules, SGLang's by those of Dynamo's mocker.\n"
    for grouping in ("model, GPU, precision", "concurrency"):
        yield from groups(grouping, found.results)
        yield ""
    yield from refusals(found.refused)
    yield "\n| rows | what stands in |\n|---|---|"
    for words, count in report.stand_ins(found):
        yield f"| {count} | {words} |"
    yield ""


def not_replayed(table: Sequence[Measurement], plain: Validation) -> Iterable[str]:
    yield "### Refused\n"
    yield f"Of the {len(table)} rows of the silicon table, {sum(m.mode != 'agg' for m in table)} are of split pools."
    yield from refusals(plain.refused)
    yield "\n### Stand-ins\n"
    yield "| rows | what stands in |\n|---|---|"
    for words, count in report.stand_ins(plain):
        yield f"| {count} | {words} |"


def refusals(refused: Sequence[Refused]) -> Iterable[str]:
    """A table of reasons, without lists of what would be known."""
    if not refused:
        return
    yield "\n| refused | why |\n|---|---|"
    for reason, count in report.reasons(Validation([], refused, {})):
        known, unknown, _ = reason.partition(": PerfData")[0].partition(", want ")
        yield f"| {count} | {known.replace('|', '/')}{', which the SDK does not know' if unknown else ''} |"


if __name__ == "__main__":
    main()
