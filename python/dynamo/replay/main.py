"""The command line: argparse, plain values, Go, print.

Only options that were given are passed on. What they may be, and which of them are built, is decided in Go.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamo import _core
from dynamo._core import values
from dynamo.replay import files, reporting, runfile
from dynamo.replay.console import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    Parser,
    UsageError,
    draws_boxes,
    fail,
    output_width,
    print_text,
    progress,
    say,
)

# Options that only make sense with a trace file, or without one. A value of None refuses the option with the other kind
# of workload; any other value is the one that changes nothing and is let through.
_TRACE_OPTIONS = {
    "trace_block_size": None,
    "trace_format": "mooncake",
    "trace_shared_prefix_ratio": 0,
    "trace_num_prefix_groups": 0,
}
_SYNTHETIC_SIZES = ("input_tokens", "output_tokens", "request_count")
# What scripts pass to leave a data type to the model.
_ANY_DTYPE = ("", "auto", "none", "null")
_AIC_REQUIRED = ("aic_backend", "aic_system", "aic_model_path")
_SYNTHETIC_OPTIONS = {
    **dict.fromkeys(_SYNTHETIC_SIZES),
    "arrival_interval_ms": None,
    "arrival_process": "constant",
    "request_rate": None,
    "arrival_cv": None,
    "turns_per_session": 1,
    "shared_prefix_ratio": 0,
    "num_prefix_groups": 0,
    "inter_turn_delay_ms": 0,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.replay`` with these arguments (those of the process if None) and returns its exit code.

    0: done. 2: bad input, nothing was run. 1: the run failed after it began, or every request was rejected. 130: it was
    interrupted. Messages go to standard error. It may be called from any thread; an OSError of standard output is left
    to the caller.
    """
    try:
        options = _given(argv)
        report_path = _report_path(options.pop("report_json", None))
        repeated = options.pop("from_report", None)
        config = _config(options) if repeated is None else _repeated(repeated, options)
        _check_outputs(report_path.path, config if repeated is None else {**config, "from_report": repeated})
        return _run(config, report_path)
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except UsageError as error:
        return fail(error, BAD_INPUT)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


def _given(argv: Sequence[str] | None) -> dict[str, Any]:
    """The options of a command line, with what its files say."""
    try:
        return runfile.complete(vars(_parser().parse_args(argv)))
    except (ValueError, FileNotFoundError) as error:
        raise UsageError(error) from None


def _run(config: Mapping[str, Any], report_path: reporting.ReportPath) -> int:
    try:
        with progress() as show:
            # Nobody sees rows but in a file.
            result = _core.run({"rows": "report_jsonl_path" in config, **config}, show)
    except (ValueError, FileNotFoundError) as error:
        return fail(error, BAD_INPUT)
    except RuntimeError as error:
        return fail(error, FAILED)
    for warning in result.warnings:
        say(f"warning: {warning}")
    if saved := result.saved_trace:
        say(
            f"workload saved: replay {saved.path!r} with --trace-format {saved.trace_format}"
            f" --trace-block-size {saved.trace_block_size}"
        )
    status = _present(result.report, report_path)
    if result.write_error:
        return fail(f"--report-jsonl: {result.write_error}", FAILED)
    if (rejected := result.report["rejected_requests"]) and rejected == result.report["num_requests"]:
        return fail(f"every request was rejected ({rejected} of {rejected})", FAILED)
    return status


def _present(report: Mapping[str, Any], target: reporting.ReportPath) -> int:
    """Saves and prints the report. The file comes first, in case nobody reads the table to its end."""
    path, failure = target.path, None
    try:
        path = reporting.save_report(report, target)
    except OSError as error:
        failure = error
    print_text(reporting.format_report_table(report, width=output_width(), ascii_only=not draws_boxes()))
    if failure is not None:
        return fail(f"cannot write {str(path)!r}: {failure.strerror}", FAILED)
    print_text(f"Saved full report to: {path}")
    return 0


def _report_path(given: str | None) -> reporting.ReportPath:
    if given == "":
        raise UsageError('--report-json: got "", want a path')
    try:
        return reporting.resolve_report_path(given)
    except OSError as error:
        raise UsageError(f"--report-json: cannot write to the current folder: {error.strerror}") from None


def _check_outputs(report_path: Path, config: Mapping[str, Any]) -> None:
    try:
        files.check_outputs(config, report_path)
    except ValueError as error:
        raise UsageError(error) from None


