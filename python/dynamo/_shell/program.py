"""The program ``dynosim``: each of its commands is a module that ``python -m`` runs, too."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

_BAD_INPUT = 2
_INTERRUPTED = 130


class _Command(NamedTuple):
    module: str
    """The module with the function ``main(argv)``."""
    help: str
    before: tuple[str, ...] = ()
    """Arguments that stand before those of the user."""


COMMANDS = {
    "replay": _Command("dynamo.replay.main", "simulate a deployment in virtual time (python -m dynamo.replay)"),
    "sweep": _Command("dynamo.sweep.main", "vary a run and find the best deployment (python -m dynamo.sweep)"),
    "serve": _Command(
        "dynamo.mocker.main",
        "serve an OpenAI-compatible endpoint (python -m dynamo.mocker --standalone)",
        ("--standalone",),
    ),
    "mocker": _Command("dynamo.mocker.main", "serve workers behind a Dynamo frontend (python -m dynamo.mocker)"),
    "validate": _Command("dynamo.validate.main", "compare with measurements (python -m dynamo.validate)"),
    "calibrate": _Command("dynamo.calibrate.main", "fit to measurements (python -m dynamo.calibrate)"),
}


def main() -> NoReturn:
    """Runs the command that is named first on the command line, and ends the process with its exit code."""
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are imported; a command handles it from then on
        sys.exit(_INTERRUPTED)


def _run(arguments: Sequence[str]) -> NoReturn:
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help"):
        print(_help())
        sys.exit(0)
    if name == "--version":
        from dynamo._core.version import VERSION

        print(f"dynosim {VERSION}")
        sys.exit(0)
    if name not in COMMANDS:
        print(f"error: {_unknown(name)}", file=sys.stderr)
        sys.exit(_BAD_INPUT)
    command = COMMANDS[name]
    from dynamo._shell.console import run_process

    function = importlib.import_module(command.module).main
    run_process(lambda: function([*command.before, *arguments[1:]]))


def _help() -> str:
    rows = "\n".join(f"  {name:10} {command.help}" for name, command in COMMANDS.items())
    return (
        "usage: dynosim COMMAND [options]\n\nSimulates LLM inference deployments.\n\n"
        f"{rows}\n\ndynosim COMMAND --help lists the options of a command, dynosim --version says which release it is."
    )


def _unknown(name: str) -> str:
    from dynamo._core import spelling  # not before it is needed

    near = spelling.nearest(name, COMMANDS)
    shown = ascii(name)[1:-1]
    return f"command: got {shown!r}, want {', '.join(COMMANDS)}" + (f"; did you mean {near}?" if near else "")
