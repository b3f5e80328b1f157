"""A gate against regressions of accuracy: no error of a few replayed measurements grows by more than a tenth.

Durations are those that AIC predicted, recorded in tables, so that neither the SDK nor its data are needed. Some are
replayed with the profile of a fold, too: a worse fit or another choice among its entries fails here.
tests/accuracy/durations.py writes tables and errors anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "accuracy"
sys.path.insert(0, str(FOLDER))

import errors  # noqa: E402
from gate import CASES, Case, measured_errors  # noqa: E402

RECORDED = json.loads((FOLDER / "recorded.json").read_text())
# What an error near 0 may change by: percentage points, or hundredths of a KS distance.
LEAST = {"percent": 0.2, "ks": 0.01}


def test_every_case_is_recorded() -> None:
    assert set(RECORDED) == {case.name for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_error_has_grown_by_a_tenth(case: Case) -> None:
    recorded, now = RECORDED[case.name], measured_errors(case)
    assert now.keys() == recorded.keys()
    worse = {
        name: (recorded[name], now[name])
        for name in recorded
        if now[name] > 1.1 * recorded[name] + LEAST[name.rpartition("_")[2]]
    }
    assert not worse, f"recorded and now; if it is meant, run tests/accuracy/durations.py --errors: {worse}"


def test_the_errors_of_the_program_are_those_of_the_page() -> None:
    """The file that reports take measured errors from; tests/accuracy/errors.py writes it."""
    assert errors.SHIPPED.read_text() == errors.text(errors.PAGE.read_text())
