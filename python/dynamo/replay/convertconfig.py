"""``python -m dynamo.replay convert-config``: files of other simulators become runs for ``--config``, or sweeps.

What a file names is converted or refused, each by its path in the file; what changes nothing here is noted.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dynamo._core import objectfile, values
from dynamo._shell import console
from dynamo.replay import aiconfigurator, files, vidur
from dynamo.replay.aisimulate import Conversion
from dynamo.replay.recommendation import Search

_SEARCH = "optimization"


class Converted(NamedTuple):
    """A run, or the specification of a sweep."""

    content: Mapping[str, Any]
    notes: Sequence[str]
    sweep: bool = False


def convert(path: str) -> Converted:
    """Reads a file of AISimulate, AIConfigurator or Vidur. Raises ValueError or FileNotFoundError."""
    try:
        text = objectfile.text("FILE", path)
        if vidur.recognised(text):
            return Converted(*vidur.convert(text))
        content = objectfile.read("FILE", path)
        if aiconfigurator.recognised(content):
            return Converted(*aiconfigurator.convert(content))
        if content.get(_SEARCH) is not None:
            search = Search(content)
            return Converted(search.spec, search.notes, sweep=True)
        made = Conversion(content)
        return Converted(made.run, made.notes)
    except TypeError as error:
        raise ValueError(f"FILE: {path}: {error}") from None
    except ValueError as error:
        raise ValueError(f"FILE: {path}: {error}".replace(f"FILE: {path}: FILE: {path}", f"FILE: {path}")) from None


def main(argv: Sequence[str]) -> int:
    """Runs ``python -m dynamo.replay convert-config`` with these arguments; returns the exit code."""
    return console.exit_code(lambda: _convert(_parser().parse_args(argv)))


def _convert(options: argparse.Namespace) -> int:
    path = os.path.expanduser(values.text("FILE", options.file))
    made = convert(path)
    text = json.dumps(made.content, indent=2)
    for note in made.notes:
        console.say(f"note: {note}")
    if options.output_file is None:
        console.print_text(text)
        return 0
    output = os.path.expanduser(values.text("--output-file", options.output_file))
    files.check_writable("--output-file", output)
    files.check_distinct([("--output-file", output), ("FILE", path)])
    files.write_whole(output, text + "\n")
    what = "sweep" if made.sweep else "run"
    console.print_text(f"Saved {what} to: {output}")
    if made.sweep:
        console.print_text(f"Run it with: python -m dynamo.sweep run {output} -o DIR")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="python -m dynamo.replay convert-config",
        description="Convert a file of another simulator: of aisimulate predict, the configuration that "
        "AIConfigurator generates or a command line of Vidur to a run for --config, and of aisimulate recommend to a "
        "specification for python -m dynamo.sweep run. What it has and dynosim has not is refused by name.",
    )
    parser.add_argument(
        "file", metavar="FILE", help="the file, YAML or JSON; or a shell script with a command of Vidur"
    )
    parser.add_argument("--output-file", metavar="FILE", help="where it goes, as JSON (default: standard output)")
    return parser
