"""Parts of a sweep by themselves: intervals, fronts, conditions, memory admission."""

from __future__ import annotations

import itertools
import math
import os
import random
import threading
from typing import Any

import pytest
from livetools import until

from dynamo._shell.cores import cores
from dynamo.sweep import analysis, expressions, figures
from dynamo.sweep.admission import Admission
from dynamo.sweep.analysis import Candidate, Tried
from dynamo.sweep.bootstrap import resample
from dynamo.sweep.expressions import Absent
from dynamo.sweep.spec import Objective

BOTH = [Objective("a", True), Objective("b", False)]


def candidates(*numbers: tuple[float, float]) -> list[Candidate]:
    return [Candidate(i, {}, "agg", pair) for i, pair in enumerate(numbers)]


def test_students_quantile() -> None:
    """Values from tables, on either side of where the expansion takes over."""
    for freedom, quantile in ((1, 12.7062), (10, 2.22814), (30, 2.04227), (31, 2.03951), (60, 2.0003), (1000, 1.96234)):
        assert figures.quantile(freedom) == pytest.approx(quantile, abs=1e-5)


def test_intervals_of_draws_and_of_bootstrapped_traces() -> None:
    runs = [{"x": 10.0, "y": 1.0}, {"x": 12.0, "y": None}, {"x": 14.0, "y": 1.0}]
    drawn = figures.combine(runs, around_first=False)
    assert set(drawn) == {"x"}  # a run lacks the other
    assert drawn["x"] == pytest.approx((12, 12 - 4.302653 * 2 / 3**0.5, 12 + 4.302653 * 2 / 3**0.5))
    around = figures.combine(runs, around_first=True)["x"]
    assert around == pytest.approx((10, 10 - 12.7062 * 2**0.5, 10 + 12.7062 * 2**0.5), rel=1e-5)
    assert figures.combine(runs[:1], around_first=False)["y"] == (1, None, None)


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_what_nothing_beats(seed: int) -> None:
    draw = random.Random(seed)
    points = candidates(*((draw.randrange(8), draw.randrange(8)) for _ in range(40)))
    plain = {
        c.objectives
        for c in points
        if not any(
            o.objectives != c.objectives and o.objectives[0] >= c.objectives[0] and o.objectives[1] <= c.objectives[1]
            for o in points
        )
    }
    found = analysis.front(points, BOTH)
    assert {c.objectives for c in found} == plain
    assert len(found) == len(plain)  # of equals, one
    corners = analysis.hull(points, BOTH)
    assert (corners[0], corners[-1]) == (found[0], found[-1])
    for c in found:  # none is outside of the hull
        for a, b in itertools.pairwise(corners):
            (ax, ay), (bx, by), (x, y) = a.objectives, b.objectives, c.objectives
            assert (bx - ax) * (y - ay) - (by - ay) * (x - ax) <= 0


@pytest.mark.parametrize("seed", range(20))
def test_the_best_point_is_one_of_the_front(seed: int) -> None:
    draw = random.Random(seed)
    points = [
        Candidate(i, {}, "agg", (draw.randrange(3), draw.randrange(3)), cost=draw.randrange(3)) for i in range(30)
    ]
    found = analysis.front(points, BOTH)
    for index in range(2):
        best = analysis.best(points, BOTH, index)
        assert best is not None
        assert best.objectives[index] == (max, min)[index](c.objectives[index] for c in points)
        assert best in found
        equals = [(c.cost, c.id) for c in points if c.objectives == best.objectives]
        assert (best.cost, best.id) == min(equals)
    assert analysis.best([], BOTH, 0) is None


def test_hypervolume() -> None:
    points = candidates((4, 3), (2, 1), (3, 2), (1, 3))
    assert analysis.hypervolume(points, BOTH, (0, 4)) == 4 * 1 + 3 * 1 + 2 * 1
    assert analysis.hypervolume(points, BOTH, (5, 4)) == 0


def test_influence() -> None:
    points = [Tried({"k": i % 2, "l": i % 3}, 10.0 * (i % 2)) for i in range(6)]
    first, second = analysis.influence(points, {"l": [0, 1, 2], "k": [0, 1]}, maximize=True)
    assert (first["knob"], first["share"], second["share"]) == ("k", 1, 0)
    assert (first["pairs"], second["pairs"]) == (3, 6)
    (effect,) = first["effects"]
    assert {name: effect[name] for name in ("from", "to", "pairs", "mean_from", "mean_to", "better", "worse")} == {
        "from": "0", "to": "1", "pairs": 3, "mean_from": 0, "mean_to": 10, "better": 3, "worse": 0,
    }  # fmt: skip
    assert [(e["from"], e["to"], e["better"], e["worse"]) for e in second["effects"]] == [
        ("0", "1", 0, 0),
        ("1", "2", 0, 0),
    ]


def test_influence_compares_equals_only() -> None:
    """The router b wins every pair, but what it alone makes possible is slow: its mean over all points is lower."""
    numbers = {("a", 1): 50.0, ("b", 1): 60.0, ("a", 2): None, ("b", 2): 20.0, ("a", 3): None, ("b", 3): 10.0}
    tried = [Tried({"router": router, "load": load}, number) for (router, load), number in numbers.items()]
    entries = analysis.influence(tried, {"router": ["a", "b"], "load": [1, 2, 3]}, maximize=True)
    by_knob = {entry["knob"]: entry for entry in entries}
    assert by_knob["router"]["pairs"] == 1
    (effect,) = by_knob["router"]["effects"]
    assert (effect["mean_from"], effect["mean_to"], effect["better"], effect["worse"]) == (50, 60, 1, 0)
    assert (effect["only_from"], effect["only_to"]) == (0, 2)
    assert by_knob["load"]["pairs"] == 3  # 60, 20 and 10 of b; a has only one
    assert math.fsum(entry["share"] for entry in entries) == pytest.approx(1)


