"""Sweeps on a Ray cluster: two nodes on this machine, started by the test."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import leftovers
import pytest
from conftest import command, refused

from dynamo import sweep
from dynamo.sweep.cluster import relocated

pytest.importorskip("ray")

PROJECT = Path(__file__).parent.parent
SPEC = {
    "run": {"trace": "examples/traces/conversation_400.jsonl.gz"},
    "search": {
        "num_workers": [1, 2, 3, 4],
        "engine.max_num_seqs": [16, 64, 256],
        "timing": {
            "settings": {
                "polynomial": {},
                "measured": {"engine.planner_profile_data": "examples/profiles/small.npz"},
            }
        },
    },
    "where": "num_workers < 4",
}


@pytest.fixture
def cluster(folder: Path) -> Iterator[str]:
    """The address of a cluster of two nodes with a processor each, whose workers run in another folder."""
    (folder / "examples").symlink_to(PROJECT / "examples")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(elsewhere)
        started = two_nodes()
    try:
        yield started.address
    finally:
        started.shutdown()


def two_nodes(tries: int = 5) -> Any:
    """A cluster. Ray gives a node half a minute to start, which a busy machine may exceed: it is then tried again."""
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}
    for left in reversed(range(tries)):
        try:
            started = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
            started.add_node(**node)
            return started
        except Exception:
            leftovers.end("DYNOSIM_TEST", os.environ["DYNOSIM_TEST"], patience_s=0)
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def stored(folder: str) -> list[Any]:
    connection = sqlite3.connect(f"{folder}/results.sqlite")
    try:
        return connection.execute("SELECT key, status, reason, report, warnings FROM runs ORDER BY key").fetchall()
    finally:
        connection.close()


def test_two_nodes_give_the_same_bytes_as_threads(cluster: str) -> None:
    """The nodes do not see the relative paths of the specification: they get the files."""
    Path("spec.json").write_text(json.dumps(SPEC))
    words = ["run", "spec.json", "-o", "ray", "--executor", "ray", "--address", cluster]
    done = subprocess.run(command(*words, module="dynamo.sweep"), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done
    assert "Simulated 18 runs by 2 Ray workers on 2 nodes" in done.stdout
    sweep.run(SPEC, "threads")
    assert len(stored("ray")) == 18
    assert stored("ray") == stored("threads")
    for name in ("points.csv", "points.parquet"):
        assert Path("ray", name).read_bytes() == Path("threads", name).read_bytes()


def test_no_cluster(folder: Path) -> None:
    (folder / "examples").symlink_to(PROJECT / "examples")
    Path("spec.json").write_text(json.dumps({**SPEC, "executor": "ray"}))
    words = command("run", "spec.json", "-o", "out", module="dynamo.sweep")
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert re.match(r"error: address: cannot join the Ray cluster 'auto': ", refused(done))
    assert not Path("out").exists()


def test_paths_that_are_elsewhere() -> None:
    run = {
        "trace_files": ["t.jsonl"],
        "input_tokens": "empirical(t.jsonl)",
        "extra_engine_args": '{"planner_profile_data": "t.jsonl", "aic_model_path": "models/tiny"}',
        "num_workers": 2,
    }
    moved = relocated(relocated(run, "t.jsonl", "/x/t.jsonl"), "models/tiny/config.json", "/x/models/tiny/config.json")
    assert moved == {
        "trace_files": ["/x/t.jsonl"],
        "input_tokens": "empirical(/x/t.jsonl)",
        "extra_engine_args": '{"planner_profile_data": "/x/t.jsonl", "aic_model_path": "/x/models/tiny"}',
        "num_workers": 2,
    }