def _config(options: dict[str, Any]) -> dict[str, Any]:
    """The run configuration for Go: API names, and only what was given."""
    trace_files = options.pop("trace_files")
    _check_texts({"trace_files": trace_files, **options})
    _gather_aic(options)
    kind = "trace" if trace_files else "synthetic"
    _check_trace_files(trace_files, options.get("trace_format", "mooncake"))
    if trace_files:
        _refuse(options, _SYNTHETIC_OPTIONS, "cannot be combined with a trace file")
        options["trace_files"] = trace_files
    else:
        _check_synthetic(options)
        _refuse(options, _TRACE_OPTIONS, "needs a trace file")
    return {"kind": kind, **options}


def _repeated(report: str, options: dict[str, Any]) -> dict[str, Any]:
    """The configuration of the run that wrote a report. Only outputs can be chosen anew."""
    from dynamo.replay.repeat import repeated_config

    trace_files = options.pop("trace_files")
    others = ["a trace file"] if trace_files else [_flags([name]) for name in options if name not in files.OUTPUTS]
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


def _check_trace_files(trace_files: Sequence[str], trace_format: str) -> None:
    if trace_format == "dynamo":
        if not trace_files:
            raise UsageError("--trace-format dynamo needs at least one trace file")
    elif len(trace_files) > 1:
        raise UsageError(f"--trace-format {trace_format} requires exactly one trace file, got {len(trace_files)}")


def _check_synthetic(options: Mapping[str, Any]) -> None:
    missing = [name for name in _SYNTHETIC_SIZES if name not in options]
    if len(missing) == len(_SYNTHETIC_SIZES) and not list(_effective(options, _SYNTHETIC_OPTIONS)):
        raise UsageError(f"give a trace file, or all of {_flags(_SYNTHETIC_SIZES)}")
    if missing:
        raise UsageError(f"a synthetic run needs all of {_flags(_SYNTHETIC_SIZES)}; missing: {_flags(missing)}")


def _refuse(options: dict[str, Any], foreign: Mapping[str, Any], reason: str) -> None:
    """Refuses options of the other kind of workload; drops those whose value changes nothing."""
    for name in _effective(options, foreign):
        raise UsageError(f"{_flags([name])} {reason}")
    for name in foreign:
        options.pop(name, None)


def _effective(options: Mapping[str, Any], among: Mapping[str, Any]) -> Iterable[str]:
    return (name for name, neutral in among.items() if name in options and options[name] != neutral)


def _flags(names: Iterable[str]) -> str:
    return ", ".join("--" + name.replace("_", "-") for name in names)


Option = tuple[str, Callable[[str], Any], str]

