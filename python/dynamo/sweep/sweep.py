"""Sweeps from Python: ``run``, ``resume``, ``load``, and what they return."""

from __future__ import annotations

import hashlib
import html
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dynamo import _core
from dynamo._core import values
from dynamo._shell import notebookbar
from dynamo.replay import files
from dynamo.sweep import bootstrap, points, report, summary, versions
from dynamo.sweep.calibrated import calibrated
from dynamo.sweep.evaluate import Evaluator
from dynamo.sweep.executors import open_executor
from dynamo.sweep.folder import RESULTS_FILE, SPEC_FILE, Folder
from dynamo.sweep.inputs import named_files
from dynamo.sweep.points import Knobs
from dynamo.sweep.runs import Runs
from dynamo.sweep.search import open_search
from dynamo.sweep.simulate import Traces
from dynamo.sweep.spec import Given, Spec, trace_files
from dynamo.sweep.spec import load as load_spec
from dynamo.sweep.store import FAILED, TIMED_OUT, Store, StoreError
from dynamo.sweep.team import OnProgress, Team

if TYPE_CHECKING:
    import pandas as pd

    from dynamo.sweep.explorer import SweepExplorer

# Combinations that are looked at before anything is written, to tell a mistake in the run from one in some points.
_MOST_TRIED = 64

_Opened = TypeVar("_Opened")


