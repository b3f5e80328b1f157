"""The command line: argparse, plain values, Go, print.

Only options that were given are passed on. What they may be, and which of them are built, is decided in Go.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamo._core import values
from dynamo._shell import calibrations
from dynamo._shell.console import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    Parser,
    UsageError,
    draws_boxes,
    fail,
    output_width,
    print_text,
    say,
)
from dynamo._shell.options import add_options, run_options
from dynamo.replay import artifacts, files, planned, reportfile, runfile, summary

# What scripts pass to leave a data type to the model.
_ANY_DTYPE = ("", "auto", "none", "null")
_CONVERT = "convert-config"
# The command that lists models instead of replaying a trace.
_MODELS = "models"
# The command that says how much host memory a trace is worth.
_TIERS = "tiers"
_AIC_REQUIRED = ("aic_backend", "aic_system", "aic_model_path")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.replay`` with these arguments (those of the process if None) and returns its exit code.

    0: done. 2: bad input, nothing was run. 1: the run failed after it began, or every request was rejected. 130: it was
    interrupted. Messages go to standard error. It may be called from any thread; an OSError of standard output is left
    to the caller.
    """
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] == _CONVERT:
        from dynamo.replay import convertconfig

        return convertconfig.main(words[1:])
    if words and words[0] == _MODELS:
        from dynamo.replay import models

        return models.main(words[1:])
    if words and words[0] == _TIERS:
        from dynamo.replay.tiers import main as tiers

        return tiers.main(words[1:])
    try:
        typed = vars(_parser().parse_args(argv))
        profile = typed.pop("calibration", None)
        options, sources = _completed(typed)
        calibrations.apply(options, profile)
        _check_step(options)
        report_path = _report_path(options.pop("report_json", None))
        repeated = options.pop("from_report", None)
        config = _config(options) if repeated is None else _repeated(repeated, options)
        written_by = config if repeated is None else {**config, "from_report": repeated}
        _check_outputs(report_path.path, written_by, sources)
        return _run(config, report_path, shlex.join(["python", "-m", "dynamo.replay", *words]))
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except UsageError as error:
        return fail(error, BAD_INPUT)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


def _completed(typed: Mapping[str, Any]) -> runfile.Completed:
    """Returns the options of a command line, with what its files say."""
    try:
        return runfile.complete(typed)
    except (ValueError, FileNotFoundError) as error:
        raise UsageError(error) from None


def _check_step(options: Mapping[str, Any]) -> None:
    """Refuses windows of a series that goes nowhere; Python's functions return it."""
    if "timeseries_step" in options and not options.keys() & {"timeseries", "html"}:
        step = values.show(options["timeseries_step"])
        raise UsageError(f"--timeseries-step: got {step}, want --timeseries FILE or --html FILE with it")


def _run(config: Mapping[str, Any], report_path: reportfile.ReportPath, command: str) -> int:
    try:
        with _progress() as show:
            # Rows are only written to a file.
            result = planned.run({"rows": ("report_jsonl_path" in config or "html" in config), **config}, show)
        if config.get("attribution"):
            from dynamo.replay import exactview, hostsaved

            hostsaved.add(config, result.report)
            exactview.add(config, result.report)
    except RuntimeError as error:  # first, as a wrong answer of a rule in Python is a ValueError, too
        return fail(error, FAILED)
    except (ValueError, FileNotFoundError) as error:
        return fail(error, BAD_INPUT)
    for warning in result.warnings:
        say(f"warning: {warning}")
    # Files come first, in case standard output is closed before the table ends.
    failure = f"--report-jsonl: {result.write_error}" if result.write_error else ""
    if not failure:
        try:
            with files.together() as written:
                written.adopt(result.files)
                intended = reportfile.save_report(result.report, report_path)
                artifacts.write_of(config, result, command)
        except OSError as error:
            failure = f"cannot write {error.filename!r}: {error.strerror}"
    if (saved := result.saved_trace) and not failure:
        say(
            f"workload saved: replay {saved.path!r} with --trace-format {saved.trace_format}"
            f" --trace-block-size {saved.trace_block_size}"
        )
    _present(result.report)
    if failure:
        return fail(failure, FAILED)
    _name_files(result.report, written.place_of(intended))
    if (rejected := result.report["rejected_requests"]) and rejected == result.report["num_requests"]:
        return fail(f"every request was rejected ({rejected} of {rejected})", FAILED)
    return 0


def _progress() -> Any:
    """Returns a progress bar on a terminal, nothing otherwise."""
    if sys.stderr is not None and sys.stderr.isatty():
        from dynamo.replay.progress import ProgressBar

        return ProgressBar()
    return contextlib.nullcontext()


def _present(report: Mapping[str, Any]) -> None:
    """Prints the report."""
    if events := report.get("scaling_events"):
        print_text(summary.format_scaling_events(events))
    if "fault_events" in report:
        from dynamo.replay import faults

        print_text(faults.format_faults(report))
    drawn: dict[str, Any] = {"width": output_width(), "ascii_only": not draws_boxes()}
    print_text(summary.format_report_table(report, **drawn))
    if tenants := report.get("tenants"):
        from dynamo.replay import tenancy

        print_text(tenancy.format_tenants(tenants, report["tenant_jain_index"], **drawn))
    if report.get("attribution"):
        from dynamo.replay import explain

        print_text(explain.format_explanation(report, **drawn))
    if "without_host_memory" in report:
        from dynamo.replay import hostsaved

        print_text(hostsaved.line(report))
    if "with_exact_view" in report:
        from dynamo.replay import exactview

        print_text(exactview.line(report))