_WORKLOAD: Sequence[Option] = (
    ("--trace-format", str, "format of the trace (default: mooncake)"),
    ("--trace-block-size", int, "tokens that one hash_ids entry of the trace stands for (default: 512)"),
    ("--trace-shared-prefix-ratio", float, "fraction of each trace prompt replaced by a shared prefix (default: 0)"),
    ("--trace-num-prefix-groups", int, "different shared prefixes among trace prompts (default: 0, off)"),
    ("--input-tokens", str, "synthetic: prompt tokens of each request: a number, or a distribution, see below"),
    ("--output-tokens", str, "synthetic: tokens that each request asks for, likewise"),
    ("--request-count", int, "synthetic: requests, or sessions if they have several turns"),
    ("--arrival-interval-ms", float, "synthetic: time between arrivals (default: 1)"),
    ("--arrival-process", str, "synthetic: constant (default), poisson, gamma or weibull gaps between arrivals"),
    ("--request-rate", float, "synthetic: mean arrivals per second, instead of --arrival-interval-ms"),
    ("--arrival-cv", float, "synthetic: standard deviation of gamma or weibull gaps, divided by their mean"),
    ("--turns-per-session", int, "synthetic: turns that follow each other in one session (default: 1)"),
    ("--shared-prefix-ratio", float, "synthetic: fraction of prompt blocks shared in a prefix group (default: 0)"),
    ("--num-prefix-groups", int, "synthetic: different shared prefixes (default: 0, off)"),
    ("--inter-turn-delay-ms", float, "synthetic: pause between a turn's end and the next (default: 0)"),
)
_DEPLOYMENT: Sequence[Option] = (
    ("--num-workers", int, "simulated workers (default: 1)"),
    ("--num-prefill-workers", int, "prefill workers of a disaggregated deployment (default: 1)"),
    ("--num-decode-workers", int, "decode workers of a disaggregated deployment (default: 1)"),
    ("--extra-engine-args", str, "engine arguments, a JSON object or @FILE"),
    ("--prefill-engine-args", str, "engine arguments of prefill workers, likewise"),
    ("--decode-engine-args", str, "engine arguments of decode workers, likewise"),
    ("--router-mode", str, "round_robin (default) or kv_router; to be given with prefill and decode workers"),
    ("--router-config", str, "router settings, a JSON object or @FILE"),
    ("--router-log", str, "write every decision of the router to this JSONL file"),
    ("--router-decisions", str, "JSONL file with decisions to repeat: trace_row, decode_worker_idx"),
    ("--router-decisions-mode", str, "check (default): only cheapest workers; or force"),
    ("--router-policy-config", str, "not built yet: file with router policy settings"),
    ("--model-name", str, "name of the served model; no effect without --router-policy-config"),
    ("--planner-config", str, "not built yet: planner settings, a JSON object, @FILE or a path"),
    ("--benchmark-granularity", int, "not built yet: steps per axis of the planner's benchmark (default: 8)"),
)
_RUN: Sequence[Option] = (
    ("--replay-mode", str, "offline (default, virtual time) or online"),
    ("--replay-concurrency", int, "ignore arrival times and keep this many requests in flight"),
    ("--arrival-speedup-ratio", float, "divide the gaps between arrivals by this (default: 1)"),
    ("--seed", int, "decides what is drawn: ties between workers, lengths, arrivals, prefixes (default: 0)"),
    ("--max-sim-time-seconds", float, "stop at this simulated time"),
    ("--sla-ttft-ms", float, "goodput: bound on the time to the first token"),
    ("--sla-itl-ms", float, "goodput: bound on the mean gap between tokens"),
    ("--sla-e2e-ms", float, "goodput: bound on the whole request"),
    ("--from-report", str, "repeat the run that wrote this JSON report; only outputs can be chosen anew"),
)
_AIC: Sequence[Option] = (
    ("--aic-backend", str, "engine whose prefill time is predicted: vllm, sglang, trtllm"),
    ("--aic-system", str, "GPU system, such as h200_sxm"),
    ("--aic-backend-version", str, "engine version"),
    ("--aic-tp-size", int, "tensor parallelism (default: 1)"),
    ("--aic-model-path", str, "model that the AIC SDK knows, or folder with its config.json"),
    ("--aic-moe-tp-size", int, "tensor parallelism of experts"),
    ("--aic-moe-ep-size", int, "expert parallelism"),
    ("--aic-attention-dp-size", int, "data parallelism of attention (default: 1)"),
    ("--aic-nextn", int, "draft tokens of speculative decoding"),
    ("--aic-nextn-accept-rates", str, "their acceptance rates, separated by commas"),
    ("--aic-gemm-dtype", str, "data type of matrix products"),
    ("--aic-moe-dtype", str, "data type of experts"),
    ("--aic-fmha-dtype", str, "data type of attention"),
    ("--aic-kv-cache-dtype", str, "data type of the KV cache"),
    ("--aic-comm-dtype", str, "data type of communication"),
)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m dynamo.replay",
        usage="%(prog)s [trace_file] [options]",
        description="Replay a request trace, or a synthetic workload, through simulated LLM inference workers.",
        epilog="Distributions of tokens: uniform(100,4000), normal(mean=2000,std=500), lognormal(mean=2000,cv=0.8), "
        "the last two also with min= and max=, and empirical(FILE) for a file with one number per line. "
        "@FILE stands for the object in a JSON or YAML file. What is given here wins over --config.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "trace_files",
        nargs="*",
        default=[],
        metavar="trace_file",
        help="Mooncake-style JSONL, plain or compressed (.gz, .zst); - reads standard input",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="JSON or YAML file with the run: parameters of the Python functions, and trace"
    )
    for title, options in (
        ("workload", _WORKLOAD),
        ("deployment", _DEPLOYMENT),
        ("run", _RUN),
        ("prefill load model of the KV router", _AIC),
    ):
        group = parser.add_argument_group(title)
        for flag, kind, text in options:
            group.add_argument(flag, type=kind, help=text, metavar=_METAVARS[kind])
    output = parser.add_argument_group("output")
    output.add_argument("--report-json", metavar="PATH", help="report file, or a folder for it (default: here)")
    output.add_argument(
        "--report-jsonl", dest="report_jsonl_path", metavar="PATH", help="also write one JSON object per request"
    )
    output.add_argument("--save-trace", metavar="PATH", help="also write the workload as a Mooncake trace")
    return parser


_METAVARS: Mapping[Callable[[str], Any], str] = {int: "N", float: "X", str: "TEXT"}
