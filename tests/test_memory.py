"""Runs that need more memory than there is: one line, before the start where that can be told, else in the middle."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TINY, Cli, command, refused, row

MEGABYTE = 1 << 20


def bounded(megabytes: int) -> dict[str, str]:
    return {**os.environ, "GOMEMLIMIT": f"{megabytes}MiB"}


def address_space(megabytes: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes * MEGABYTE, megabytes * MEGABYTE))


def test_a_workload_that_cannot_fit_is_refused(cli: Cli, folder: Path) -> None:
    sizes = ["--input-tokens", "20", "--output-tokens", "3", "--request-count", "30000000"]
    message = refused(cli(*sizes, env=bounded(300)))
    assert "memory: 30000000 requests need at least 1.1 GB, GOMEMLIMIT leaves" in message
    assert list(folder.iterdir()) == []


def test_shared_prompts_count(cli: Cli) -> None:
    sizes = ["--input-tokens", "64000000", "--output-tokens", "3", "--request-count", "1000"]
    sharing = ["--shared-prefix-ratio", "0.5", "--num-prefix-groups", "2"]
    assert "memory: 1000 requests need at least" in refused(cli(*sizes, *sharing, env=bounded(300)))


@pytest.mark.parametrize("module", ["dynamo.replay", "dynamo.replay.inspect"])
@pytest.mark.parametrize("bound", ["GOMEMLIMIT", "ulimit -v 1900", "ulimit -v 2300"])
def test_a_trace_that_does_not_fit_ends_the_run(folder: Path, module: str, bound: str) -> None:
    """Whether it fits is not known before it is read: here it never ends."""
    name, _, megabytes = bound.rpartition(" ")
    rows = subprocess.Popen(["yes", json.dumps(row(0, 512, 4, [1]))], stdout=subprocess.PIPE)
    try:
        done = subprocess.run(
            command("-", module=module),
            cwd=folder,
            stdin=rows.stdout,
            capture_output=True,
            text=True,
            timeout=300,
            env=None if name else bounded(200),
            preexec_fn=address_space(int(megabytes)) if name else None,
        )
    finally:
        rows.kill()
        rows.communicate()
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.startswith(f"error: memory: the run needs more than it may take, {name or bound} leaves")
    assert done.stderr.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_too_little_address_space_for_the_core(cli: Cli) -> None:
    done = cli(*TINY, preexec_fn=address_space(1000))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: memory: ulimit -v leaves ")
    assert done.stderr.count("\n") == 1


def test_runs_fit_into_little_memory(cli: Cli) -> None:
    """Most of it is never touched; Go collects what is garbage in time."""
    sizes = ["--input-tokens", "200", "--output-tokens", "20", "--request-count", "20000"]
    assert cli(*sizes, env=bounded(100)).returncode == 0