def _name_files(report: Mapping[str, Any], path: Path) -> None:
    print_text(f"Saved full report to: {path}")
    if planner := report.get("planner"):
        print_text(f"Planner ticks: {planner['ticks']}")
        if planner["html"]:
            print_text(f"Planner diagnostics report: {planner['html']}")


def _report_path(given: str | None) -> reportfile.ReportPath:
    if given == "":
        raise UsageError('--report-json: got "", want a path')
    try:
        return reportfile.resolve_report_path(given)
    except OSError as error:
        raise UsageError(f"--report-json: cannot write to the current folder: {error.strerror}") from None


def _check_outputs(report_path: Path, config: Mapping[str, Any], sources: Iterable[tuple[str, str]]) -> None:
    try:
        files.check_outputs(config, report_path, sources)
    except ValueError as error:
        raise UsageError(error) from None


def _config(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the run configuration for Go: API names, and only what was given."""
    trace_files = options.pop("trace_files")
    _check_texts({"trace_files": trace_files, **options})
    _gather_aic(options)
    kind = "trace" if trace_files else "synthetic"
    if not trace_files and options.get("trace_format") == "dynamo":
        raise UsageError("--trace-format dynamo needs at least one trace file")
    if trace_files:
        _refuse(options, "synthetic", "cannot be combined with a trace file")
        options["trace_files"] = trace_files
    else:
        _check_synthetic(options)
        _refuse(options, "trace", "needs a trace file")
    return {"kind": kind, **options}


def _repeated(report: str, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration of the run that wrote a report. Only outputs can be chosen anew."""
    from dynamo.replay.repeat import repeated_config

    trace_files = options.pop("trace_files")
    chosen = {*files.outputs(), "attribution", *artifacts.SHAPES}
    others = ["a trace file"] if trace_files else [_flags([name]) for name in options if name not in chosen]
    if others:
        raise UsageError(f"--from-report repeats a run as it was: {', '.join(others)} cannot be combined with it")
    config = repeated_config(report, options)
    _check_texts(config)
    return config


def _gather_aic(options: dict[str, Any]) -> None:
    """Turns the flags that describe the router's predictions into one option, as the Python functions have it."""
    given = {name: options.pop(name) for name in [name for name in options if name.startswith("aic_")]}
    given = {name: value for name, value in given.items() if not (name.endswith("_dtype") and value in _ANY_DTYPE)}
    if not given:
        return
    missing = [name for name in _AIC_REQUIRED if name not in given]
    if missing:
        raise UsageError(
            f"{_flags(given)}: the router needs all of {_flags(_AIC_REQUIRED)}; missing: {_flags(missing)}"
        )
    options["aic_perf_config"] = json.dumps(given)


def _check_texts(options: Mapping[str, Any]) -> None:
    """Refuses what Go could not read: arguments in another encoding than UTF-8."""
    try:
        for name, value in options.items():
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    values.text(name, text)
    except ValueError as error:
        raise UsageError(error) from None


def _check_synthetic(options: Mapping[str, Any]) -> None:
    sizes = [name for name, option in run_options().items() if option.kind == "synthetic" and option.positional]
    missing = [name for name in sizes if name not in options and run_options()[name].instead not in options]
    if len(missing) == len(sizes) and not list(_effective(options, "synthetic")):
        raise UsageError(f"give a trace file, or all of {_flags(sizes)}")
    if missing:
        raise UsageError(f"a synthetic run needs all of {_flags(sizes)}; missing: {_flags(missing)}")


def _refuse(options: dict[str, Any], kind: str, reason: str) -> None:
    """Refuses options of the other kind of workload; drops those whose value changes nothing."""
    for name in _effective(options, kind):
        of_trace = f"trace_{name}"
        hint = f", which takes {_flags([of_trace])}" if kind == "synthetic" and of_trace in run_options() else ""
        raise UsageError(f"{_flags([name])} {reason}{hint}")
    for name, option in run_options().items():
        if option.kind == kind:
            options.pop(name, None)


def _effective(options: Mapping[str, Any], kind: str) -> Iterable[str]:
    """Returns the options of one kind of workload that are given and differ from their default."""
    return (
        name
        for name, option in run_options().items()
        if option.kind == kind and name in options and (option.strict or options[name] != option.default)
    )


def _flags(names: Iterable[str]) -> str:
    return ", ".join("--" + name.replace("_", "-") for name in names)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m dynamo.replay",
        usage="%(prog)s [trace_file] [options]",
        description="Replay a request trace, or a synthetic workload, through simulated LLM inference workers.",
        epilog="Distributions of tokens: uniform(100,4000), normal(mean=2000,std=500), lognormal(mean=2000,cv=0.8), "
        "the last two also with min= and max=, and empirical(FILE) for a file with one number per line. "
        "@FILE stands for the object in a JSON or YAML file. Options override --config. "
        "%(prog)s convert-config FILE converts a file of AISimulate, AIConfigurator or Vidur to a run for --config. "
        "%(prog)s tiers TRACE shows how much host memory helps a trace.",
        argument_default=argparse.SUPPRESS,
    )
    shown = [option for option in run_options().values() if option.help]
    trace_files, others = shown[0], shown[1:]
    parser.add_argument(trace_files.name, nargs="*", default=[], metavar=trace_files.flag, help=trace_files.help)
    add_options(parser, others)
    calibrations.add(parser)
    return parser
