"""How benchmarks call ai-dynamo 1.6, without it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
STAND_IN = """
class Report:
    def __init__(self, **summary): self.summary = summary
def run_trace_replay(*given, **named): return Report(kind="trace", given=given, named=named)
def run_synthetic_trace_replay(*given, **named): return Report(kind="synthetic", given=given, named=named)
"""


@pytest.fixture
def newest() -> ModuleType:
    spec = importlib.util.spec_from_file_location("newest", BENCHMARKS / "newest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_engine_arguments_become_nested(newest: ModuleType) -> None:
    flat = {"engine_type": "sglang", "block_size": 16, "dp_size": 2, "kv_bytes_per_token": 7}
    engine = {"backend": "sglang", "block_size": 16, "kv_transfer_bytes_per_token": 7}
    assert newest.nested(flat) == {"engine": {**engine, "timing_model": {"type": "polynomial"}}, "dp_size": 2}


@pytest.mark.parametrize(
    ("words", "kind", "given", "named"),
    [
        (["t.jsonl", "--num-workers", "2"], "trace", ["t.jsonl"], {"num_workers": 2}),
        (
            ["--input-tokens", "5", "--output-tokens", "6", "--request-count", "7", "--router-mode", "kv_router"],
            *("synthetic", [5, 6, 7], {"router_mode": "kv_router", "arrival_interval_ms": 1.0}),
        ),
    ],
)
def test_options_are_passed_on(
    tmp_path: Path, words: list[str], kind: str, given: list[object], named: dict[str, object]
) -> None:
    package = tmp_path / "dynamo"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "replay.py").write_text(STAND_IN)
    path = tmp_path / "report.json"
    environment = {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-S", str(BENCHMARKS / "newest.py"), *words, "--report-json", str(path)]
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    engine = {"engine": {"backend": "vllm", "timing_model": {"type": "polynomial"}}}
    found = json.loads(path.read_text())
    assert found == {"kind": kind, "given": given, "named": {**named, "extra_engine_args": engine}}
