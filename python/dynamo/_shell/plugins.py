"""Rules in Python that a run asks: how a text names one, what they are given, and what becomes of what they raise."""

from __future__ import annotations

import array
import importlib
import importlib.metadata
import importlib.util
import operator
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

from dynamo._core import values
from dynamo._shell import tracebacks

Array: TypeAlias = Any
"""A read-only array: of numpy if that is installed, else a memoryview."""


class Kind(NamedTuple):
    """What a text may name."""

    option: str
    group: str
    """The group of entry points by which packages offer some."""
    what: str
    forms: str
    method: str
    """What all of a module have that are meant."""
    more: str = ""
    """What else a text may be."""

    @property
    def want(self) -> str:
        """What messages ask for."""
        return f"want {self.forms} or the name of {self.what} that is installed"


class Answers:
    """Answers questions of a run, and keeps what a rule raises, as it is the run that ends."""

    failed: ClassVar[str]
    """How the run says that the rule has failed."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        """What a rule raised, or what is wrong with what it returned."""
        self.warnings: list[str] = []
        """What is probably a mistake in a rule."""

    def answer(self, question: str) -> str:
        """Returns the answer. What a rule raises is kept, and the run ends with it."""
        raise NotImplementedError

    def explain(self, error: BaseException) -> BaseException:
        """Returns the exception for the caller of a run that has ended with this error."""
        failure = self.failure
        assert failure is not None
        if not isinstance(failure, Exception):
            return failure
        where = str(error).removesuffix(self.failed)
        if isinstance(failure, WrongAnswer):
            kind = ValueError if isinstance(failure, CannotBegin) else BrokenRule
            return kind(f"{where}: {failure}")
        explained = RuntimeError(f"{where}: {tracebacks.placed(failure)}")
        explained.__cause__ = failure
        return explained


class BrokenRule(RuntimeError, ValueError):
    """A run has ended with a wrong answer of a rule. As a RuntimeError it is an exit code of 1, not of bad input."""


class WrongAnswer(Exception):
    """A rule has returned what cannot be carried out."""


class CannotBegin(WrongAnswer):
    """A rule cannot be used, which is found before the run begins."""


def index_of(returned: Any, count: int) -> int | None:
    """Returns what a rule returned as an index below ``count``, None if it is none."""
    if isinstance(returned, bool):
        return None
    try:
        index = operator.index(returned)
    except TypeError:
        return None
    return index if 0 <= index < count else None


def described(option: str, given: object) -> str:
    """Returns what reports call a rule: the text that names it, or the class of an object."""
    if isinstance(given, str):
        return values.text(option, given)
    return f"object of {type(given).__module__}.{type(given).__qualname__}"


def not_made(kind: Kind, text: str, error: Exception) -> str:
    """Returns the message about what a text names and cannot be made: with the place, if that is code of the user."""
    said = tracebacks.placed(error) if tracebacks.place_of(error) else str(error)
    return f"{kind.option}: {text} cannot be made: {said}"


def find(kind: Kind, text: str) -> Any:
    """Returns the class, function or object that a text names. Raises ValueError or FileNotFoundError."""
    place, separator, name = text.rpartition(":")
    if not separator:
        return _installed(kind, text)
    if not place or not name:
        raise ValueError(f"{kind.option}: got {values.show(text)}, {kind.want}")
    try:
        found: Any = _file(place) if place.endswith(".py") else importlib.import_module(place)
    except FileNotFoundError:
        raise FileNotFoundError(f"{kind.option}: {values.show(place)} does not exist") from None
    except Exception as error:
        raise ValueError(f"{kind.option}: cannot import {values.show(place)}: {tracebacks.placed(error)}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{kind.option}: {values.show(place)} has no {part}{_near(kind, found)}")
        found = getattr(found, part)
    return found


def _near(kind: Kind, module: object) -> str:
    names = [
        other
        for other, value in getattr(module, "__dict__", {}).items()
        if hasattr(value, kind.method) and not other.startswith("_")
    ]
    return f", want one of {', '.join(names)}" if names else ""


def _file(path: str) -> object:
    """Returns the module in a file, anew for each run, so that nothing is left over of another one."""
    whole = Path(path).expanduser()
    if not whole.is_file():
        raise FileNotFoundError(path)
    name = f"_dynosim_plugin_{whole.stem}"
    spec = importlib.util.spec_from_file_location(name, whole)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def installed(kind: Kind) -> Iterator[importlib.metadata.EntryPoint]:
    """What packages of this environment offer."""
    yield from importlib.metadata.entry_points(group=kind.group)


def _installed(kind: Kind, name: str) -> Any:
    for entry in installed(kind):
        if entry.name == name:
            try:
                return entry.load()
            except Exception as error:
                raise ValueError(f"{kind.option}: cannot load {name}: {tracebacks.placed(error)}") from error
    names = sorted({entry.name for entry in installed(kind)})
    known = f" ({', '.join(names)})" if names else ""
    raise ValueError(f"{kind.option}: got {values.show(name)}, {kind.want}{known}{kind.more}")


_numpy: Any = None


def _load_numpy() -> Any:
    """Returns numpy, or False without it."""
    global _numpy
    if _numpy is None:
        try:
            import numpy
        except ImportError:
            _numpy = False
        else:
            _numpy = numpy
    return _numpy


def array_of(kind: str, items: list[Any]) -> Array:
    """Returns a read-only array of integers, kind ``"q"``, or of floats, ``"d"``."""
    numpy = _numpy if _numpy is not None else _load_numpy()
    if not numpy:
        return memoryview(array.array(kind, items)).toreadonly()
    made = numpy.array(items, dtype="int64" if kind == "q" else "float64")
    made.setflags(write=False)
    return made
