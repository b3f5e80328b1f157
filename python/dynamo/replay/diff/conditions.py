"""Conditions under which a comparison fails: ``p99_ttft_ms > +5%``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from dynamo._core import spelling, values
from dynamo.replay import latencies

_FORM = re.compile(r"\s*([\w.]+)\s*(>=|<=|>|<)\s*([+-]?)((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(%?)\s*")
_WANT = "KEY, then >, >=, < or <=, then a change such as +5% or -20, or a value such as 2000"


class Verdict(NamedTuple):
    """What became of a condition."""

    condition: str
    failed: bool
    found: str
    """What was compared, in words."""


class Condition(NamedTuple):
    """A bound on a figure of the second run, or on its change. It fails if the comparison holds."""

    text: str
    key: str
    operator: str
    bound: float
    change: bool
    """Whether the bound is on the change from the first run to the second, not on the value of the second."""
    percent: bool

    def check(self, before: Mapping[str, float | None], after: Mapping[str, float | None]) -> Verdict:
        """Whether the condition fails. A figure that only the first run has fails. Raises ValueError."""
        if self.key not in after and self.key not in before:
            near = spelling.nearest(self.key, list({**before, **after}))
            hint = f"did you mean {near}?" if near else "see docs/reference/report.md"
            raise ValueError(f"--fail-if: neither run has {self.key}, {hint}")
        old, new = before.get(self.key), after.get(self.key)
        if new is None:
            return Verdict(self.text, old is not None, "the second run has none")
        if not self.change:
            return self._verdict(new, f"{new:,.2f}")
        if old is None:
            raise ValueError(f"--fail-if: the first run has no {self.key}, so its change is unknown")
        if not self.percent:
            return self._verdict(new - old, f"{new - old:+,.2f}")
        relative = percentage(old, new)
        return self._verdict(relative, f"{relative:+,.2f}%")

    def _verdict(self, found: float, shown: str) -> Verdict:
        holds = {">": found > self.bound, ">=": found >= self.bound, "<": found < self.bound, "<=": found <= self.bound}
        return Verdict(self.text, holds[self.operator], shown)


def percentage(before: float, after: float) -> float:
    """The change from one number to the next in percent; infinite if that is a change from 0."""
    if before == after:
        return 0.0
    return (after - before) / abs(before) * 100 if before else math.copysign(math.inf, after)


def parse_condition(text: str) -> Condition:
    """A condition from its text. Raises ValueError."""
    match = _FORM.fullmatch(text)
    if not match:
        raise ValueError(f"--fail-if: got {values.brief(text)}, want {_WANT}")
    key, operator, sign, number, percent = match.groups()
    if percent and not sign:
        raise ValueError(f"--fail-if: got {values.brief(text)}, want +{number}% for a rise, or -{number}% for a fall")
    return Condition(text.strip(), latencies.recorded(key), operator, float(sign + number), bool(sign), bool(percent))
