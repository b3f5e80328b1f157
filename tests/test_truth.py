"""How tests/truth/truth.py, which draws workloads and replays them with the engines' own schedulers, judges results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def result(last: float) -> dict[str, Any]:
    request = {"row": 0, "admit": 0.0, "first": 1.0, "last": last, "tokens": 2, "reused": 0}
    return {"id": "a", "num_passes": 2, "preemptions": 0, "passes": [], "requests": [request]}


@pytest.mark.parametrize(
    ("runs", "differs", "depends"),
    [
        pytest.param([5.0], False, False, id="equal at once: no other seed is tried"),
        pytest.param([6.0, 6.0, 6.0], True, False, id="all seeds agree, ours differs"),
        pytest.param([6.0, 6.0, 5.0], True, True, id="one seed has our result"),
        pytest.param([6.0, 7.0, 6.0], True, True, id="the seeds differ among each other"),
    ],
)
def test_what_depends_on_the_order_of_a_set(
    monkeypatch: pytest.MonkeyPatch, runs: list[float], differs: bool, depends: bool
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "truth"))
    from truth import ENGINES, Outcome

    found = Outcome(ENGINES[0], {"engine": {"host_cache": {}}}, [result(last) for last in runs], result(5.0))
    assert (bool(found.differs), found.depends) == (differs, depends)