class Sweep:
    """The result of a sweep: ``content`` is all that its report shows, as docs/sweeps.md describes it."""

    def __init__(self, content: Mapping[str, Any], directory: Path | None, simulated: int = 0, place: str = "") -> None:
        self.content = content
        self.simulated = simulated
        """Runs that had to be simulated; all others were known."""
        self.place = place
        """Where they were, in words."""
        self.directory = directory
        """The folder that holds it; None if it was a temporary one."""

    @property
    def points(self) -> list[Mapping[str, Any]]:
        """All points, in the order in which they were added."""
        found: list[Mapping[str, Any]] = self.content["points"]
        return found

    @property
    def front(self) -> list[Mapping[str, Any]]:
        """The points that no other one beats, the best of the first objective first."""
        by_id = {point["id"]: point for point in self.points}
        return [by_id[found] for found in self.content["fronts"]["all"]]

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.points)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.content["counts"].items())
        return f"<Sweep of {len(self)} points: {counts}>"

    def __str__(self) -> str:
        return report.text(self.content)

    def _repr_html_(self) -> str:
        """The report, for notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def explore(self, *, height: int = 900) -> SweepExplorer:
        """The page of the sweep as an output of a notebook, ``height`` pixels high.

        With anywidget it has a button that simulates the run of a point and shows its page below; without, or without a
        kernel, it filters, sorts and selects.
        """
        from dynamo.sweep.explorer import SweepExplorer

        if values.integer("height", height) < 1:
            raise ValueError(f"height: got {height}, want an integer >= 1")
        return SweepExplorer(self.content, int(height))

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with a row for each point: knobs, status, figures, the ends of their intervals, the command.

        Raises ImportError without pandas.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError(f"to_pandas needs pandas ({error}): pip install 'dynosim[data]'", name="pandas") from None
        return pandas.DataFrame(report.table(self.content)).set_index("id")


def run(
    spec: Given,
    directory: str | os.PathLike[str] | None = None,
    *,
    store: str | os.PathLike[str] | None = None,
    calibration: str | os.PathLike[str] | None = None,
    executor: str | None = None,
    jobs: int | None = None,
    address: str | None = None,
    on_progress: OnProgress | None = None,
) -> Sweep:
    """Carries out a sweep, or what is left of it.

    Args:
        spec: The specification: a dict, or the path of a YAML or JSON file. docs/sweeps.md describes it.
        directory: Where points and results are kept, so that the sweep can be resumed. Without it, in a temporary
            folder.
        store: A file for the results of runs, which several sweeps may share; in the folder if not given.
        calibration: A calibration profile for the engines of all runs, in place of those in ``run``; ``"auto"`` for the
            one that is shipped.
        executor: ``"threads"``, ``"processes"`` or ``"ray"``. This one, jobs and address win over the specification.
        jobs: Runs at the same time; as many as there are processors if not given.
        address: The Ray cluster.
        on_progress: Called about ten times a second with a ``Progress``, in the calling thread.

    Returns:
        All points with their figures.

    Raises:
        TypeError, ValueError: The specification breaks a rule, or the folder holds another sweep. Nothing has run.
        FileNotFoundError: An input file is missing.
        RuntimeError: The results cannot be kept, for instance because the disk is full.
    """
    checked = _overridden(load_spec(spec), executor, jobs, address)
    if calibration is not None:
        checked = calibrated(checked, calibration)
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="dynosim-sweep-") as folder:
            return _carry_out(checked, Path(folder), _path(store), (), on_progress, keeps=False)
    return _carry_out(checked, Path(values.path("directory", directory)), _path(store), (), on_progress)


def resume(
    directory: str | os.PathLike[str],
    *,
    retry: bool = False,
    executor: str | None = None,
    jobs: int | None = None,
    address: str | None = None,
    on_progress: OnProgress | None = None,
) -> Sweep:
    """Goes on with a sweep that was interrupted. Arguments and exceptions are those of ``run``.

    With ``retry``, points that have failed or were not finished in time are tried again.
    """
    folder = Folder.existing(directory)
    try:
        spec, store = _spec_of(folder), folder.fact("store")
        begun_in = folder.fact("cwd")
    finally:
        folder.close()
    if begun_in != os.getcwd() and any(not Path(path).is_absolute() for path in trace_files(spec.run)):
        raise ValueError(f"{directory}: was begun in {begun_in}, where its paths start: want it resumed there")
    again = (FAILED, TIMED_OUT) if retry else ()
    return _carry_out(_overridden(spec, executor, jobs, address), folder.path, _path(store), again, on_progress)


def load(directory: str | os.PathLike[str]) -> Sweep:
    """The results that a folder holds so far. Raises ValueError or FileNotFoundError."""
    folder = Folder.existing(directory)
    try:
        return Sweep(summary.describe(_spec_of(folder), folder), folder.path)
    finally:
        folder.close()


def _path(path: str | os.PathLike[str] | None) -> Path | None:
    return None if path is None else Path(values.path("store", path)).expanduser().absolute()


def _spec_of(folder: Folder) -> Spec:
    given = folder.fact("given")
    if given is None:
        raise ValueError(f"{folder.path}: its sweep has not begun, want python -m dynamo.sweep run")
    return load_spec(given)


def _overridden(spec: Spec, executor: str | None, jobs: int | None, address: str | None) -> Spec:
    """The specification with what the caller says of how it is carried out."""
    given = {"executor": executor, "jobs": jobs, "address": address}
    changed = {name: value for name, value in given.items() if value is not None}
    if not changed:
        return spec
    return load_spec({**spec.given, **changed})


def _carry_out(
    spec: Spec,
    path: Path,
    store: Path | None,
    again: tuple[str, ...],
    on_progress: OnProgress | None,
    *,
    keeps: bool = True,
) -> Sweep:
    if spec.bootstrap:
        bootstrap.check(spec)
    inputs = {name: _hash(name) for name in (bootstrap.traces(spec) if spec.bootstrap else trace_files(spec.run))}
    inputs |= {name: _hash(name) for name in named_files(spec.given) if name not in inputs}
    search, traces = open_search(spec), Traces()
    with ExitStack() as held:
        executor = held.enter_context(closing(open_executor(spec, traces)))
        _try_out(spec, traces)
        # Before the folder is made: a store that is refused must not leave one behind.
        shared = None if store is None else held.enter_context(closing(_open("--store", Store, store)))
        folder = held.enter_context(closing(_begun(spec, path, inputs, store)))
        results = shared or held.enter_context(closing(_open("-o", Store, path / RESULTS_FILE)))
        runs = Runs(results, executor, traces)
        draws = _draws(spec, path)
        folder.reopen(versions.core(), again)
        evaluator = Evaluator(spec, runs, draws)
        with notebookbar.bar("points") as bar:
            show = on_progress or (None if bar is None else lambda now: bar(now.done, now.total, now.text()))
            Team(spec, folder, runs, evaluator, search, versions.core()).work(executor.slots, show)
        content = summary.describe(spec, folder)
    if keeps:
        report.write(content, path)
    return Sweep(content, path if keeps else None, runs.carried_out, executor.place())


def _draws(spec: Spec, path: Path) -> Callable[[Knobs], Sequence[Knobs]]:
    """Returns a function of a point: the keys that each of its repetitions sets."""
    if spec.bootstrap:
        return bootstrap.Draws(spec, path / "bootstrap")
    draws = [{"seed": seed} for seed in spec.seeds] if "seeds" in spec.given else [{}]
    return lambda knobs: draws


def _hash(path: str) -> str:
    """The SHA-256 of an input file. Raises FileNotFoundError or ValueError."""
    try:
        return hashlib.sha256(Path(path).expanduser().read_bytes()).hexdigest()
    except FileNotFoundError:
        raise FileNotFoundError(f"run: trace: {path}: no such file") from None
    except OSError as error:
        raise ValueError(f"run: trace: cannot read {path}: {error.strerror}") from None


def _open(option: str, kind: Callable[[Path], _Opened], path: Path) -> _Opened:
    """Opens what an option names. Raises ValueError with the option: nothing has run that could be lost."""
    try:
        return kind(path)
    except OSError as error:
        raise ValueError(f"{option}: cannot write to {str(path)!r}: {error.strerror}") from None
    except StoreError as error:
        raise ValueError(f"{option}: {error.fault}, want another file or folder") from None


def _begun(spec: Spec, path: Path, inputs: Mapping[str, str], store: Path | None) -> Folder:
    """The folder of this sweep, made if it is not there. Raises ValueError if it is that of another one."""
    folder = _open("-o", Folder, path)
    try:
        folder.begin({"spec": spec.identity(), "inputs": inputs, "store": None if store is None else str(store)})
        if folder.fact("given") is None:
            folder.keep("cwd", os.getcwd())
            folder.keep("given", dict(spec.given))
            files.write_whole(path / SPEC_FILE, json.dumps(spec.given, indent=1) + "\n")
    except BaseException:
        folder.close()
        raise
    return folder


def _try_out(spec: Spec, traces: Traces) -> None:
    """Raises ValueError if the run is refused whatever the knobs say: a mistake in the run, not in some points."""
    reason = ""
    for knobs in itertools.islice(_variations(spec), _MOST_TRIED):
        try:
            config = points.plain(points.configure(spec, knobs))
            facts = _core.foresee([config], traces.of(config))["runs"][0]
        except (TypeError, ValueError, FileNotFoundError) as error:
            facts = {"error": str(error)}
        if "error" not in facts:
            return
        reason = reason or facts["error"]
    raise ValueError(f"run: {reason}")


def _variations(spec: Spec) -> Iterator[dict[str, Any]]:
    """The first values of all knobs, then those with one knob varied at a time."""
    first = {knob.name: knob.values[0] for knob in spec.search}
    yield points.effective(spec, first)
    for knob in spec.search:
        for value in knob.values[1:]:
            yield points.effective(spec, {**first, knob.name: value})
