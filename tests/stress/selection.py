"""A pytest plugin that keeps the tests of one kind: those with processes beside the test, threads, sockets or signals,
or the rest. Commands that a test runs to their end are of the rest.

The kind is found out from what a test and all that it uses in the folder of tests mention, scripts in strings included.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

VARIABLE = "STRESS_KIND"
WORDS = {
    "Popen", "Pool", "ProcessPoolExecutor", "Thread", "ThreadPoolExecutor", "ThreadingHTTPServer",
    "create_connection", "create_server", "fork", "kill", "killpg", "mocker", "multiprocessing", "openpty",
    "send_signal", "signal", "socket", "threading", "urlopen",
}  # fmt: skip
TESTS = str(Path(__file__).parent.parent)


def names_in(code: CodeType) -> set[str]:
    """Names and words of strings in a function and what is inside of it."""
    found = {*code.co_names, *code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= names_in(constant)
        elif isinstance(constant, str):
            found |= set(re.findall(r"\w+", constant))
    return found


def functions(value: object) -> list[FunctionType]:
    """The functions of a function, a fixture or a class of the tests."""
    value = getattr(value, "_fixture_function", getattr(value, "__wrapped__", value))
    if isinstance(value, type):
        kin = [c for c in value.__mro__ if c is not object]
        return [f for c in kin for member in vars(c).values() for f in functions(getattr(member, "fget", member))]
    return [value] if isinstance(value, FunctionType) and value.__code__.co_filename.startswith(TESTS) else []


def uses_processes(test: FunctionType) -> bool:
    seen: set[int] = set()
    todo = functions(test)
    while todo:
        function = todo.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        names = names_in(function.__code__)
        for name in sorted(names & function.__globals__.keys()):
            value = function.__globals__[name]
            if isinstance(value, str):
                names |= set(re.findall(r"\w+", value))
            elif not isinstance(value, ModuleType):
                todo += functions(value)
        if names & WORDS:
            return True
    return False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = os.environ[VARIABLE] == "processes"
    kept = [item for item in items if uses_processes(getattr(item, "function", None)) is wanted]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
