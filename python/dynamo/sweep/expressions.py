"""Conditions of a specification, such as ``gpus <= 16``: Python expressions of which only arithmetic is allowed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dynamo._core import spelling, values

_LONGEST = 1000  # characters
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, group: value in group,
    ast.NotIn: lambda value, group: value not in group,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}


class Absent(Exception):
    """A point does not have the value that a name stands for."""


@dataclass(frozen=True)
class Expression:
    """A condition on the knobs of a point and on what is known of it before it runs."""

    text: str
    names: frozenset[str]
    _tree: ast.expr

    def holds(self, lookup: Callable[[str], Any]) -> bool:
        """Whether a point fulfils it. ``lookup`` gives the value of a name, or raises Absent.

        A condition about what a point does not have, such as prefill workers of a single pool, does not restrict it.
        Raises ValueError if the values do not fit the operators.
        """
        try:
            return bool(_value(self._tree, lookup))
        except Absent:
            return True
        except (TypeError, ZeroDivisionError, OverflowError) as error:
            raise ValueError(f"where: {values.show(self.text)}: {error}") from None


def parse(text: str, known: Collection[str]) -> Expression:
    """Reads a condition about some of the ``known`` names. Raises ValueError."""
    if len(text) > _LONGEST:
        raise ValueError(f"where: got a text of {len(text)} characters, want at most {_LONGEST}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        _check(tree)
        names = frozenset(_names(tree))
    except SyntaxError as error:
        raise ValueError(f"where: {values.show(text)}: {error.msg}") from None
    except (_Refused, RecursionError, MemoryError, ValueError) as error:
        raise ValueError(f"where: {values.show(text)}: {error or 'nested too deeply'}") from None
    for name in sorted(names - set(known)):
        near = spelling.nearest(name, known)
        hint = f"did you mean {near}?" if near else "want a knob of search, a key of run, or gpus"
        raise ValueError(f"where: {values.show(text)}: unknown name {name}, {hint}")
    return Expression(text, names, tree)


class _Refused(Exception):
    """An expression that is more than arithmetic."""


def _check(node: ast.expr) -> None:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None):
            return
        case ast.Name() | ast.Attribute():
            _dotted(node)
        case ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            for part in parts:
                _check(part)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd(), operand=operand):
            _check(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            _check(left)
            _check(right)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
            for part in (left, *others):
                _check(part)
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments, keywords=[]) if name in _FUNCTIONS:
            for part in arguments:
                _check(part)
        case _:
            raise _Refused(f"{type(node).__name__} is not allowed: want comparisons, arithmetic, and, or, not, in")


def _dotted(node: ast.expr) -> str:
    """The name that a chain of attributes spells: engine.max_num_seqs."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise _Refused("a name stands before a dot only")


def _names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name | ast.Attribute):
        return {_dotted(node)}
    if isinstance(node, ast.Call):
        return set().union(*(_names(part) for part in node.args))
    return set().union(*(_names(part) for part in ast.iter_child_nodes(node)))


def _value(node: ast.expr, lookup: Callable[[str], Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute():
            return lookup(_dotted(node))
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(part, lookup) for part in parts]
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, lookup) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, lookup) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, lookup)
        case ast.UnaryOp(op=op, operand=operand):
            number = _number(_value(operand, lookup))
            return -number if isinstance(op, ast.USub) else number
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_number(_value(left, lookup)), _number(_value(right, lookup)))
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compare(_value(left, lookup), ops, others, lookup)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*(_value(part, lookup) for part in arguments))
    raise AssertionError("the expression has been checked")


def _compare(left: Any, ops: list[ast.cmpop], others: list[ast.expr], lookup: Callable[[str], Any]) -> bool:
    for op, other in zip(ops, others, strict=True):
        right = _value(other, lookup)
        if not _COMPARISONS[type(op)](left, right):
            return False
        left = right
    return True


def _number(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{values.show(value)} is not a number")
