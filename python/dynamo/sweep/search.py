"""Where points come from: all of a grid, or what a sampler proposes from what is known so far.

Points are proposed in batches. When all points of a batch are finished, one of the processes that work on the folder
asks for the next one. So the points depend neither on how many processes and threads there are nor on which is faster.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Protocol

from dynamo.sweep import points
from dynamo.sweep.folder import Folder
from dynamo.sweep.spec import GRID, Spec


class Search(Protocol):
    """Adds points to a folder."""

    total: int
    """How many points there will be, at most."""

    def extend(self, folder: Folder, made_by: str) -> bool:
        """Adds the next points, if none is open. False if there are no more."""


def open_search(spec: Spec) -> Search:
    """The search that a specification asks for. Raises ValueError if Optuna is needed and missing."""
    if spec.sampler == GRID:
        return Grid(spec)
    from dynamo.sweep.sampled import Sampled

    return Sampled(spec)


class Grid:
    """All combinations of values. Those that describe the same point are one."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self.total = spec.grid_size

    def extend(self, folder: Folder, made_by: str) -> bool:
        if folder.fact("grid") is not None:
            return False
        folder.add(0, self._identities(), made_by)
        folder.keep("grid", True)
        self.total = sum(folder.counts().values())
        return True

    def _identities(self) -> Iterator[str]:
        names = [knob.name for knob in self._spec.search]
        for values in itertools.product(*(knob.values for knob in self._spec.search)):
            yield points.identity(points.effective(self._spec, dict(zip(names, values, strict=True))))
