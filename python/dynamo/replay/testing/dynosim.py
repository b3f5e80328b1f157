"""Replays in tests: runs, what is expected of them, and messages that say why a run does not keep it."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dynamo._core import values
from dynamo.replay import api, files
from dynamo.replay.report import Report
from dynamo.replay.testing import bounds, nearest, reasons
from dynamo.replay.testing.baselines import HOW, Baselines
from dynamo.replay.testing.bounds import Bound
from dynamo.replay.testing.findings import Finding, as_text

_SHORT = {"workers": "num_workers", "prefill_workers": "num_prefill_workers", "decode_workers": "num_decode_workers"}
_TOLERANCE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*(%|ms|s|)\s*")


class Dynosim:
    """The fixture ``dynosim``. Arguments that a marker gives hold for all replays of a test."""

    def __init__(
        self,
        test_file: Path,
        test: str,
        given: Mapping[str, Any],
        *,
        note: Callable[[Finding], None] = lambda finding: None,
        update: bool = False,
        nearest: int = 16,
    ) -> None:
        self._folder = test_file.parent
        self._test = test
        self._given = _long(given)
        self._note = note
        self._update = update
        self._nearest = nearest
        self._baselines = Baselines(test_file)
        self._named: set[str] = set()

    def replay(self, trace: str | Path, **arguments: Any) -> Run:
        """Replays a trace, which is beside the test file, or else at this path, with arguments of ``run_trace_replay``.

        ``workers``, ``prefill_workers`` and ``decode_workers`` may stand for ``num_workers`` and so on.
        """
        beside = self._folder / trace
        found = beside if beside.exists() else Path(trace)
        return Run(self, "trace", {"trace_files": found, **self._given, **_long(arguments)}, Path(trace).name)

    def synthetic(self, input_tokens: int | str, output_tokens: int | str, requests: int, **arguments: Any) -> Run:
        """Replays a generated workload, with arguments of ``run_synthetic_trace_replay``."""
        lengths = {"input_tokens": input_tokens, "output_tokens": output_tokens, "request_count": requests}
        return Run(self, "synthetic", {**lengths, **self._given, **_long(arguments)}, f"{requests} generated requests")


class Run:
    """A run that has ended. ``report`` is what ``dynamo.replay`` returns for it."""

    def __init__(self, owner: Dynosim, kind: str, arguments: Mapping[str, Any], workload: str) -> None:
        self._owner = owner
        self._kind = kind
        self._arguments = {"attribution": True, **arguments}
        if "rows" in arguments:
            raise ValueError("rows: expectations need the rows of requests, want it left out")
        self._workload = workload
        self.report: Report = _replay(kind, self._arguments)

    @property
    def deployment(self) -> str:
        """The workload and the deployment in a few words."""
        said = self.report["provenance"]["arguments"]
        pools = {name: said[name] for name in ("num_prefill_workers", "num_decode_workers") if said.get(name)}
        sizes = pools or {"num_workers": said.get("num_workers", 1)}
        return f"{self._workload}, {nearest.words({**sizes, 'router_mode': said.get('router_mode', 'round_robin')})}"

    def expect(self, **expected: str) -> Run:
        """Raises AssertionError unless each figure is within its bound, and says why it is not.

        Figures are those of reports, and ``goodput``: the share of requests that keep ``sla_ttft_ms`` and the like
        of the replay, or without them the bounds on latencies that stand beside it.
        """
        __tracebackhide__ = True
        bounds.check_figures(self.report, expected)
        wanted = {figure: bounds.parse(figure, text) for figure, text in expected.items()}
        found = {figure: bounds.value_of(self.report, figure, wanted) for figure in wanted}
        failed = [bound for figure, bound in wanted.items() if not bound.holds(found[figure])]
        findings = [self._finding(f, wanted[f].text, found[f], wanted[f] not in failed) for f in wanted]
        if failed:
            raise AssertionError("\n".join(self._message(findings, failed, wanted)))
        return self

    def baseline(self, name: str = "", /, **tolerances: str) -> Run:
        """Raises AssertionError unless each figure is as the baseline has it, within "2 %" or "5 ms" of it.

        ``pytest --dynosim-update`` writes the baseline instead. A test with several needs a name for each.
        """
        __tracebackhide__ = True
        bounds.check_figures(self.report, tolerances)
        margins = {figure: _margin(figure, text) for figure, text in tolerances.items()}
        found = {figure: bounds.value_of(self.report, figure, {}) for figure in margins}
        owner, entry = self._owner, " ".join(filter(None, [self._owner._test, name]))
        if entry in owner._named:
            raise ValueError(f'baseline: the test has two named "{name}", want a name for each')
        owner._named.add(entry)
        if owner._update:
            owner._baselines.write(entry, found)
            for figure, value in found.items():
                self._finding(figure, bounds.number(figure, value), value, True, "recorded")
            return self
        known = owner._baselines.read(entry)
        if missing := [figure for figure in margins if figure not in known]:
            raise AssertionError(f"{owner._baselines.path.name}: {entry!r} has no {missing[0]}; {HOW}")
        findings = []
        for figure, (margin, share) in margins.items():
            was, value = known[figure], found[figure]
            room = margin * abs(was) if share and was is not None else margin
            same = was is value if was is None or value is None else abs(value - was) <= room
            findings.append(self._finding(figure, f"{bounds.number(figure, was)} +- {tolerances[figure]}", value, same))
        if any(finding["result"] == "failed" for finding in findings):
            what = f"{self.deployment}: not as in {owner._baselines.path.name}"
            raise AssertionError("\n".join([what, *as_text(findings), f"If that is meant, {HOW}"]))
        return self

    def _finding(self, figure: str, expected: str, value: float | None, holds: bool, result: str = "ok") -> Finding:
        finding = Finding(
            deployment=self.deployment,
            figure=figure,
            expected=expected,
            got=bounds.number(figure, value),
            value=repr(value),
            result=result if holds else "failed",
        )
        self._owner._note(finding)
        return finding

    def _message(self, findings: list[Finding], failed: list[Bound], wanted: Mapping[str, Bound]) -> list[str]:
        few = f"{len(failed)} of {len(wanted)} expectations failed"
        lines = [f"{self.deployment}: {few}", *as_text(findings), *reasons.why(self.report, failed, wanted)]
        return [
            *lines,
            *nearest.describe(self._arguments, lambda changes: self._try(changes, wanted), self._owner._nearest),
        ]

    def _try(self, changes: Mapping[str, Any], wanted: Mapping[str, Bound]) -> nearest.Trial:
        """Replays with changed arguments, without files."""
        written = {*files.outputs(), "on_progress", "capture_per_request", "telemetry_options"}
        kept = {name: value for name, value in self._arguments.items() if name not in written}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run itself has given them
            report = _replay(self._kind, {**kept, **changes, "attribution": False})
        found = {figure: bounds.value_of(report, figure, wanted) for figure in wanted}
        shown = ", ".join(f"{figure} {bounds.number(figure, found[figure])}" for figure in wanted)
        return nearest.Trial(changes, all(wanted[figure].holds(found[figure]) for figure in wanted), shown)


def _replay(kind: str, arguments: Mapping[str, Any]) -> Report:
    run = api.run_trace_replay if kind == "trace" else api.run_synthetic_trace_replay
    return run(**arguments)


def _long(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names that replays have for them."""
    named = {_SHORT.get(name, name): value for name, value in arguments.items()}
    if len(named) < len(arguments):
        short = next(name for name in arguments if _SHORT.get(name) in arguments)
        raise ValueError(f"{short}: given twice, as {_SHORT[short]}, too")
    return named


def _margin(figure: str, written: object) -> tuple[float, bool]:
    """Returns how far a figure may be from its baseline: a number, and whether that is a share of the baseline."""
    found = _TOLERANCE.fullmatch(written) if isinstance(written, str) else None
    if found is None or (found[2] != "%" and found[2] not in bounds.units_of(figure)):
        raise ValueError(
            f'{figure}: got {values.show(written)}, want how far it may be from its baseline, such as "2 %"'
        )
    margin = float(found[1])
    if not math.isfinite(margin):
        raise ValueError(f"{figure}: got {values.show(written)}, want {values.FINITE}")
    return (margin / 100, True) if found[2] == "%" else (margin * bounds.units_of(figure)[found[2]], False)
