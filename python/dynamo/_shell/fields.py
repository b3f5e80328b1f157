"""Objects whose fields come from the tables that Go generates (dynamo/_core/*.json).

A table carries names, types, ranges and defaults, so that arguments can be checked where they are written down and
without loading the Go extension, which a process that is going to fork must not do. Go checks rules between fields.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, TypeVar, get_type_hints

from dynamo._core import spelling, values
from dynamo._shell.tables import table

if TYPE_CHECKING:
    from inspect import Signature

Self = TypeVar("Self", bound="FieldSet")


class Field(NamedTuple):
    """One row of the table."""

    name: str
    type: str
    default: Any
    nullable: bool
    min: float | None
    max: float | None
    choices: list[str] | None
    arg_default: Any
    want: str
    """The rule in words, for messages."""
    required: bool = False
    any_case: bool = False
    """Whether JSON may spell a choice in capitals; Python may with any_case_in_python only."""
    any_case_in_python: bool = False
    max_exclusive: bool = False
    keyword_only: bool = False
    json_only: bool = False
    """Whether the class does not have it: only JSON text may."""
    settable: bool = False
    path: bool = False
    """Whether Python also takes a path object."""
    schedulers: Sequence[str] = ()
    """Schedulers with which an engine argument has an effect; none are all."""

    def obeyed_by(self, value: Any) -> bool:
        """Reports whether a value of the right type is in range."""
        if value is None or self.type in ("bool", "string", "object", "objects", "any"):
            return True
        if self.choices is not None:
            return value in self.choices
        return (
            values.is_finite(value)
            and (self.min is None or value >= self.min)
            and (self.max is None or (value < self.max if self.max_exclusive else value <= self.max))
        )


Fields = Mapping[str, Field]


@cache
def fields_of(nested: str | None, of: str = "engine_args") -> Fields:
    """Returns the fields of the whole object (None) or of one of its nested objects."""
    rows = table(of)["fields"] if nested is None else table(of)["nested"][nested]
    return {row["name"]: Field(**{key: row[key] for key in Field._fields if key in row}) for row in rows}


class FieldSet:
    """Checked values by field name. Only what was given is kept; reading anything else gives its default."""

    __slots__ = ("_given",)
    __hash__ = None  # type: ignore[assignment]  # mutable

    _table: ClassVar[str] = "engine_args"
    _section: ClassVar[str | None] = None

    _given: dict[str, Any]

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._keep(check(self._fields(), given))

    @classmethod
    def _fields(cls) -> Fields:
        return fields_of(cls._section, cls._table)

    @classmethod
    def _by_name(cls, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a constructor that takes fields by position, too, in the order of the table."""
        order = [field.name for field in cls._fields().values() if not field.keyword_only and not field.json_only]
        if len(positional) > len(order):
            raise TypeError(f"got {len(positional)} positional arguments, want at most {len(order)}")
        first = dict(zip(order, positional, strict=False))
        for name in named:
            if name in first:
                raise TypeError(f"{name}: got two values, by position and by name")
        return {**first, **named}

    def _keep(self, given: dict[str, Any]) -> None:
        object.__setattr__(self, "_given", given)

    @classmethod
    def _of(cls: type[Self], given: dict[str, Any]) -> Self:
        """Returns an object with values that have been checked already."""
        made = cls.__new__(cls)
        made._keep(given)
        return made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._fields():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._read(self._fields()[name])

    def _read(self, field: Field) -> Any:
        value = self._given.get(field.name, field.default)
        # Where the constructor itself defaults to None, None means the default.
        return field.default if value is None and field.arg_default is None else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._fields() or not self._fields()[name].settable:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be set")
        self._keep({**self._given, **check(self._fields(), {name: value})})

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self._fields()]

    def __eq__(self, other: object) -> bool:
        """Reports whether both have the same values, given or by default."""
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, FieldSet)
        return self._meaning() == other._meaning()

    def _meaning(self) -> dict[str, Any]:
        """Returns every field with its value, given or by default."""
        return {field.name: self._read(field) for field in self._fields().values() if not field.json_only}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of, (self._given,)

    def to_dict(self) -> dict[str, Any]:
        """Returns the given values as plain types."""
        return {name: value.to_dict() if isinstance(value, FieldSet) else value for name, value in self._given.items()}

    def to_json(self) -> str:
        """Returns the given values as the text of a JSON object."""
        return json.dumps(self.to_dict())


