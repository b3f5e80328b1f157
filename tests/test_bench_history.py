"""What `make bench-gate` makes of ratios, with made-up histories."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MACHINE = {"cpu": "Make Believe 9000", "cores": 4}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def history() -> ModuleType:
    return load("history")


def test_a_run_that_simulates_nothing_has_no_ratio_of_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    speed = load("speed")
    ours, theirs = speed.Sample(1e-4, 0.1, 20.0, 5.0, 0.08), speed.Sample(1e-2, 2.0, 80.0, 5.0, 1.6)
    assert set(speed.least_ratios("kv-4w", [ours], [theirs])) == {"simulation", "cpu", "memory"}
    assert speed.least_ratios("start-up", [ours], [theirs]) == pytest.approx({"cpu": 20.0, "memory": 4.0})


def test_a_fall_beyond_the_tolerance_is_found(history: ModuleType) -> None:
    before = {"a": {"simulation": 100.0, "cpu": 40.0}, "b": {"cpu": 10.0}}
    now = {"a": {"simulation": 84.9, "cpu": 34.1}, "b": {"cpu": 30.0}}
    assert history.falls(before, now) == [{"workload": "a", "measure": "simulation", "before": 100.0, "now": 84.9}]


def test_what_was_not_recorded_is_not_compared(history: ModuleType) -> None:
    assert history.falls({"a": {"cpu": 10.0}}, {"a": {"memory": 1.0}, "new": {"cpu": 1.0}}) == []
    assert history.falls({"gone": {"cpu": 10.0}}, {}) == []


def test_the_latest_record_of_a_ratio_counts(history: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "history" / "machine.json"
    assert history.load(path) == []
    history.append(path, history.new_record(MACHINE, {"a": {"cpu": 10.0, "memory": 2.0}, "b": {"cpu": 5.0}}))
    history.append(path, history.new_record(MACHINE, {"a": {"cpu": 20.0}}))
    assert history.recorded(history.load(path)) == {"a": {"cpu": 20.0, "memory": 2.0}, "b": {"cpu": 5.0}}


def test_a_repeated_measurement_can_only_raise_a_ratio(history: ModuleType) -> None:
    first, again = {"a": {"cpu": 5.0, "memory": 3.0}, "b": {"cpu": 1.0}}, {"a": {"cpu": 9.0, "memory": 2.0}}
    assert history.better(first, again) == {"a": {"cpu": 9.0, "memory": 3.0}, "b": {"cpu": 1.0}}


def test_kinds_of_machines_have_files_of_their_own(history: ModuleType, tmp_path: Path) -> None:
    others = [{"cpu": "Make-Believe 9000", "cores": 4}, {**MACHINE, "cores": 8}]
    files = {history.file_of(machine, tmp_path).name for machine in [MACHINE, *others]}
    assert len(files) == 3
    assert history.file_of(MACHINE, tmp_path).name.startswith("make-believe-9000-4-cores-")
    assert history.this_machine()["cores"] == os.cpu_count()


def test_records_name_no_host_and_no_path(history: ModuleType) -> None:
    paths = sorted((BENCHMARKS / "history").glob("*.json"))
    texts = [path.read_text() for path in paths]
    texts.append(json.dumps(history.new_record(history.this_machine(), {"a": {"cpu": 1.0}})))
    for text in texts:
        assert "/" not in text
        assert platform.node() not in text
    for path in paths:
        for record in history.load(path):
            assert set(record) == {"date", "commit", "machine", "ratios"}
            assert history.file_of(record["machine"]).name == path.name
