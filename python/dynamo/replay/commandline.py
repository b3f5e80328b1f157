"""The command line of a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from dynamo._shell.options import run_options

_TRACE_FILES = "trace_files"
_MAX_TIME = "max_sim_time_ms"
_AIC = "aic_perf_config"
OTHERWISE_SPELLED = (_TRACE_FILES, _MAX_TIME, _AIC)
"""Arguments that the command line has under other names."""


def command(arguments: Mapping[str, Any]) -> str:
    """Returns ``python -m dynamo.replay ...`` for the keys of ``--config``. It can be pasted into a shell."""
    words = ["python", "-m", "dynamo.replay"]
    options = run_options()
    traces = arguments.get(_TRACE_FILES, [])
    words += [traces] if isinstance(traces, str) else traces
    for name, value in sorted(arguments.items()):
        if name == _TRACE_FILES:
            continue
        if name == _MAX_TIME:
            words += ["--max-sim-time-seconds", repr(value / 1000)]
        elif name == _AIC:
            for field, item in sorted(value.items()):
                words += [options[field].flag, str(item)]
        else:
            words += [options[name].flag, json.dumps(value) if isinstance(value, Mapping | list) else str(value)]
    return shlex.join(words)
