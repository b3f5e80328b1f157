"""The folder of a sweep: its specification and its points."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dynamo._core import values
from dynamo.sweep.owners import Owner
from dynamo.sweep.store import Database

POINTS_FILE, RESULTS_FILE, SPEC_FILE = "sweep.sqlite", "results.sqlite", "spec.json"

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS points (
    id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, batch INTEGER NOT NULL, status TEXT, reason TEXT,
    outcome TEXT, made_by TEXT, owner TEXT
);
CREATE INDEX IF NOT EXISTS points_open ON points (id) WHERE status IS NULL;
"""


class Point(NamedTuple):
    """A row of the sweep. ``status`` is None until it is finished, and ``outcome`` is empty then."""

    id: int
    knobs: Mapping[str, Any]
    status: str | None
    reason: str
    outcome: Mapping[str, Any]


class Finished(NamedTuple):
    """How a point has ended."""

    status: str
    reason: str
    outcome: Mapping[str, Any]


class Folder:
    """A folder that one or several processes fill."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = Database(path / POINTS_FILE, _TABLES)
        self.owner = Owner(path / ".owners")
        self._dead: set[str] = set()

    @staticmethod
    def existing(path: str | os.PathLike[str]) -> Folder:
        """The folder of a sweep that has begun. Raises ValueError or FileNotFoundError."""
        given = Path(values.path("DIR", path))
        if not given.is_dir():
            raise FileNotFoundError(f"{given}: no such folder")
        if not (given / POINTS_FILE).exists():
            raise ValueError(f"{given}: holds no sweep, want a folder that python -m dynamo.sweep run has made")
        return Folder(given)

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Keeps what the sweep is, or checks that it is still the same. Raises ValueError."""
        for name, value in facts.items():
            text = json.dumps(value, sort_keys=True)
            known = self.database.meta(name)
            if known is not None and known != text:
                what = _DIFFERENT[name] + (_changed(json.loads(known), value) if name == "inputs" else "")
                raise ValueError(f"{self.path}: {what}: want another folder (--store shares the results)")
        self.database.set_meta({name: json.dumps(value, sort_keys=True) for name, value in facts.items()})

    def fact(self, name: str) -> Any:
        """What ``begin`` or ``keep`` has kept under a name, None if nothing."""
        text = self.database.meta(name)
        return None if text is None else json.loads(text)

    def keep(self, name: str, value: Any) -> None:
        """Keeps a JSON value under a name."""
        self.database.set_meta({name: json.dumps(value)})

    def add(self, batch: int, identities: Iterable[str], made_by: str) -> None:
        """Adds the points of a batch that are not there yet."""
        with self.database.change() as write:
            write.executemany(
                "INSERT OR IGNORE INTO points (identity, batch, made_by) VALUES (?, ?, ?)",
                ((identity, batch, made_by) for identity in identities),
            )

    def reopen(self, made_by: str, again: Sequence[str] = ()) -> None:
        """Forgets points that another core has made, and those that ended in one of the given ways."""
        marks = ",".join("?" * len(again))
        with self.database.change() as write:
            write.execute(
                f"UPDATE points SET status = NULL, owner = NULL WHERE made_by <> ? OR status IN ({marks})",
                (made_by, *again),
            )
            write.execute("UPDATE points SET made_by = ?", (made_by,))

    def take(self) -> Point | None:
        """An open point for this process, None if there is none that no other process has taken."""
        while True:
            with self.database.change() as write:
                query = "SELECT id, identity, owner FROM points WHERE status IS NULL AND (owner IS NULL OR owner <> ?)"
                for found, identity, owner in write.execute(query + " ORDER BY id", (self.owner.name,)):
                    if owner is None or owner in self._dead:
                        write.execute("UPDATE points SET owner = ? WHERE id = ?", (self.owner.name, found))
                        return Point(found, json.loads(identity), None, "", {})
            if not self._bury():
                return None

    def open_after(self, point: int, count: int) -> list[Mapping[str, Any]]:
        """The knobs of the next ``count`` open points behind one, whether or not a process has taken them."""
        query = "SELECT identity FROM points WHERE status IS NULL AND id >= ? ORDER BY id LIMIT ?"
        return [json.loads(identity) for (identity,) in self.database.rows(query, (point, count))]

    def _bury(self) -> bool:
        """Looks for owners of open points that have died since the last look."""
        rows = self.database.rows("SELECT DISTINCT owner FROM points WHERE status IS NULL AND owner IS NOT NULL")
        dead = {owner for (owner,) in rows if owner not in self._dead and not self.owner.is_alive(owner)}
        self._dead |= dead
        return bool(dead)

    def finish(self, point: int, finished: Finished) -> None:
        """Keeps how a point has ended."""
        with self.database.change() as write:
            write.execute(
                "UPDATE points SET status = ?, reason = ?, outcome = ?, owner = NULL WHERE id = ?",
                (finished.status, finished.reason, json.dumps(finished.outcome), point),
            )

    def give_back(self, point: int) -> None:
        """Makes a point of this process free again, for another process or a later run."""
        with self.database.change() as write:
            write.execute("UPDATE points SET owner = NULL WHERE id = ? AND status IS NULL", (point,))

    def open_points(self) -> int:
        """How many points are not finished."""
        return int(self.database.rows("SELECT count(*) FROM points WHERE status IS NULL")[0][0])

    def counts(self) -> dict[str, int]:
        """How many points have ended in which way; those that have not are ``open``."""
        rows = self.database.rows("SELECT coalesce(status, 'open'), count(*) FROM points GROUP BY 1 ORDER BY 1")
        return dict(rows)

    def points(self, batch: int | None = None) -> list[Point]:
        """All points, or those of a batch, in the order in which they were added."""
        where, bound = ("", ()) if batch is None else (" WHERE batch = ?", (batch,))
        query = f"SELECT id, identity, status, reason, outcome FROM points{where} ORDER BY id"
        rows = self.database.rows(query, bound)
        return [_point(*row) for row in rows]

    def find(self, identity: str) -> Point | None:
        """The point of this identity."""
        query = "SELECT id, identity, status, reason, outcome FROM points WHERE identity = ?"
        rows = self.database.rows(query, (identity,))
        return _point(*rows[0]) if rows else None

    def close(self) -> None:
        """Ends the work of this process on the folder."""
        self.owner.close()
        self.database.close()


def _point(found: int, identity: str, status: str | None, reason: str | None, outcome: str | None) -> Point:
    """A point of its columns in the database."""
    return Point(found, json.loads(identity), status, reason or "", json.loads(outcome or "{}"))


def _changed(known: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Names the files whose content differs."""
    names = [name for name in {**known, **now} if known.get(name) != now.get(name)]
    return f" ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"


_DIFFERENT = {
    "spec": "holds a sweep of another specification",
    "inputs": "its input files have changed since the sweep began",
    "store": "keeps its results elsewhere",
}
