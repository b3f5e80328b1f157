"""Members of objects that a run asks: those that are misspelt, which would have no effect."""

from __future__ import annotations

from collections.abc import Collection, Iterator

_NEAR_METHOD, _NEAR_VALUE = 0.8, 0.85


def misspelt(option: str, given: object, methods: Collection[str], values: Collection[str] = ()) -> list[str]:
    """Returns a warning for each public member that is nearly named as one that runs look for and that is missing."""
    warnings = []
    for name, is_method in _public(given):
        if name in methods or name in values:
            continue
        meant = _near(given, name, methods, _NEAR_METHOD) if is_method else _near(given, name, values, _NEAR_VALUE)
        if meant:
            effect = "is not called by runs" if is_method else "has no effect"
            warnings.append(f"{option}: {name} {effect}; did you mean {meant}?")
    return warnings


def in_place_of(given: object, method: str) -> str:
    """Returns the end of a message about a method that is missing: the member that may be meant to be it, if any."""
    names = [name for name, is_method in _public(given) if is_method]
    near = _closest(method, names, _NEAR_METHOD)
    return f"; did you mean {method} in place of {near}?" if near else ""


def _public(given: object) -> Iterator[tuple[str, bool]]:
    """Yields the public members of an object and its class, and whether they are methods; calls no property."""
    import inspect  # not before it is needed: it takes time to load

    for name in dir(given):
        if not name.startswith("_"):
            member = inspect.getattr_static(given, name, None)
            yield name, callable(member) or isinstance(member, staticmethod | classmethod)


def _near(given: object, name: str, known: Collection[str], cutoff: float) -> str | None:
    missing = [one for one in known if not hasattr(given, one)]
    typed = name.lower()
    return _closest(typed.removeprefix("on_"), missing, cutoff) or _closest(typed, missing, cutoff)


def _closest(name: str, among: Collection[str], cutoff: float) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(name, among, 1, cutoff)), None)
