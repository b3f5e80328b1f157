"""Points that Optuna proposes: NSGA-II, TPE, or a quasi-random sequence.

The study is kept in Optuna's journal beside the results, where its dashboard can read it.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamo.sweep import points
from dynamo.sweep.evaluate import figure
from dynamo.sweep.folder import Folder, Point
from dynamo.sweep.owners import exclusive
from dynamo.sweep.ranges import Knob
from dynamo.sweep.sla import bound_of
from dynamo.sweep.spec import NSGA2, QMC, Spec

JOURNAL_FILE = "optuna.journal"
_STUDY = "dynosim"
_POINT, _VIOLATION = "point", "violation"
# Batches in a row that hold nothing new before a search is over.
_MOST_STALE = 30
_TPE_BATCH, _QMC_BATCH = 16, 256
_POPULATION = (16, 50)


class Sampled:
    """A study of Optuna with a number of different points."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._optuna = _optuna()
        assert spec.points is not None
        self.total = min(spec.points, spec.grid_size) if _is_finite(spec) else spec.points

    def extend(self, folder: Folder, made_by: str) -> bool:
        with exclusive(folder.path / ".sampler") as mine:
            if not mine or folder.open_points():
                return True
            _cut_torn_line(folder.path / JOURNAL_FILE)
            study = self._study(folder.path / JOURNAL_FILE)
            for _ in range(_MOST_STALE):
                self._tell(study, folder)
                room = self.total - sum(folder.counts().values())
                if room <= 0:
                    return False
                proposed = dict.fromkeys(self._ask(study))
                fresh = [identity for identity in proposed if folder.find(identity) is None][:room]
                if fresh:
                    folder.add(len(study.trials), fresh, made_by)
                    return True
            return False

    def _study(self, path: Path) -> Any:
        journal = importlib.import_module("optuna.storages.journal")
        backend = journal.JournalFileBackend(str(path), lock_obj=_Held())
        storage = self._optuna.storages.JournalStorage(backend)
        study = self._optuna.create_study(
            study_name=_STUDY,
            storage=storage,
            load_if_exists=True,
            directions=["maximize" if objective.maximize else "minimize" for objective in self._spec.objectives],
        )
        return study

    def _sampler(self, batch: int) -> Any:
        """A sampler for one batch. Its seed is that of the batch, so that a resumed search draws what it would have."""
        samplers = self._optuna.samplers
        seed = (self._spec.sampler_seed * 1_000_003 + batch) % 2**32
        with warnings.catch_warnings():  # of what is marked as experimental
            warnings.simplefilter("ignore")
            if self._spec.sampler == QMC:
                return samplers.QMCSampler(seed=self._spec.sampler_seed, scramble=True)
            if self._spec.sampler == NSGA2:
                size = self._batch_size()
                return samplers.NSGAIISampler(population_size=size, seed=seed, constraints_func=_violations)
            return samplers.TPESampler(seed=seed, constant_liar=True, constraints_func=_violations)

    def _batch_size(self) -> int:
        if self._spec.sampler == QMC:
            return _QMC_BATCH
        return min(max(self.total // 10, _POPULATION[0]), _POPULATION[1]) if self._spec.sampler == NSGA2 else _TPE_BATCH

    def _ask(self, study: Any) -> list[str]:
        study.sampler = self._sampler(len(study.trials))
        found = []
        for _ in range(self._batch_size()):
            trial = study.ask()
            knobs = {knob.name: _suggest(trial, knob) for knob in self._spec.search}
            identity = points.identity(points.effective(self._spec, knobs))
            trial.set_user_attr(_POINT, identity)
            found.append(identity)
        return found

    def _tell(self, study: Any, folder: Folder) -> None:
        """Tells the study what has become of the points that it has proposed."""
        study.sampler = self._sampler(len(study.trials))
        states = self._optuna.trial.TrialState
        for frozen in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            trial = self._optuna.trial.Trial(study, frozen._trial_id)
            point = folder.find(frozen.user_attrs.get(_POINT, ""))
            numbers = None if point is None else self._objectives(point)
            if numbers is None:
                study.tell(trial, state=states.FAIL)
                continue
            assert point is not None
            trial.set_user_attr(_VIOLATION, _violation(point))
            study.tell(trial, numbers)

    def _objectives(self, point: Point) -> list[float] | None:
        """The objectives of a point, None if it has no figures."""
        figures = point.outcome.get("figures", {})
        found = [figures.get(objective.figure) for objective in self._spec.objectives]
        if None in found:
            return None
        return [figure(number).mean for number in found]


def _optuna() -> Any:
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise ValueError("sampler: Optuna is missing: pip install 'dynosim[sweep]'") from None
    optuna.logging.set_verbosity(logging.WARNING)
    return optuna


class _Held:
    """A lock of the journal that does nothing: only the process with the lock of the folder opens it."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return


def _is_finite(spec: Spec) -> bool:
    return all(knob.interval is None for knob in spec.search)


def _suggest(trial: Any, knob: Knob) -> Any:
    """A value of a knob. Numbers are drawn by their place in the grid, so that neighbours are near."""
    if (free := knob.interval) is not None:
        draw = trial.suggest_int if free.integer else trial.suggest_float
        return draw(knob.name, free.low, free.high, log=free.log)
    if len(knob.values) == 1:
        return knob.values[0]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in knob.values):
        return knob.values[trial.suggest_int(knob.name, 0, len(knob.values) - 1)]
    labels = {points.label(value): value for value in knob.values}
    return labels[trial.suggest_categorical(knob.name, list(labels))]


def _violation(point: Point) -> list[float]:
    """How far a point is beyond each bound of the SLA, 0 or less within it."""
    return [_excess(verdict) for verdict in point.outcome.get("sla", [])]


def _excess(verdict: Mapping[str, Any]) -> float:
    if verdict["met"]:
        return 0.0
    value: float | None = verdict["value"]
    return 1e9 if value is None else bound_of(verdict).excess(value)


def _violations(trial: Any) -> Sequence[float]:
    found: Sequence[float] = trial.user_attrs.get(_VIOLATION, [])
    return found


def _cut_torn_line(path: Path) -> None:
    """Removes what a process that was killed has written of a last line."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
