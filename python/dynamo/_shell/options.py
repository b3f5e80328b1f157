"""Options of a command line, from a table that Go generates: ``run_options`` or ``live_options``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from dynamo._shell.tables import table

ALIASES: Mapping[str, Sequence[str]] = {"--extra-engine-args": ("--engine",), "--trace-format": ("--source-format",)}
"""Words of other commands for the same thing; docs/reference/words.md shows them."""

_PARSERS: Mapping[str, Callable[[str], int | float]] = {"uint": int, "float": float}


class Option(NamedTuple):
    """One row of the table. ``help`` is empty if the command line has no such option."""

    name: str
    type: str
    default: Any
    help: str = ""
    flag: str = ""
    group: str = ""
    metavar: str = ""
    kind: str = ""
    """The only kind of run that it is for, ``trace`` or ``synthetic``; empty for both."""
    takes: str = ""
    """What Python accepts for it, if that does not follow from the type."""
    parameter: bool = False
    """Whether the Python functions have it."""
    positional: bool = False
    instead: str = ""
    """An option that may be given instead of this one."""
    strict: bool = False
    """Whether the other kind of run refuses even its default on the command line."""
    reads: bool = False
    writes: bool = False
    stand_in: str = ""
    """The default of an option that has none of its own, in words: it is decided when live workers start."""
    off: bool = False
    """Whether a switch also has a form that turns it off."""
    want: str = ""
    """Which values it takes, in words."""


@cache
def options_of(name: str) -> Mapping[str, Option]:
    """Returns the options in a table, by name and in its order."""
    rows = table(name)["fields"]
    return {row["name"]: Option(**{key: row[key] for key in Option._fields if key in row}) for row in rows}


def run_options(*, takes: Iterable[str] = ()) -> Mapping[str, Option]:
    """Returns the options of a run; with ``takes``, those that accept one of these forms of values."""
    wanted = frozenset(takes)
    return {name: option for name, option in options_of("run_options").items() if not wanted or option.takes in wanted}


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Adds options to a parser, in the groups that they name."""
    groups: dict[str, argparse._ArgumentGroup | argparse.ArgumentParser] = {"": parser}
    for option in options:
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        groups[option.group].add_argument(*_flags(option), dest=option.name, help=option.help, **_form(option))


def _flags(option: Option) -> tuple[str, ...]:
    """Returns the spellings of an option: Dynamo 1.6 has ais for aic, and other commands other words for the same
    thing.
    """
    newer = option.flag.replace("--aic-", "--ais-")
    others = [newer] if newer != option.flag else []
    return (option.flag, *others, *ALIASES.get(option.flag, ()))


def _form(option: Option) -> dict[str, Any]:
    """Returns the type by which argparse reads the value of an option."""
    if option.type == "bool":
        return {"action": argparse.BooleanOptionalAction if option.off else "store_true"}
    parse = float if option.metavar == "X" else _PARSERS.get(option.type)
    want = option.want if option.type in _PARSERS else "a number"
    return {"type": _number(parse, want) if parse else str, "metavar": option.metavar}


def _number(parse: Callable[[str], int | float], want: str) -> Callable[[str], int | float]:
    """Returns what reads a number and says, if it is none, which numbers are wanted."""

    def read(text: str) -> int | float:
        try:
            return parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"got {json.dumps(text)}, want {want}") from None

    return read