class FieldSignature:
    """The signature of a class of fields for help() and editors, with the defaults of its table."""

    def __init__(self, hints: type) -> None:
        self._hints = hints

    def __get__(self, instance: object, owner: type[FieldSet]) -> Signature:
        from inspect import Parameter, Signature

        fields = owner._fields()
        hints = get_type_hints(self._hints)
        named = [name for name in hints if fields[name].keyword_only]
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.KEYWORD_ONLY if name in named else Parameter.POSITIONAL_OR_KEYWORD,
                    default=fields[name].arg_default,
                    annotation=hints[name],
                )
                for name in (*(name for name in hints if name not in named), *named)
            ]
        )


def check(fields: Fields, given: Mapping[str, Any], path: str = "", from_json: bool = False) -> dict[str, Any]:
    """Returns the values as plain types. Raises TypeError for a wrong type, ValueError naming every value out of
    range.
    """
    checked = {}
    broken = []
    for name, value in given.items():
        if name not in fields:
            _refuse_unknown(fields, name, path)
        field = fields[name]
        plain = _plain(field, path + name, value, from_json)
        if not field.obeyed_by(plain):
            broken.append(f"{path}{name}: got {values.show(value)}, want {field.want}")
        checked[name] = plain
    for field in fields.values():
        if field.required and field.name not in given:
            raise TypeError(f"{path}{field.name}: got nothing, want {field.want}")
    if broken:
        raise ValueError("; ".join(broken))
    return checked


def parse(
    fields: Fields, text: str, prepared: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Checks the fields of a JSON object, ``prepared`` before if that is given. Every mistake in it is a ValueError."""
    try:
        given = json.loads(values.text("text", text), object_pairs_hook=values.unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ValueError("the JSON text is nested too deeply") from None
    if not isinstance(given, dict):
        raise ValueError(f"got {values.show(given)}, want a JSON object")
    try:
        return check(fields, prepared(given) if prepared else given, from_json=True)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _plain(field: Field, name: str, value: Any, from_json: bool) -> Any:
    if value is None and (field.nullable or field.type == "any"):
        return None
    if field.type == "object":
        return _nested(field, name, value, from_json)
    if field.type == "objects" and not (isinstance(value, list | tuple) and all(isinstance(x, Mapping) for x in value)):
        raise TypeError(f"{name}: got {values.show(value)}, want {field.want}")
    if field.type in ("any", "objects"):
        return values.json_value(name, value)
    if field.path and isinstance(value, os.PathLike):
        value = values.path(name, value)
    plain = _CONVERSIONS[field.type](name, value, field.want)
    return plain.lower() if field.any_case and (from_json or field.any_case_in_python) else plain


_CONVERSIONS: Mapping[str, Callable[[str, Any, str], Any]] = {
    "uint": values.integer,
    "float": values.number,
    "bool": values.flag,
    "string": values.text,
    "enum": values.text,
}


def _nested(field: Field, name: str, value: Any, from_json: bool) -> Any:
    """Returns a nested object: an instance of its class if it has one, else a dict."""
    kind = next((kind for kind in FieldSet.__subclasses__() if kind._section == field.name), None)
    if kind is not None and isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise values.wrong_type(name, value, field.want)
    checked = check(fields_of(field.name), value, f"{name}.", from_json)
    return checked if kind is None else kind._of(checked)


def _refuse_unknown(fields: Fields, name: str, path: str) -> NoReturn:
    shown = values.brief(values.show(path + name))
    if near := spelling.nearest(name, fields):
        raise TypeError(f'unknown field {shown}, did you mean "{path}{near}"?')
    raise TypeError(f"unknown field {shown}, {spelling.offer(name, fields)}")
