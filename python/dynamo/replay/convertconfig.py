"""``python -m dynamo.replay convert-config``: files of other simulators become runs for ``--config``, or sweeps.

What a file names is converted or refused, each by its path in the file; what changes nothing here is noted.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dynamo._core import objectfile, values, yamltext
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


_ELSEWHERE = {
    "search_space": "a search of AISimulate's SDK, want a file for aisimulate predict or recommend",
    "serving_mode": "an experiment of aiconfigurator cli, want its generator_config.yaml, or dynamo.sweep recommend",
}
"""Keys of other files, at the top or in each of their members, and what is read instead."""


def convert(path: str, overrides: Sequence[str] = ()) -> Converted:
    """Reads a file of AISimulate, AIConfigurator or Vidur. Raises ValueError or FileNotFoundError.

    ``overrides`` are texts like ``engine.mode=aggregated``, which replace values of the file, in order.
    """
    try:
        text = objectfile.text("FILE", path)
        if vidur.recognised(text):
            if overrides:
                raise ValueError("--set: want it left out with a command of Vidur: flags are in the file")
            return Converted(*vidur.convert(text))
        content = objectfile.read("FILE", path)
        for override in overrides:
            _override(content, override)
        _refuse_elsewhere(content)
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


def _override(content: dict[str, Any], text: str) -> None:
    """Replaces a value of a file by what a text like ``a.b=VALUE`` says, VALUE in YAML."""
    path, equals, value = text.partition("=")
    *above, last = path.split(".")
    if not equals or not all((*above, last)):
        raise ValueError(f"--set: got {values.show(text)}, want PATH=VALUE, such as traffic.load.concurrency=8")
    place = content
    for key in above:
        inner = place.get(key)
        if inner is not None and not isinstance(inner, dict):
            raise ValueError(f"--set: {path}: {key} is {values.brief(values.show(inner))} there, want an object")
        place[key] = place = dict(inner or {})
    place[last] = objectfile.parsed("--set", path, value, yamltext.parse)
    values.json_object(f"--set: {path}", {last: place[last]})


def _refuse_elsewhere(content: Mapping[str, Any]) -> None:
    for holder in (content, *content.values()):
        for key, what in _ELSEWHERE.items():
            if isinstance(holder, Mapping) and key in holder:
                raise ValueError(f"{key}: {what}")


def main(argv: Sequence[str]) -> int:
    """Runs ``python -m dynamo.replay convert-config`` with these arguments; returns the exit code."""
    return console.exit_code(lambda: _convert(_parser().parse_args(argv)))


def _convert(options: argparse.Namespace) -> int:
    path = os.path.expanduser(values.text("FILE", options.file))
    made = convert(path, options.set)
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
        description="Convert a file of another simulator. A file for aisimulate predict, a configuration that "
        "AIConfigurator has generated, or a command line of Vidur becomes a run for --config; a file for aisimulate "
        "recommend becomes a specification for python -m dynamo.sweep run. Settings that dynosim lacks are refused "
        "by name.",
    )
    parser.add_argument(
        "file", metavar="FILE", help="the file, YAML or JSON; or a shell script with a command of Vidur"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="replace a value of the file before it is converted, as --set of aisimulate does (repeatable)",
    )
    parser.add_argument("--output-file", metavar="FILE", help="the JSON file to write (default: standard output)")
    return parser
