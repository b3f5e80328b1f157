"""Results of runs, by what was run. Sweeps may share a store, also at the same time.

A run is known by its key, a hash of all that decides its report. A process claims a run before it carries it out, so
that no other one does, too; claims of a process that has died are void.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dynamo.sweep.owners import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = 1
OK, INFEASIBLE, REJECTED, FAILED, TIMED_OUT = "ok", "infeasible", "rejected", "failed", "timeout"
_BUSY_SECONDS = 120.0
_REMEDY = "; remove it and run the sweep again, which computes anew what it held"

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
    key TEXT PRIMARY KEY, status TEXT NOT NULL, reason TEXT NOT NULL, report TEXT NOT NULL, warnings TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
"""


class Run(NamedTuple):
    """What became of a run. ``report`` is JSON text, ``{}`` unless it is ok."""

    status: str
    reason: str
    report: str
    warnings: str = "[]"

    def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.report)
        return found


class Database:
    """A SQLite file that threads and processes share. Its errors become StoreError, with the path."""

    def __init__(self, path: Path, tables: str) -> None:
        self.path = path
        self._lock = threading.RLock()
        with self._naming():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            self._open(tables)
        except BaseException:
            self._connection.close()
            raise

    def _open(self, tables: str) -> None:
        self._refuse_newer()
        with self._naming():
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
        with self.change() as write:
            for statement in tables.split(";"):
                write.execute(statement)
            write.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (str(SCHEMA),))

    def _refuse_newer(self) -> None:
        with self._naming():
            known = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone()
        found = self.meta("schema") if known else None
        if found is not None and int(found) > SCHEMA:
            raise ValueError(
                f"{self.path}: was written by a newer version of dynosim (schema {found}, this one knows {SCHEMA})"
            )

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            damaged = type(error) is sqlite3.DatabaseError  # its other kinds are about the disk, or locks
            raise StoreError(f"{self.path}: {error}", _REMEDY if damaged else "") from error

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """A transaction, written whole or not at all."""
        with self._lock, self._naming():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        """All rows of a query."""
        with self._lock, self._naming():
            return self._connection.execute(query, tuple(values)).fetchall()

    def meta(self, name: str) -> str | None:
        """A named text, None if it was never set."""
        found = self.rows("SELECT value FROM meta WHERE name = ?", (name,))
        return str(found[0][0]) if found else None

    def set_meta(self, texts: Mapping[str, str]) -> None:
        """Sets named texts."""
        with self.change() as write:
            write.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", texts.items())

    def close(self) -> None:
        """Closes the file. It may be closed twice."""
        with self._lock:
            self._connection.close()


class StoreError(RuntimeError):
    """The store cannot be read or written: the disk is full, the file is damaged. What was finished is kept."""

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__(fault + remedy)
        self.fault = fault


class Store:
    """The results of runs in one file."""

    def __init__(self, path: Path) -> None:
        self.database = Database(path, _TABLES)
        self.owner = Owner(path.with_name(path.name + ".owners"))

    def get(self, key: str) -> Run | None:
        """The result of a run, None if there is none yet."""
        found = self.database.rows("SELECT status, reason, report, warnings FROM runs WHERE key = ?", (key,))
        return Run(*found[0]) if found else None

    def claim(self, key: str) -> bool:
        """Whether this process is the one to carry out a run now. A claim ends with ``put`` or ``release``."""
        holder = self.database.rows("SELECT owner FROM claims WHERE key = ?", (key,))
        if holder and self.owner.is_alive(holder[0][0]):
            return False
        with self.database.change() as write:
            if holder:
                write.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, holder[0][0]))
            if write.execute("SELECT 1 FROM runs WHERE key = ?", (key,)).fetchone():
                return False
            return write.execute("INSERT OR IGNORE INTO claims VALUES (?, ?)", (key, self.owner.name)).rowcount == 1

    def put(self, key: str, run: Run) -> None:
        """Keeps the result of a run that this process has claimed."""
        with self.database.change() as write:
            write.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)", (key, *run))
            write.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, self.owner.name))

    def release(self, key: str) -> None:
        """Gives a claim back without a result."""
        with self.database.change() as write:
            write.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, self.owner.name))

    def close(self) -> None:
        """Ends the work of this process on the store."""
        self.owner.close()
        self.database.close()
