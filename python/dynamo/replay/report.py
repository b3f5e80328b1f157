"""What a replay returns: the report, and the per-request columns behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dynamo._core import RunResult

    Column: TypeAlias = NDArray[np.float64] | NDArray[np.int64] | list[str]
    TextColumn: TypeAlias = Literal["session_id", "uuid", "terminal_status", "rejection_reason", "state"]


class Requests(Mapping[str, "Column"]):
    """Per-request columns by name, with a row for every request that arrived, in trace order.

    Times are float64 arrays with NaN for none, counts and worker indices int64 arrays with -1 for none, texts lists of
    str. A column is fetched when it is first asked for; pickling and copying fetch them all.
    """

    def __init__(self, source: RunResult | None, fetched: dict[str, Column] | None = None) -> None:
        self._source = source
        self._fetched: dict[str, Column] = {} if fetched is None else fetched
        self._lock = threading.Lock()
        self._names = (
            tuple(self._fetched)
            if source is None
            else (*source.float_columns, *source.int_columns, *source.text_columns)
        )

    @overload
    def __getitem__(self, name: TextColumn) -> list[str]: ...  # type: ignore[overload-overlap]  # any other str

    @overload
    def __getitem__(self, name: str) -> NDArray[Any]: ...

    def __getitem__(self, name: str) -> Column:
        with self._lock:
            if name not in self._fetched:
                self._fetched[name] = self._fetch(name)
            return self._fetched[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<per-request columns: {', '.join(self._names)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Requests, (None, dict(self))

    def _fetch(self, name: str) -> Column:
        source = self._source
        if source is None or name not in self._names:
            raise KeyError(name)
        if name in source.text_columns:
            return source.column_strings(name)
        import numpy as np

        kind = "<f8" if name in source.float_columns else "<i8"
        # Copied, because an array over bytes is read-only.
        column: Column = np.frombuffer(source.column_bytes(name), dtype=kind).copy()
        return column


class Report(dict[str, Any]):
    """The metrics of a run, a dict from key to number, and the rows they were computed from.

    A statistic over no request at all is None. docs/report.md explains every key and column.
    """

    requests: Requests
    """Per-request columns: ``report.requests["ttft_ms"]``."""

    def __init__(self, metrics: Mapping[str, Any], requests: Requests) -> None:
        super().__init__(metrics)
        self.requests = requests

    def copy(self) -> Report:
        """A shallow copy that shares the per-request columns."""
        return Report(self, self.requests)

    __copy__ = copy

    def __reduce__(self) -> tuple[Any, ...]:
        return Report, (dict(self), self.requests)
