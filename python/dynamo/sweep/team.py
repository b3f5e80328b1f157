"""The threads that evaluate points, and the thread that watches over them."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable

from dynamo.sweep import analysis, points, summary
from dynamo.sweep.analysis import Candidate
from dynamo.sweep.evaluate import Evaluator
from dynamo.sweep.folder import Finished, Folder, Point
from dynamo.sweep.progress import Progress
from dynamo.sweep.runs import Runs
from dynamo.sweep.search import Search
from dynamo.sweep.simulate import Stopped
from dynamo.sweep.spec import Spec
from dynamo.sweep.store import FAILED, StoreError

_TICK_SECONDS = 0.1
# For how many points at a time it is asked what is known of them.
_AHEAD = 64
# How long points that another process has taken are left alone before they are looked at again.
_OTHERS_SECONDS = 0.2

OnProgress = Callable[[Progress], object]


class Team:
    """Evaluates the points of a folder until there are no more."""

    def __init__(
        self, spec: Spec, folder: Folder, runs: Runs, evaluator: Evaluator, search: Search, made_by: str
    ) -> None:
        self._spec, self._folder, self._runs = spec, folder, runs
        self._evaluator, self._search, self._made_by = evaluator, search, made_by
        self._lock, self._ahead = threading.Lock(), threading.Lock()
        self._seen = 0  # up to this point, what can be known without a run is known
        self._finished = 0
        self._best: Candidate | None = None
        self._fatal: BaseException | None = None
        self._stopping = threading.Event()
        self._began = time.monotonic()

    def work(self, slots: int, on_progress: OnProgress | None) -> None:
        """Evaluates all points, ``slots`` at a time. What interrupts it leaves a folder that can be resumed."""
        show = on_progress or (lambda _: None)
        try:
            while True:
                self._round(slots, show)
                if self._folder.open_points():  # other processes have taken them
                    self._stopping.wait(_OTHERS_SECONDS)
                elif not self._search.extend(self._folder, self._made_by):
                    break
            show(self._progress())
        finally:
            self._stopping.set()

    def _round(self, slots: int, show: OnProgress) -> None:
        """Evaluates all points that are open now."""
        started: list[int] = []
        ended: list[int] = []  # a thread adds a number at its end
        try:
            for _ in range(min(slots, self._folder.open_points())):
                # Bare threads and lists: an interrupted Thread.join or Event.wait takes a thread that runs for ended.
                started.append(_thread.start_new_thread(self._serve, (ended,)))
            while len(ended) < len(started):
                show_again = time.monotonic() + _TICK_SECONDS
                while len(ended) < len(started) and time.monotonic() < show_again:
                    time.sleep(_TICK_SECONDS / 20)
                show(self._progress())
        except BaseException:
            self._stop()
            while len(ended) < len(started):
                time.sleep(_TICK_SECONDS / 20)
            raise
        if self._fatal is not None:
            raise self._fatal

    def _stop(self) -> None:
        self._stopping.set()
        self._runs.stop()

    def _serve(self, ended: list[int]) -> None:
        try:
            self._take_points()
        finally:
            ended.append(1)

    def _take_points(self) -> None:
        """One thread: takes points until there are none. What ends it, other than that, ends the sweep."""
        try:
            while not self._stopping.is_set() and (point := self._folder.take()) is not None:
                self._evaluate(point)
        except (Stopped, KeyboardInterrupt):
            self._stop()
        except BaseException as error:
            with self._lock:
                self._fatal = self._fatal or error
            self._stop()

    def _look_ahead(self, point: Point) -> None:
        with self._ahead:
            if point.id > self._seen:
                self._evaluator.look_ahead(self._folder.open_after(point.id, _AHEAD))
                self._seen = point.id + _AHEAD - 1

    def _evaluate(self, point: Point) -> None:
        try:
            self._look_ahead(point)
            finished = self._evaluator(point.knobs)
        except (Stopped, KeyboardInterrupt, StoreError, MemoryError):
            self._folder.give_back(point.id)
            raise
        except Exception as error:  # a mistake of ours in one point is no reason to lose the others
            finished = Finished(FAILED, f"internal error: {type(error).__name__}: {error}", {})
        self._folder.finish(point.id, finished)
        with self._lock:
            self._finished += 1
            self._keep_best(point, finished)

    def _keep_best(self, point: Point, finished: Finished) -> None:
        ended = point._replace(status=finished.status, reason=finished.reason, outcome=finished.outcome)
        found = summary.candidate(self._spec, ended)
        if found is not None:
            known = [found] if self._best is None else [self._best, found]
            self._best = analysis.best(known, self._spec.objectives, 0)

    def _best_in_words(self) -> str:
        if (best := self._best) is None:
            return ""
        return f"best {self._spec.objectives[0].figure} {best.objectives[0]:.5g} ({points.words(best.knobs)})"

    def _progress(self) -> Progress:
        counts = self._folder.counts()
        total = max(self._search.total, sum(counts.values()))
        done = sum(counts.values()) - counts.get("open", 0)
        with self._lock:
            rate = self._finished / max(time.monotonic() - self._began, 1e-9)
            left = (total - done) / rate if rate > 0 else None
            return Progress(done, total, rate, left, self._best_in_words())
