"""Traces that are read once and replayed many times."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from dynamo import _core
from dynamo._core import values

OPTIONS = ("trace_format", "trace_block_size", "trace_shared_prefix_ratio", "trace_num_prefix_groups")
"""Arguments of a replay that belong to a trace, and so to ``load_trace`` if that was used."""


class Workload:
    """A trace that ``load_trace`` has read, which replays take in place of a path.

    It cannot be changed, threads can share it, and its memory is freed with it. It holds the trace as it was when it
    was read, even if the file changes. Pickling stores path and SHA-256, and unpickling reads the file again: a
    ValueError says so if it has changed. Two are equal if they have the same paths, options and content.
    """

    __slots__ = ("__weakref__", "_config", "_trace")

    _config: Mapping[str, Any]
    _trace: _core.LoadedTrace

    def __init__(self, config: Mapping[str, Any]) -> None:
        """For ``load_trace``, which checks what config holds."""
        object.__setattr__(self, "_config", {**config})
        object.__setattr__(self, "_trace", _core.load_trace(config))

    @property
    def trace_files(self) -> tuple[str, ...]:
        """The paths, as they were given."""
        return tuple(self._config["trace_files"])

    @property
    def options(self) -> dict[str, Any]:
        """The options with which it was read, without those that were not given."""
        return {name: self._config[name] for name in OPTIONS if name in self._config}

    @property
    def sha256(self) -> tuple[str, ...]:
        """The hash of each file, in hexadecimal."""
        return self._trace.sha256

    def __len__(self) -> int:
        """Returns the number of requests."""
        return self._trace.requests

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Workload cannot be changed: got a new {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Workload cannot be changed: {name} stays")

    def _identity(self) -> tuple[object, ...]:
        return self.trace_files, tuple(self.options.items()), self.sha256

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, Workload) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        files = ", ".join(map(repr, self.trace_files))
        return f"<Workload of {len(self):,} requests from {files}>"

    def __copy__(self) -> Workload:
        return self

    def __deepcopy__(self, memo: object) -> Workload:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Workload, ({**self._config, "sha256": list(self.sha256)},)


def load_trace(
    trace_files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    trace_format: str | None = None,
    trace_block_size: int | None = None,
    trace_shared_prefix_ratio: float | None = None,
    trace_num_prefix_groups: int | None = None,
    block_size: int | None = None,
) -> Workload:
    """Reads a trace once, for any number of replays: ``run_trace_replay(workload, ...)``.

    Args:
        trace_files: As for ``run_trace_replay``, but not standard input.
        trace_format: As for ``run_trace_replay``, which must not get it again; so are the next three.
        trace_block_size: Tokens that one ``hash_ids`` entry of the trace stands for; 512 if not given.
        trace_shared_prefix_ratio: Fraction of each prompt that sessions share, if the trace does not say what they do.
        trace_num_prefix_groups: Number of different prefixes that do so.
        block_size: Tokens in a block of the engines that will replay it; 64 if not given. Prompts are kept as blocks:
            the first replay with another block size reads the trace once more, later ones share that, too.

    Raises:
        TypeError: An argument has the wrong Python type.
        ValueError: An argument or the trace breaks a rule.
        FileNotFoundError: A file is missing.
    """
    given = {
        "trace_files": trace_paths("trace_files", trace_files),
        "trace_format": None if trace_format is None else values.text("trace_format", trace_format),
        "trace_block_size": _integer("trace_block_size", trace_block_size),
        "trace_shared_prefix_ratio": (
            None
            if trace_shared_prefix_ratio is None
            else values.number("trace_shared_prefix_ratio", trace_shared_prefix_ratio)
        ),
        "trace_num_prefix_groups": _integer("trace_num_prefix_groups", trace_num_prefix_groups),
        "block_size": _integer("block_size", block_size),
    }
    return Workload({name: value for name, value in given.items() if value is not None})


def loaded(workload: Workload) -> _core.LoadedTrace:
    """Returns the trace as ``_core.run`` takes it."""
    return workload._trace


def trace_paths(name: str, value: object) -> list[str]:
    """Returns a path or a sequence of paths as texts. Raises TypeError or ValueError, naming the argument."""
    if isinstance(value, str | os.PathLike):
        return [values.path(name, value)]
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [values.path(name, item) for item in value]
    raise TypeError(f"{name}: got {values.show(value)}, want a path, a sequence of paths or a Workload")


def _integer(name: str, value: object) -> int | None:
    return None if value is None else values.integer(name, value)
