"""The command line of live workers: argparse, plain values, Go.

Only options that were given are passed on, with the environment variables that matter. What they may be, and which of
them are built, is decided in Go.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from dynamo import _core
from dynamo._core import objectfile, values
from dynamo._core.version import VERSION
from dynamo._shell import calibrations
from dynamo._shell.console import BAD_INPUT, INTERRUPTED, Parser, UsageError, exit_code, fail, say
from dynamo._shell.options import add_options, options_of
from dynamo.mocker.defaults import described
from dynamo.mocker.hub import download

if TYPE_CHECKING:
    from dynamo._shell.plugins import Answers
    from dynamo._shell.routers import Hook

_ENVIRONMENT = (
    *("DYN_", "HF_", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("ETCD_", "NATS_", "POD_", "CONTAINER_NAME", "KUBECONFIG", "HOME"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.mocker`` with these arguments (those of the process if None) and returns its exit code.

    The workers serve until SIGTERM or SIGINT: then frontends cannot find them any more, the requests they have are
    answered, and the code is 0 or 130. A second signal ends them at once. 2: bad input, no worker was visible. 1: they
    could not serve. Signals are only listened to in the main thread.
    """
    return exit_code(lambda: _serve(argv))


def _serve(argv: Sequence[str] | None) -> int:
    try:
        options = _with_files(_with_config(vars(_parser().parse_args(argv))))
        for name, value in options.items():
            if isinstance(value, str):
                values.text(name, value)
    except (UsageError, ValueError, FileNotFoundError) as error:
        return fail(error, BAD_INPUT)
    environment = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)]
    config = {**options, "environment": [text for text in environment if text.isprintable()], "version": VERSION}
    signals = _Signals()
    try:
        hooks = _hooks(options)
    except (ValueError, FileNotFoundError) as error:
        return fail(error, BAD_INPUT)
    rules = {rule: hook.answer for rule, hook in hooks.items()}

    def serve() -> None:
        with _heard(signals):
            _core.serve(config, signals.news, rules or None)

    try:
        try:
            serve()
        except FileNotFoundError as missing:
            if not download(options.get("model_path", ""), missing):
                raise
            serve()
    except RuntimeError as error:
        for hook in hooks.values():
            if isinstance(hook.failure, Exception):
                raise RuntimeError(str(hook.explain(error))) from hook.failure
        raise
    return INTERRUPTED if signals.interrupted else 0


def _with_config(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options with those of the file of ``--config``. Those of the command line have the last word."""
    path = options.pop("config", None)
    if path is None:
        return options
    known = [name for name in options_of("live_options") if name != "config"]
    for key, value in objectfile.read("--config", path).items():
        name = key.replace("-", "_")
        if name not in known:
            raise ValueError(f"--config: {path}: got {values.show(key)}, want the name of an option")
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            value = ",".join(value)
        options.setdefault(name, json.dumps(value) if isinstance(value, (dict, list)) else value)
    return options


def _with_files(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options, with objects in place of ``@FILE`` and of YAML files, which Go does not read."""
    args = options.get("extra_engine_args", "")
    if args.startswith("@"):
        options["extra_engine_args"] = objectfile.expand("--extra-engine-args", args)
    elif objectfile.is_yaml(args):
        options["extra_engine_args"] = objectfile.expand("--extra-engine-args", f"@{args}")
    calibrations.apply(options, options.pop("calibration", None))
    for name in ("reasoning", "router_config", "prefill_engine_args", "decode_engine_args"):
        if name in options:
            options[name] = objectfile.expand(f"--{name.replace('_', '-')}", options[name])
    if options.get("standalone") or options.get("frontend"):
        options.setdefault("tokenizer_python", sys.executable)
    for name in ("models", "inject_errors"):
        if name in options:
            options[name] = objectfile.expand(f"--{name.replace('_', '-')}", options[name], lists=True)
    return options


def _hooks(options: dict[str, Any]) -> dict[str, Answers]:
    """Returns what answers the questions of a server for what is in Python, by the key of the questions."""
    hooks: dict[str, Answers] = {}
    if (router := _routers(options)) is not None:
        hooks["router"] = router
    if not options.get("standalone"):
        return hooks
    if options.get("timing_model"):
        from dynamo._shell import timings

        hooks["timing"] = _found(timings.hook_for(options))
    if options.get("scheduler_policy"):
        from dynamo._shell import schedulers

        hooks["scheduler"] = _found(schedulers.hook_for(options))
    return hooks


def _found(hook: Answers | None) -> Answers:
    assert hook is not None
    return hook


def _routers(options: dict[str, Any]) -> Hook | None:
    """Returns the hook of a server with routers in Python, which are made once to see whether they can be; None without
    any.
    """
    models = json.loads(options["models"]) if options.get("standalone") and options.get("models") else None
    if ":" in options.get("router_mode", ""):
        from dynamo._shell import routers

        routers.refuse_as_mode(options["router_mode"])
    each = [options, *(model for model in models if isinstance(model, dict))] if isinstance(models, list) else [options]
    hook: Hook | None = None
    for given in each:
        text = given.get("router")
        if not isinstance(text, str) or not text or not (options.get("standalone") or options.get("frontend")):
            continue
        from dynamo._shell import routers

        settings = given.get("router_config", options.get("router_config", "{}"))
        settings = json.loads(settings) if isinstance(settings, str) else settings
        if not isinstance(settings, dict):
            raise ValueError(f"router_config: got {values.show(settings)}, want an object")
        for warning in routers.doubts(routers.made(text, settings)):
            say(f"warning: {warning}")
        hook = routers.Served()
    return hook


class _Signals:
    """The signals that asked this process to end."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._told = 0

    @property
    def interrupted(self) -> bool:
        return signal.SIGINT in self.received

    def news(self) -> bool:
        """Reports whether a signal has arrived that no earlier call has counted; each call counts one."""
        if self._told == len(self.received):
            return False
        self._told += 1
        if self._told == 1:
            say("shutting down after the requests in flight; a second signal ends them at once")
        return True

    def handle(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)


@contextmanager
def _heard(signals: _Signals) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A shell starts the background jobs of a script with SIGINT ignored: Ctrl-C is not for them.
    heard = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.handle) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        product="Dynamo Mocker",
        prog="python -m dynamo.mocker",
        usage="%(prog)s --model-path DIR [options]\n       %(prog)s --standalone | --frontend [options]",
        description="Serve simulated LLM workers, which a Dynamo frontend finds and uses like real ones. With "
        "--standalone, run an OpenAI-compatible server with its own engines and router; with --frontend, run that "
        "server in front of live workers that it discovers.",
        argument_default=argparse.SUPPRESS,
    )
    add_options(parser, map(described, options_of("live_options").values()))
    calibrations.add(parser)
    return parser
