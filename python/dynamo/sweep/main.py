"""The command line of sweeps."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dynamo._core import values
from dynamo._shell import console
from dynamo.sweep.exports.scaling import PROMETHEUS
from dynamo.sweep.spec import EXECUTORS

_NO_RESULT = ("rejected", "failed", "timeout")
_INFEASIBLE = 3
_TRACE_OPTIONS = ("trace_format", "trace_block_size")
_CALIBRATION = "calibration profile from dynamo.calibrate for the engines of all runs; auto: the one shipped"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.sweep`` with these arguments (those of the process if None) and returns its exit code.

    0: done. 2: bad input, nothing was run. 1: results could not be kept, or no point has any. 3: no point keeps the
    service level. 130: it was interrupted.
    """
    return console.exit_code(lambda: _command(_parser().parse_args(argv)))


def _command(options: argparse.Namespace) -> int:
    try:
        done: int = options.command(options)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.filename is None:  # standard output
            raise
        return console.fail(f"cannot write {str(error.filename)!r}: {error.strerror}", console.FAILED)
    return done


def _run(options: argparse.Namespace) -> int:
    from dynamo.sweep import sweep

    spec, folder = values.text("SPEC", options.spec), values.text("-o", options.output)
    with _interruptible(folder), _display() as show:
        found = sweep.run(
            spec,
            folder,
            store=options.store,
            calibration=options.calibration,
            on_progress=show,
            **_execution(options),
        )
    return _present(found)


def _resume(options: argparse.Namespace) -> int:
    from dynamo.sweep import sweep

    with _interruptible(options.directory), _display() as show:
        found = sweep.resume(options.directory, retry=options.retry, on_progress=show, **_execution(options))
    return _present(found)


def _execution(options: argparse.Namespace) -> dict[str, Any]:
    return {"executor": options.executor, "jobs": options.jobs, "address": options.address}


def _display() -> Any:
    from dynamo.sweep.progress import Display

    return Display(sys.stderr is not None and sys.stderr.isatty())


@contextmanager
def _interruptible(folder: str) -> Iterator[None]:
    """Says how to go on with a sweep that Ctrl-C has interrupted, if it had begun."""
    try:
        yield
    except KeyboardInterrupt:
        from dynamo.sweep.folder import POINTS_FILE

        if Path(folder, POINTS_FILE).exists():
            console.say(f"go on with: python -m dynamo.sweep resume {folder}")
        raise


def _present(found: Any) -> int:
    """Prints the report of a sweep that is done, which has failed if no point has a result or keeps the SLA."""
    console.print_text(str(found).rstrip())
    console.print_text(
        f"Simulated {found.simulated:,} runs {found.place}\nSaved report to: {found.directory}, see report.html"
    )
    if found.points and all(point["status"] in _NO_RESULT for point in found.points):
        return console.fail(f"no point has a result; the first: {found.points[0]['reason']}", console.FAILED)
    statuses = {point["status"] for point in found.points}
    if "infeasible" in statuses and not statuses & {"ok", "open"}:
        from dynamo.sweep import wording

        return console.fail(wording.nearest(found.content), _INFEASIBLE)
    return 0


def _recommend(options: argparse.Namespace) -> int:
    from dynamo.sweep.advice import api

    run = {name: getattr(options, name) for name in _TRACE_OPTIONS if getattr(options, name) is not None}
    with _display() as show:
        found = api.recommend(
            options.trace if len(options.trace) > 1 else options.trace[0],
            options.sla,
            gpus=options.gpus,
            model=options.model,
            system=options.system,
            engine=options.engine,
            objective=options.objective,
            directory=None if options.output is None else values.text("-o", options.output),
            run=run,
            engine_args=options.engine_args,
            calibration=options.calibration,
            gpus_per_node=options.gpus_per_node,
            gpu_hour_price=options.gpu_hour_price,
            seeds=options.seeds,
            host_gb_per_gpu=options.host_gb_per_gpu,
            accept_rates=options.accept_rates,
            kv_cache_dtype=options.kv_cache_dtype,
            exhaustive=options.exhaustive,
            on_progress=show,
            **_execution(options),
        )
    if options.json:
        console.print_text(json.dumps(found.content))
    else:
        console.print_text(str(found).rstrip())
        if options.output is not None:
            console.print_text(f"Saved report to: {options.output}, see report.html")
            if found.content["point"] is not None and not found.content["not_exported"]:
                model = "" if options.model is not None else " --model MODEL"
                start = f"{options.output} {found.content['point']} -o NEW{model}"
                console.print_text(f"Files that start it: python -m dynamo.sweep export {start}")
    if found.content["winner"] is None:
        return console.fail(f"no deployment of at most {options.gpus} GPUs keeps the service level", _INFEASIBLE)
    return 0


