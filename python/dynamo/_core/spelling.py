"""Finds the name that a user probably meant when a name is unknown, as gocore/spelling does for keys that Go checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

# The names that a message lists, in characters; and the longest name that is compared.
_OFFERED = 64
_LONGEST = 128


def nearest(typed: str, names: Collection[str]) -> str | None:
    """Returns the name that was probably meant, None if none is near.

    That is one that differs only in case or separators, or in few letters, or of which more than half was typed.
    """
    if len(typed) > _LONGEST:
        return None
    best, best_distance = None, min(1 + len(typed.encode(errors="replace")) // 6, 3) + 1
    for name in names:
        if _plain(typed) == _plain(name):
            return name
        distance = _edits(typed, name)
        if distance < best_distance:
            best, best_distance = name, distance
    if best is None:
        completions = [name for name in names if name.startswith(typed) and 2 * len(typed) > len(name)]
        return min(completions, key=len, default=None)
    return best


def ending(typed: str, names: Collection[str]) -> str | None:
    """Returns the only name whose last word was typed, as ``port`` of ``http-port``; None if there are none or
    several.
    """
    found = [name for name in names if typed and name.endswith((f"-{typed}", f"_{typed}"))]
    return found[0] if len(found) == 1 else None


def offer(typed: str, names: Collection[str]) -> str:
    """Ends the message about an unknown name: all names if they are few, else their number and the nearest."""
    every = ", ".join(names)
    if len(every) <= _OFFERED:
        return f"want one of {every}"
    first, *others = sorted(names, key=lambda name: _remoteness(typed, name))
    listed = first
    for name in others[:2]:
        if len(listed) + len(name) + 2 > _OFFERED:
            break
        listed += f", {name}"
    return f"want one of {len(names)}, such as {listed}"


def closest(typed: str, names: Mapping[str, str], count: int = 3) -> list[str]:
    """Returns the keys of ``names`` whose values are nearest to what was typed, the nearest first."""
    return sorted(names, key=lambda name: _remoteness(typed, names[name]))[:count]


def _remoteness(typed: str, name: str) -> int:
    """Orders names by distance; those that contain what was typed, or are part of it, come first."""
    if len(typed) > _LONGEST:
        return 0
    a, b = _plain(typed), _plain(name)
    return _edits(typed, name) - (1000 if a and (a in b or b in a) else 0)


def _plain(name: str) -> str:
    """Returns a name without case and separators, in which spellings differ."""
    return name.lower().replace("_", "").replace("-", "")


def _edits(a: str, b: str) -> int:
    """Returns the Levenshtein distance: the fewest insertions, deletions and replacements that turn a into b."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a):
        diagonal, row[0] = row[0], i + 1
        for j, right in enumerate(b):
            diagonal, row[j + 1] = row[j + 1], min(diagonal + (left != right), row[j] + 1, row[j + 1] + 1)
    return row[-1]
