"""The per-request columns behind a report."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from dynamo._core import spelling, values
from dynamo.replay.columns import ReadOnlyDict

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from dynamo._core import RunResult, SeriesSource
    from dynamo.replay.columns import Column

    TextColumn: TypeAlias = Literal["session_id", "uuid", "terminal_status", "rejection_reason", "state"]


class Requests(ReadOnlyDict[str, "Column"]):
    """Per-request columns by name, with a row for every request that arrived, in trace order.

    Times are float64 arrays with NaN for none, counts and worker indices int64 arrays with -1 for none, texts lists of
    str with "" for none. A column is fetched when it is first asked for; pickling and copying fetch them all.
    They are a dict that cannot be changed. ``pandas.DataFrame(report.requests)`` takes them unchanged; the ``to_``
    methods have nulls instead of -1 and "".

    Columns, where times count from the first arrival, in milliseconds of simulated time:
        session_id: Name of the session, made up where the trace gives none.
        turn_index: Which turn of its session the request is, from 0.
        uuid: Name of the request, the same in equal runs.
        trace_row: Which row of the workload it comes from, from 0.
        state: Where it was when the run ended: ``finished``, ``running``, ``waiting``, ``rejected``, ``failed`` or
            ``cancelled``. A limit on simulated time leaves requests running and waiting.
        terminal_status: How it ended: ``completed``, ``rejected``, ``failed`` or ``canceled``; none if it has not.
        rejection_reason: Why it can never run, for requests that were rejected or failed.
        arrival_time_ms: When it arrived.
        first_admit_ms: When an engine first admitted it.
        first_token_ms, last_token_ms: When its first and last tokens were emitted.
        ttft_ms: Time to first token, from arrival.
        ttst_ms: Time to second token, from the first.
        itl_ms: Time per output token (TPOT), the mean gap between its tokens, also as ``requests["tpot_ms"]``. AIPerf
            calls it inter-token latency, and this column, too.
        e2e_latency_ms: From arrival to the last token.
        input_length: Tokens of the prompt (ISL).
        output_length: Tokens that it asked for (OSL).
        reused_input_tokens: Tokens of the prompt that were cached when it was admitted; the most of all admissions.
        decode_worker_idx: The worker that generated its tokens, from 0.
        prefill_worker_idx: With two pools, the worker that computed its prompt. So are the columns below.
        prefill_admit_ms, decode_admit_ms: When each of the two engines admitted it.
        source_held_ms: When its prompt was computed and its KV waited to be moved.
        destination_reserved_ms: When the decode worker had reserved blocks for it.
        destination_activated_ms: When the KV had arrived.
        source_released_ms: When the prefill worker let go of the KV.
        decode_reused_input_tokens: Tokens of the prompt that the decode worker had cached.
        prefill_route_overlap_tokens, decode_route_overlap_tokens: Cached tokens that each router counted on.
        ttft_PART_ms, e2e_PART_ms: With ``attribution=True``, what ttft_ms and e2e_latency_ms consist of: PART is one of
            router_wait, worker_wait, own_prompt, other_prompts, preempted, recompute, kv_wait, kv_transfer, decode,
            decode_slowed and host, which docs/why.md defines, or lost in runs with faults. The parts of a latency add
            up to it.
    """

    _MISSING = "the run has kept no rows, as it was asked to (rows=False)"

    def __init__(
        self,
        source: RunResult | SeriesSource | None,
        fetched: dict[str, Column] | None = None,
        *,
        keeps: bool = True,
    ) -> None:
        """Columns of a source, or those that are given.

        Without ``keeps`` a column is fetched each time, for readers that need one after the other.
        """
        super().__init__()
        self._source = source
        self._keeps = keeps
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
        if name == "tpot_ms" and name not in self._names and "itl_ms" in self._names:
            name = "itl_ms"
        with self._lock:
            if name in self._fetched:
                return self._fetched[name]
            column = self._fetch(name)
            if self._keeps:
                self._fetched[name] = column
            return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __eq__(self, other: object) -> bool:
        """Reports whether the other mapping has the same columns with the same values; NaN equals NaN."""
        if not isinstance(other, Mapping):
            return NotImplemented
        return set(self) == set(other) and all(_same(self[name], other[name]) for name in self)

    def __repr__(self) -> str:
        return f"<per-request columns: {', '.join(self._names)}>"

    def _repr_html_(self) -> str:
        """Returns the first and last requests, for notebooks."""
        from dynamo.replay import notebook

        return notebook.requests_html(self)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._names)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Returns a dict for each request, as the file of ``report_jsonl_path`` has it, with None for none."""
        columns = [_nullable(self[name]) for name in self]
        return [dict(zip(self._names, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_pandas(self) -> pd.DataFrame:
        """Returns all columns as a pandas.DataFrame: float64, Int64 and string, with NaN or NA for none.

        Needs pandas; raises ImportError without it, as the other methods do without pyarrow.
        ``pip install 'dynosim[data]'`` brings both.
        """
        from dynamo.replay import frames

        return frames.to_pandas(self)

    def to_arrow(self) -> pa.Table:
        """Returns all columns as a pyarrow.Table: double, int64 and string, with null for none."""
        from dynamo.replay import frames

        return frames.to_arrow(self)

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Writes ``to_arrow()`` to a Parquet file and returns its path.

        Missing folders are made, an existing file is replaced by the whole new one. Raises OSError.
        """
        from dynamo.replay import frames

        return frames.to_parquet(self, path)

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Writes ``to_arrow()`` to a CSV file with a header, null as nothing, and returns its path.

        Missing folders are made, an existing file is replaced by the whole new one. Raises OSError.
        """
        from dynamo.replay import frames

        return frames.to_csv(self, path)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, dict(self))

    def _fetch(self, name: str) -> Column:
        source = self._source
        if source is not None and not self._names:
            raise KeyError(f"{name}: {self._MISSING}")
        if source is None or name not in self._names:
            raise unknown("column", name, self._names)
        if name in source.text_columns:
            return source.column_strings(name)
        import numpy as np

        kind = "<f8" if name in source.float_columns else "<i8"
        # Copied, because an array over bytes is read-only.
        column: Column = np.frombuffer(source.column_bytes(name), dtype=kind).copy()
        return column


def unknown(kind: str, name: object, known: Collection[str]) -> KeyError:
    """Returns the error for a name that is not there, with the one that was probably meant."""
    if not isinstance(name, str):
        return KeyError(name)
    near = spelling.nearest(name, known)
    hint = f"did you mean {near!r}?" if near else spelling.offer(name, known)
    return KeyError(f"unknown {kind} {values.brief(name)!r}, {hint}")


def _nullable(column: Column) -> list[Any]:
    """Returns the values of a column, with None for none."""
    if isinstance(column, list):
        return [text or None for text in column]
    return [None if value != value or value == -1 else value for value in column.tolist()]


def _same(column: Column, other: object) -> bool:
    import numpy as np

    if isinstance(column, list) or not isinstance(other, np.ndarray):
        return type(column) is type(other) and bool(column == other)
    return column.dtype == other.dtype and np.array_equal(column, other, equal_nan=True)