def test_a_knob_that_means_nothing_is_equal_to_any() -> None:
    tried = [Tried({"n": 1}, 1.0), Tried({"n": 2, "router": "a"}, 2.0), Tried({"n": 2, "router": "b"}, 3.0)]
    by_knob = {e["knob"]: e for e in analysis.influence(tried, {"n": [1, 2], "router": ["a", "b"]}, maximize=False)}
    assert by_knob["n"]["pairs"] == 2
    assert by_knob["n"]["effects"][0]["worse"] == 2
    assert by_knob["router"]["pairs"] == 1


def test_influence_without_pairs() -> None:
    tried = [Tried({"k": 1, "l": 1}, 1.0), Tried({"k": 2, "l": 2}, 2.0)]
    for entry in analysis.influence(tried, {"k": [1, 2], "l": [1, 2]}, maximize=True):
        assert (entry["share"], entry["pairs"], entry["effects"]) == (0, 0, [])
    many = [Tried({"k": k}, float(k)) for k in range(20)]
    (entry,) = analysis.influence(many, {"k": list(range(20))}, maximize=True)
    (effect,) = entry["effects"]
    assert (effect["from"], effect["to"], effect["better"]) == ("a value", "the next larger one", 19)


NAMES = {"gpus": 8, "engine.max_num_seqs": 64, "mode": "kv"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("gpus <= 8", True),
        ("4 < gpus < 8", False),
        ("gpus * 2 == 16 and mode in ['kv', 'rr']", True),
        ("not (gpus > 4 or mode == 'kv')", False),
        ("min(gpus, engine.max_num_seqs) == 8", True),
        ("engine.max_num_seqs // gpus % 3 != 2", False),
        ("absent > 3", True),
        ("-gpus + abs(-2) < 0", True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    def lookup(name: str) -> Any:
        if name == "absent":
            raise Absent(name)
        return NAMES[name]

    assert expressions.parse(text, [*NAMES, "absent"]).holds(lookup) is holds


NO_ARITHMETIC = [
    *(
        "gpus.__class__",
        "(1).real",
        "open('x')",
        "[g for g in gpus]",
        "gpus ** 9",
        "lambda: 1",
        "gpus := 1",
        "f'{gpus}'",
    ),
    *(
        "gpus[0]",
        "min(*gpus)",
        "'a'.join",
        "a" * 2000,
        "(" * 300 + "1" + ")" * 300,
        "gpus <",
        "\x00",
        "1 if gpus else 2",
    ),
]


@pytest.mark.parametrize("text", NO_ARITHMETIC)
def test_conditions_are_nothing_but_arithmetic(text: str) -> None:
    with pytest.raises(ValueError, match="where: "):
        expressions.parse(text, NAMES)


@pytest.mark.parametrize("text", ["mode < 3", "mode * 3 == 1", "gpus / 0 > 1", "gpus in 3"])
def test_conditions_on_the_wrong_values(text: str) -> None:
    with pytest.raises(ValueError, match="where: "):
        expressions.parse(text, NAMES).holds(NAMES.__getitem__)


def test_runs_wait_for_memory() -> None:
    """A run may need three times its estimate. One is let in however large it is."""
    admission, inside, go = Admission(100), [], threading.Event()

    def run(name: str, needed: int, alone: bool = False) -> None:
        with admission.admit(needed, lambda: None, alone=alone):
            inside.append(name)
            go.wait()

    threads = [threading.Thread(target=run, args=("large", 30))]
    threads[0].start()
    until(lambda: inside == ["large"])
    with pytest.raises(InterruptedError), admission.admit(4, _give_up):
        raise AssertionError("there is no room")
    with pytest.raises(InterruptedError), admission.admit(0, _give_up, alone=True):
        raise AssertionError("it is not alone")
    threads.append(threading.Thread(target=run, args=("small", 3)))
    threads[1].start()
    until(lambda: inside == ["large", "small"])
    go.set()
    for thread in threads:
        thread.join()
    with admission.admit(1000, _give_up), pytest.raises(InterruptedError), admission.admit(1, _give_up):
        raise AssertionError("there is no room")


def _give_up() -> None:
    raise InterruptedError


def test_copies_of_a_session_share_what_others_share() -> None:
    sessions = [[{"hash_ids": [1, 10 + i]}, {"hash_ids": [1, 10 + i, 20 + i]}] for i in range(6)]
    rows = list(resample(sessions, 3))
    assert len(rows) == 12
    assert all(row["hash_ids"][0] == 1 for row in rows)
    assert rows == list(resample(sessions, 3))
    assert rows != list(resample(sessions, 4))
    firsts = [row["hash_ids"][1] for row in rows if len(row["hash_ids"]) == 2]
    assert len(set(firsts)) == 6
    for one, two in zip(rows[::2], rows[1::2], strict=True):  # the turns of a copy belong together
        assert one["hash_ids"] == two["hash_ids"][:2]


def test_cores_of_machines_that_do_not_tell_which_a_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, where sweeps begin with as many runs at a time as there are cores."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert cores() == 7