def _status(options: argparse.Namespace) -> int:
    from dynamo.sweep.folder import Folder

    folder = Folder.existing(options.directory)
    try:
        counts = folder.counts()
    finally:
        folder.close()
    done = sum(counts.values()) - counts.get("open", 0)
    each = ", ".join(f"{count} {status}" for status, count in counts.items())
    console.print_text(f"{done} of {sum(counts.values())} points are finished: {each or 'none'}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from dynamo.sweep import figures, report, runpages, sweep
    from dynamo.sweep.page import measured

    found = sweep.load(options.directory)
    overlay = [] if options.measured is None else measured.read(options.measured, found.content, figures.names())
    if options.json:
        console.print_text(json.dumps(found.content))
        return 0
    folder = Path(options.directory)
    for point in [] if options.runs is None else runpages.chosen(found.content, values.text("--runs", options.runs)):
        runpages.write(point, folder / report.RUN_PAGES / f"{point['id']}.html")
    written = report.write(found.content, folder, overlay)
    console.print_text(str(found).rstrip())
    console.print_text(f"Wrote: {', '.join(str(path) for path in written)}")
    return 0


def _diff(options: argparse.Namespace) -> int:
    from dynamo.sweep import difference, sweep

    found = difference.compare(sweep.load(options.before).content, sweep.load(options.after).content)
    console.print_text(json.dumps(found) if options.json else difference.text(found).rstrip())
    return 0


def _export(options: argparse.Namespace) -> int:
    from dynamo.sweep.exports.export import export

    made = export(
        options.directory,
        options.point,
        values.text("-o", options.output),
        model=options.model,
        name=options.name,
        prometheus=options.prometheus,
    )
    for warning in made.warnings:
        console.say(f"note: {warning}")
    for file, reason in made.left_out.items():
        console.say(f"left out: {file}: {reason}")
    console.print_text(f"Wrote: {', '.join(str(made.directory / file) for file in made.files)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="python -m dynamo.sweep",
        description="Find the best deployment for a workload: vary a run, keep every result, compare.",
        epilog="docs/sweeps.md describes specifications; examples/sweeps has some.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = _add(commands, "run", _run, "run a specification, or its unfinished points")
    run.add_argument("spec", metavar="SPEC", help="the specification, YAML or JSON")
    run.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for points, results and report")
    run.add_argument("--store", metavar="FILE", help="store results of runs in this file, which sweeps may share")
    resume = _add(commands, "resume", _resume, "go on with a sweep that was interrupted")
    resume.add_argument("directory", metavar="DIR", help="the folder of the sweep")
    resume.add_argument("--retry", action="store_true", help="also retry points that failed or timed out")
    recommend = _add_recommend(commands)
    for command in (run, recommend):
        command.add_argument("--calibration", metavar="FILE|auto", help=_CALIBRATION)
    for command in (run, resume, recommend):
        command.add_argument("--executor", choices=EXECUTORS, help="where runs execute (default: threads)")
        command.add_argument(
            "-j", "--jobs", type=int, metavar="N", help="number of parallel runs (default: one per core)"
        )
        command.add_argument("--address", metavar="ADDRESS", help="address of the Ray cluster (default: auto)")
    status = _add(commands, "status", _status, "count the points of a sweep by how they ended")
    status.add_argument("directory", metavar="DIR", help="the folder of the sweep")
    report = _add(commands, "report", _report, "write the report of what is finished, and print it")
    report.add_argument("directory", metavar="DIR", help="the folder of the sweep")
    report.add_argument("--json", action="store_true", help="print the content of the report as JSON instead")
    report.add_argument("--measured", metavar="FILE", help="CSV file of measurements to show on the page report.html")
    report.add_argument("--runs", metavar="front|IDS", help="also write pages of the runs of these points")
    diff = _add(commands, "diff", _diff, "compare the results of two sweeps")
    diff.add_argument("before", metavar="DIR1", help="the folder of a sweep")
    diff.add_argument("after", metavar="DIR2", help="the folder of another one")
    diff.add_argument("--json", action="store_true", help="print the differences as JSON")
    export = _add(commands, "export", _export, "write files that start the deployment of a point")
    export.add_argument("directory", metavar="DIR", help="the folder of the sweep")
    export.add_argument("point", metavar="POINT", help="the id of a point, or best: by the first objective")
    export.add_argument("-o", "--output", required=True, metavar="FOLDER", help="the folder to write, a new one")
    export.add_argument("--model", metavar="MODEL", help="the model to serve (default: the one that the point names)")
    export.add_argument("--name", metavar="NAME", help="the name of the deployment (default: point-ID)")
    export.add_argument("--prometheus", default=PROMETHEUS, metavar="URL", help="where KEDA finds Prometheus")
    return parser


def _add_recommend(commands: Any) -> argparse.ArgumentParser:
    parser = _add(commands, "recommend", _recommend, "say what to start for a trace, a service level and so many GPUs")
    parser.add_argument("trace", nargs="+", metavar="TRACE", help="the traffic, a trace file")
    parser.add_argument("--sla", required=True, metavar="BOUNDS", help='such as "p90_ttft_ms<=2000, p90_itl_ms<=50"')
    parser.add_argument("--gpus", required=True, type=int, metavar="N", help="how many GPUs there are, at most")
    parser.add_argument("--model", metavar="M", help="the model, as the AIC SDK knows it")
    parser.add_argument("--system", metavar="GPU", help="the GPU, such as h100_sxm")
    parser.add_argument("--engine", default="both", metavar="E", help="vllm, sglang or both (default: both)")
    parser.add_argument(
        "--objective", default="fewest_gpus", metavar="O", help="fewest_gpus (default), cost or goodput"
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="folder for runs and the page; it can be used again")
    parser.add_argument("--trace-format", metavar="F", help="format of the trace (default: mooncake)")
    parser.add_argument("--trace-block-size", type=int, metavar="N", help="tokens of a hash of the trace")
    parser.add_argument("--engine-args", metavar="JSON", help="engine arguments of all deployments, or @FILE")
    parser.add_argument("--gpus-per-node", type=int, metavar="N", help="GPUs with a fast link (default: of the system)")
    parser.add_argument("--gpu-hour-price", type=float, metavar="PRICE", help="price of a GPU for an hour")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="traces drawn for intervals (default: 5)")
    parser.add_argument(
        "--host-gb-per-gpu",
        type=float,
        metavar="GB",
        help="host memory for KV beside each GPU, which is tried as well; engines need some for themselves on top",
    )
    parser.add_argument(
        "--accept-rates", metavar="RATES", help='of draft tokens, such as "0.85,0.6": speculation is tried as well'
    )
    parser.add_argument(
        "--kv-cache-dtype", metavar="T", help="auto (default: as engines choose), fp8, or both: each is tried"
    )
    parser.add_argument("--exhaustive", action="store_true", help="run every deployment to the end")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    return parser


def _add(commands: Any, name: str, command: Any, description: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=description, description=f"{description}.".capitalize()
    )
    parser.set_defaults(command=command)
    return parser
