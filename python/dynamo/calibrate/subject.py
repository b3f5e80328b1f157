"""What is calibrated: an engine as its arguments describe it, which is all that a profile can be chosen by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynamo import _core
from dynamo.validate.measurement import Replay


class Subject(NamedTuple):
    """What a fit groups measurements by.

    These are the words of the engine arguments, also where kernels of another GPU stand in: a factor on predictions
    for one GPU says nothing about those for another. What arguments do not say (durations of no GPU in particular say
    no model) is that of the measurement.
    """

    engine: str
    system: str
    model: str
    precision: str
    version: str = ""  # release of the engine, "" if that is not known
    tp: int = 0  # of the model, 0 if nothing says it


def subjects(replays: Sequence[Replay]) -> list[Subject]:
    """Returns the subject of each replay."""
    found = []
    spelled: dict[str, str] = {}
    for replay, seen in zip(replays, _core.calibrations([r.engine for r in replays]), strict=True):
        m = replay.measurement
        model = seen["family"] or m.group[1]
        precision = seen["precision"] or m.precision or ("bf16" if m.model else "")
        model = spelled.setdefault(model.lower(), model)
        found.append(
            Subject(
                seen["engine"], seen["system"] or m.system, model, precision, seen.get("version", ""), seen.get("tp", 0)
            )
        )
    return found
