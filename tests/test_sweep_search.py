"""Searches that try a part of what is possible, through Optuna."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import command
from livetools import until
from test_sweep_store import rows

from dynamo import sweep
from dynamo.sweep import analysis
from dynamo.sweep.analysis import Candidate
from dynamo.sweep.spec import Objective

optuna = pytest.importorskip("optuna")

PROJECT = Path(__file__).parent.parent
EXAMPLE: dict[str, Any] = yaml.safe_load((PROJECT / "examples/sweeps/samplers.yaml").read_text())
SMALL = {
    "run": {"input_tokens": 400, "output_tokens": 20, "request_count": 200, "arrival_interval_ms": 4},
    "search": {
        "num_workers": {"linear": [1, 8]},
        "engine.max_num_seqs": [2, 4, 8, 16, 32],
        "router_mode": ["round_robin"],
    },
    "sampler": "nsga2",
    "points": 30,
}


def hypervolume(found: sweep.Sweep) -> float:
    """The area that the points dominate, from 0 in both objectives."""
    objectives = [Objective(o["figure"], o["maximize"]) for o in found.content["objectives"]]
    candidates = [
        Candidate(p["id"], p["knobs"], "agg", [p["figures"][o.figure] for o in objectives])
        for p in found
        if p["status"] == "ok"
    ]
    return analysis.hypervolume(candidates, objectives, [0, 0])


def knobs(found: sweep.Sweep) -> list[str]:
    return [json.dumps(p["knobs"]) for p in found]


def test_a_tenth_of_the_points_finds_the_front(folder: Path) -> None:
    """NSGA-II finds at least 95 % of the hypervolume of 5,000 points with 500 of them."""
    grid = sweep.run({key: value for key, value in EXAMPLE.items() if key not in ("sampler", "points")}, store="runs")
    part = sweep.run(EXAMPLE, store="runs")
    assert (len(grid), grid.simulated, len(part), part.simulated) == (5000, 5000, 500, 0)
    assert hypervolume(part) >= 0.95 * hypervolume(grid)


@pytest.mark.parametrize("sampler", ["nsga2", "tpe", "qmc"])
def test_equal_searches_try_equal_points(folder: Path, sampler: str) -> None:
    spec = {**SMALL, "sampler": sampler}
    first = sweep.run({**spec, "jobs": 1}, "first")
    assert len(set(knobs(first))) == 30
    assert knobs(sweep.run({**spec, "jobs": 4})) == knobs(first)
    assert knobs(sweep.run({**spec, "sampler_seed": 1})) != knobs(first)
    journal = optuna.storages.journal.JournalFileBackend("first/optuna.journal")
    study = optuna.load_study(study_name="dynosim", storage=optuna.storages.JournalStorage(journal))
    assert {json.dumps(json.loads(t.user_attrs["point"])) for t in study.trials} >= {
        json.dumps(p["knobs"], sort_keys=True) for p in first
    }


def test_a_killed_search_goes_on_as_it_would_have(folder: Path) -> None:
    spec = {**SMALL, "run": {**SMALL["run"], "request_count": 2000}}  # type: ignore[dict-item]
    Path("spec.json").write_text(json.dumps(spec))
    words = command("run", "spec.json", "-o", "out", module="dynamo.sweep")
    for wanted in (3, 18):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        until(lambda wanted=wanted: len(rows("SELECT 1 FROM points WHERE status IS NOT NULL")) >= wanted)
        process.kill()
        process.wait()
    both = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(timeout=300) for process in both] == [0, 0]
    assert knobs(sweep.load("out")) == knobs(sweep.run(spec))


def test_a_small_space_is_tried_whole() -> None:
    search = {"num_workers": [1, 2], "engine.max_num_seqs": [8, 16]}
    assert len(sweep.run({**SMALL, "search": search})) == 4


def test_a_large_grid_is_sampled() -> None:
    spec = {name: value for name, value in SMALL.items() if name not in ("sampler", "points")}
    assert len(sweep.run({**spec, "grid_limit": 40})) == 40
    assert len(sweep.run({**spec, "grid_limit": 39})) == 3  # a tenth of the limit


def test_free_ranges_are_sampled_between_their_points() -> None:
    search = {"engine.max_num_seqs": {"log": [1, 64]}, "engine.speedup_ratio": {"linear": [0.5, 2]}, "num_workers": [2]}
    found = sweep.run({**SMALL, "search": search, "sampler": "qmc", "points": 20})
    ratios = {p["knobs"]["engine.speedup_ratio"] for p in found}
    assert len(ratios) > 10
    assert all(0.5 <= ratio <= 2 for ratio in ratios)
    assert {type(p["knobs"]["engine.max_num_seqs"]) for p in found} == {int}


def test_infeasible_points_are_no_obstacle() -> None:
    found = sweep.run({**SMALL, "where": "num_workers <= 2", "points": 20})
    assert {p["status"] for p in found} == {"ok", "infeasible"}


def test_optuna_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r"^sampler: Optuna is missing: pip install 'dynosim\[sweep\]'$"):
        sweep.run(SMALL, "out")
    assert not Path("out").exists()
