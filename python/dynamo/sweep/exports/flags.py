"""How an engine argument is written on a command line, and read back from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Found = Mapping[str, str | None]
"""Flags of a command line; None is a flag without a value."""


class Flag(Protocol):
    """A way to say one value."""

    def write(self, value: Any) -> list[str]:
        """The words that say a value. Raises ValueError, which says what it wants, if there are none."""

    def read(self, found: Found) -> Any:
        """The value that a command line says, None if it says nothing."""

    def shown(self) -> str:
        """The flag as tables name it."""


class Number(NamedTuple):
    """A flag with a number."""

    flag: str
    kind: type = int
    choices: tuple[int, ...] = ()
    implied: Any = None
    """What the engine does without the flag, which is then left out: releases that lack it do the same."""

    def write(self, value: Any) -> list[str]:
        if value is None:
            raise ValueError("a number: without a limit there is nothing to write")
        if self.choices and value not in self.choices:
            raise ValueError(f"one of {', '.join(map(str, self.choices))}: {self.flag} takes no other")
        return [] if value == self.implied else [self.flag, json.dumps(self.kind(value))]

    def read(self, found: Found) -> Any:
        text = found.get(self.flag)
        return self.implied if text is None else self.kind(text)

    def shown(self) -> str:
        return f"`{self.flag}`{'' if self.implied is None else f' unless {self.implied}'}"


class Word(NamedTuple):
    """A flag with a word, some of which are called otherwise here."""

    flag: str
    words: Mapping[str, str] | None = None

    def write(self, value: Any) -> list[str]:
        if self.words is None:
            return [self.flag, str(value)]
        if value not in self.words:
            raise ValueError(f"{' or '.join(self.words)}: {self.flag} knows no other")
        return [self.flag, self.words[value]]

    def read(self, found: Found) -> Any:
        text = found.get(self.flag)
        if text is None or self.words is None:
            return text
        return next((ours for ours, theirs in self.words.items() if theirs == text), None)

    def shown(self) -> str:
        return f"`{self.flag}`"


class Switch(NamedTuple):
    """A flag that says true, and its opposite that says false."""

    flag: str
    implied: bool | None = None
    """What the engine does without either."""

    @property
    def opposite(self) -> str:
        return f"--no-{self.flag.removeprefix('--')}"

    def write(self, value: Any) -> list[str]:
        return [] if value == self.implied else [self.flag if value else self.opposite]

    def read(self, found: Found) -> Any:
        return True if self.flag in found else False if self.opposite in found else self.implied

    def shown(self) -> str:
        return f"`{self.opposite}`" if self.implied else f"`{self.flag}`, `{self.opposite}`"


class Present(NamedTuple):
    """A flag that is there for one value, and left out for the other."""

    flag: str
    when: bool = True

    def write(self, value: Any) -> list[str]:
        return [self.flag] if bool(value) == self.when else []

    def read(self, found: Found) -> Any:
        return self.when if self.flag in found else not self.when

    def shown(self) -> str:
        return f"`{self.flag}`{'' if self.when else ' if false'}"


def parse(words: Sequence[str]) -> dict[str, str | None]:
    """The flags of a command line with their values."""
    found: dict[str, str | None] = {}
    flag = None
    for word in words:
        if word.startswith("--"):
            flag = word
            found[flag] = None
        elif flag is not None:
            found[flag], flag = word, None
    return found
