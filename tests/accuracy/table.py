#!/usr/bin/env python3
"""Make the tables of docs/accuracy.md: how far simulations are off from the public measurements.

usage: table.py [--folds FOLDER] [--write FILE] [--keep FOLDER]

It needs aiconfigurator 0.12 beside dynosim, and takes some minutes. Prints Markdown, or puts it in place of all that
follows the line "<!-- tables -->" in FILE. FOLDER has calibration profiles fold-0.json, fold-1.json and so on: each was
fitted without the configurations of its fold, which are scored with it.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path

from dynamo.validate import report, scores, sources
from dynamo.validate.main import validate
from dynamo.validate.mapping import Rules, replay_of
from dynamo.validate.measurement import Measurement, Refusal, Replay
from dynamo.validate.report import Refused, Validation
from dynamo.validate.runner import Result, run_all
from dynamo.validate.scores import METRICS, Key, Summary

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
    given = parser.parse_args()
    release = metadata.version("aiconfigurator")
    if not release.startswith(SDK):
        sys.exit(f"table.py: got aiconfigurator {release}, want {SDK}")
    warnings.simplefilter("ignore")
    text = "\n".join(tables(given.folds, given.keep))
    if given.write is None:
        print(text)
        return
    page = given.write.read_text()
    if MARK not in page:
        sys.exit(f"table.py: {given.write} has no line {MARK.strip()}")
    given.write.write_text(page.partition(MARK)[0] + MARK + "\n" + text + "\n")


def tables(folds: Path, keep: Path | None) -> Iterable[str]:
    table = sources.read([str(MEASURED / "silicon_sample.csv")])
    aggregated = [m for m in table if m.mode == "agg"]
    plain = validate(aggregated, Rules(), show=told("nothing fitted"))
    if keep is not None:
        report.write(plain, keep)
    on_sglang = [m for m in aggregated if m.engine == "sglang"]
    waited = validate(on_sglang, Rules(receive_interval=True), show=told("scheduler_recv_interval"))
    yield from overview(plain, waited)
    yield from calibrated(aggregated, plain, folds)
    yield from by_group("By engine, model, GPU and precision", "model, GPU, precision", plain.results)
    yield from by_group("By number of clients", "concurrency", plain.results)
    yield from single_requests()
    yield from others()
    yield from not_replayed(table, plain)


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


def overview(plain: Validation, waited: Validation) -> Iterable[str]:
    every = len(plain.results) + len(plain.refused)
    share = 100 * len(plain.results) / every
    yield "### Nothing fitted\n"
    yield f"{len(plain.results)} of {every} measurements of one pool were replayed ({share:.0f} %).\n"
    yield HEAD.format("engine")
    for key, found in scores.grouped(plain.results, "engine").items():
        yield line(key[0], replayed(plain, key[0]), found)
    for _, found in scores.grouped(waited.results, "engine").items():
        yield line("sglang with the scripts' `scheduler_recv_interval`", replayed(waited, "sglang"), found)
    yield line("sglang, Qwen3-32B on H100", *of_group(plain, ("sglang", "Qwen3-32B", "h100_sxm", "bf16")))
    yield ""


def replayed(found: Validation, engine: str) -> str:
    done = sum(r.replay.measurement.engine == engine for r in found.results)
    return f"{done} of {done + sum(r.measurement.engine == engine for r in found.refused)}"


def of_group(found: Validation, group: Key) -> tuple[str, dict[str, Summary | None]]:
    summaries = scores.grouped(found.results, "model, GPU, precision")[group]
    first = summaries["ttft"]
    return str(first.count if first else 0), summaries


def calibrated(rows: Sequence[Measurement], plain: Validation, folder: Path) -> Iterable[str]:
    """The score on held-out configurations with the committed profiles."""
    yield "### Calibrated, on configurations that were held out\n"
    profiles = sorted(folder.glob("fold-*.json"), key=lambda path: int(path.stem.partition("-")[2]))
    if not profiles:
        yield "No profiles of folds are committed yet: they go to `examples/calibration/folds`, as `fold-0.json` etc."
        yield ""
        return
    replays: list[Replay] = []
    for row in rows:
        profile = profiles[fold_of(row.configuration, len(profiles))]
        try:
            replays.append(replay_of(row, Rules(engine={"calibration": str(profile)})))
        except Refusal:
            continue
    results = [r for r in run_all(replays, on_result=told("calibrated")) if not r.refusal]
    yield f"{len(profiles)} folds by configuration; every row is replayed with the profile that has not seen it."
    yield "Without queues: at most 128 clients, no request that waited for KV, and not Llama-8B.\n"
    yield HEAD.format("engine")
    for title, chosen in (("whole table", lambda _: True), ("without queues", in_subset)):
        for name, found in (("before", plain.results), ("held out", results)):
            some = [r for r in found if chosen(r.replay.measurement)]
            for key, summaries in scores.grouped(some, "engine").items():
                count = summaries["ttft"].count if summaries["ttft"] else 0
                yield line(f"{key[0]}, {title}, {name}", str(count), summaries)
    yield ""


def fold_of(configuration: str, folds: int) -> int:
    """As dynamo.calibrate splits configurations."""
    return int(hashlib.sha256(configuration.encode()).hexdigest(), 16) % folds


def in_subset(row: Measurement) -> bool:
    """What a calibration can say something about.

    At most 128 clients, requests that did not wait for KV (their TTFT is less than a third of the time that the answer
    took), and not Llama-8B, whose measurements hit a prefix cache.
    """
    if (row.concurrency or 0) > 128 or "Llama-3.1-8B" in row.model:
        return False
    answer = (row.tpot.mean or 0) * (row.osl if isinstance(row.osl, int) else 1)
    return row.osl == 1 or (row.ttft.mean or 0) <= answer / 3


def by_group(title: str, grouping: str, results: Sequence[Result]) -> Iterable[str]:
    yield f"### {title}\n"
    yield HEAD.format("group")
    for key, found in scores.grouped(results, grouping).items():
        count = max(s.count for s in found.values() if s is not None)
        yield line(" ".join(key), str(count), found)
    yield ""


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


def short(row: Measurement) -> str:
    """A measurement by its model, GPU and load."""
    load = f", {row.request_rate:g}/s" if row.request_rate else ""
    return f"{row.model.rpartition('/')[2]}, {row.system}, {row.engine} {row.version}{load}"


def others() -> Iterable[str]:
    """Percentiles at request rates. Lengths are not recorded, so only the order of magnitude can agree."""
    found = validate(sources.read([str(MEASURED / "accelmark")]), Rules(), show=told("accelmark"))
    yield "### AccelMark: medians at request rates, lengths of requests not recorded\n"
    yield HEAD.format("group")
    for key, summaries in scores.grouped(found.results, "model, GPU, precision").items():
        count = max(s.count for s in summaries.values() if s is not None)
        yield line(" ".join(key), str(count), summaries)
    yield from refusals(found.refused)
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
