"""``calibration`` of sweeps: one profile for the engines of all runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dynamo import _core
from dynamo._core import values
from dynamo.sweep.spec import Spec, load

_SHARED = "extra_engine_args"
_POOLS = ("prefill_engine_args", "decode_engine_args")
_FIELD = "calibration"


def profile(given: object) -> str:
    """Returns the name of a profile. Raises TypeError, ValueError or FileNotFoundError if it is none."""
    name = values.path(_FIELD, given)
    if not name:
        raise ValueError(f'{_FIELD}: got "", want a file, or auto')
    if name == "auto":
        return name
    try:
        _core.calibrations([], Path(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{_FIELD}: {name!r} is missing; auto takes a shipped profile") from None
    except OSError as error:
        raise ValueError(f"{_FIELD}: cannot read {name!r}: {error.strerror}, want a file") from None
    except UnicodeDecodeError:
        raise ValueError(f"{_FIELD}: {name!r}: not a calibration profile: not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"{_FIELD}: {name!r}: {error}") from None
    return name


def calibrated(spec: Spec, given: object) -> Spec:
    """Returns a specification all of whose runs use a profile, in place of those that ``run`` names.

    Raises as ``profile`` does, and ValueError if the specification searches among profiles or whole engine arguments.
    """
    name = profile(given)
    for knob in spec.search:
        for key in sorted(knob.keys):
            if key in (_SHARED, *_POOLS) or key.partition(".")[2] == _FIELD:
                raise ValueError(f"{_FIELD}: got {values.show(name)}, want it left out: search has {key}")
    engines: dict[str, Any] = {_SHARED: {**spec.run.get(_SHARED, {}), _FIELD: name}}
    for pool in _POOLS:
        if pool in spec.run:
            engines[pool] = {**spec.run[pool], _FIELD: name}
    return load({**spec.given, "run": {**spec.run, **engines}})
