"""The type of per-request columns, and of the mapping that holds them.

The mapping is a dict for pandas, and a Mapping for type checkers, which refuse changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.float64] | NDArray[np.int64] | list[str]
    ReadOnlyDict = Mapping
else:
    _NOT_STORED = object()

    class ReadOnlyDict(Mapping, dict):
        """A mapping that is a dict to pandas.DataFrame, which reads columns by name from nothing else.

        The storage of the dict holds no columns: whatever reads or changes it directly is replaced here.
        """

        def __init__(self):
            # The json module, written in C, takes a dict with an empty storage for {} instead of asking for its items.
            super().__init__()
            dict.__setitem__(self, "", _NOT_STORED)

        def _refuse(self, *_: object, **__: object) -> NoReturn:
            raise TypeError("per-request columns cannot be changed; dict(report.requests) can")

        __ne__ = object.__ne__  # the one of dict compares the storage
        __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

        def copy(self):
            """Returns a dict of its own."""
            return dict(self)

        def __or__(self, other):
            return dict(self) | other

        def __ror__(self, other):
            return other | dict(self)
