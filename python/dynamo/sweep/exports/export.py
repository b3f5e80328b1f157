"""``export``: the folder with the files of a point."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from dynamo._core import values
from dynamo._core.version import VERSION
from dynamo.sweep.exports import graph, plain, readme, scripts, verify
from dynamo.sweep.exports import plan as plans
from dynamo.sweep.exports.plan import Plan
from dynamo.sweep.exports.scaling import PROMETHEUS
from dynamo.sweep.sla import bound_of
from dynamo.sweep.summary import RECOMMENDATION

BEST = "best"
_SCRIPT_MODE = 0o755


class Export(NamedTuple):
    """What was written."""

    directory: Path
    files: tuple[str, ...]
    left_out: Mapping[str, str]
    """Files that cannot say this deployment, each with the reason."""
    warnings: tuple[str, ...]


def export(
    directory: str | os.PathLike[str],
    point: int | str,
    output: str | os.PathLike[str],
    *,
    model: str | None = None,
    name: str | None = None,
    prometheus: str = PROMETHEUS,
) -> Export:
    """Writes a folder with files that start the deployment of a point of a finished sweep.

    Args:
        directory: The folder of the sweep.
        point: The id of the point, or ``"best"`` for the best one by the first objective.
        output: The folder to write, which must not exist. It appears whole or not at all.
        model: The model to serve; the one that the point names if not given.
        name: What the deployment is called; ``point-ID`` if not given.
        prometheus: Where KEDA finds Prometheus.

    Returns:
        The files, and those that were left out because they cannot say this deployment.

    Raises:
        ValueError, FileNotFoundError: No such sweep or point, or something was simulated that no file can say.
        OSError: The folder cannot be written.
    """
    from dynamo.sweep import sweep

    content = sweep.load(directory).content
    target = Path(values.path("-o", output))
    if target.exists():
        raise ValueError(f"-o: {os.fspath(target)!r} exists, want a new folder")
    found = _point(content, point)
    answer = content.get(RECOMMENDATION)
    if answer is not None and answer["point"] == found["id"]:
        plan = plans.of(_as_recommended(found, answer), model, name, answer)
    else:
        plan = plans.of(found, model, name)
    texts, left_out = contents(plan, values.text("--prometheus", prometheus))
    _write(target, texts)
    return Export(target, tuple(texts), left_out, tuple(plan.warnings))


def contents(plan: Plan, prometheus: str = PROMETHEUS) -> tuple[dict[str, str], dict[str, str]]:
    """The files of an export by their names, and why others are left out."""
    found: dict[str, str] = {}
    left_out: dict[str, str] = {}
    writers: dict[str, Callable[[], str]] = {
        "engine.sh": lambda: scripts.engines(plan),
        "start.sh": lambda: scripts.start(plan),
        "dynamo-1.3.yaml": lambda: graph.text(plan, "1.3", prometheus),
        "dynamo-1.6.yaml": lambda: graph.text(plan, "1.6", prometheus),
        "kubernetes.yaml": lambda: plain.kubernetes(plan, prometheus),
        "compose.yaml": lambda: plain.compose(plan),
    }
    for file, write in writers.items():
        try:
            found[file] = write()
        except ValueError as error:
            left_out[file] = str(error)
    if "compose.yaml" in found and (configuration := plain.nginx(plan)):
        found["nginx.conf"] = configuration
    found |= verify.files(plan)
    found["prediction.json"] = json.dumps(_prediction(plan), indent=1) + "\n"
    found["README.md"] = readme.text(plan, list(found), left_out)
    return found, left_out


def _point(content: Mapping[str, Any], wanted: int | str) -> Mapping[str, Any]:
    """The point of this id, or the best one."""
    points = {point["id"]: point for point in content["points"]}
    if wanted == BEST:
        objective = content["objectives"][0]["figure"]
        if (found := content["best"].get(objective)) is None:
            raise ValueError("POINT: got best, want an id: no point keeps the service level")
        return cast(Mapping[str, Any], points[found])
    text = str(wanted)
    if isinstance(wanted, bool) or not text.isdecimal() or int(text) not in points:
        first, last = min(points, default=0), max(points, default=0)
        raise ValueError(f"POINT: got {values.show(wanted)}, want best or an id from {first} to {last}")
    return cast(Mapping[str, Any], points[int(text)])


def _as_recommended(point: Mapping[str, Any], recommendation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The point with what its recommendation knows besides: intervals, of draws of the traffic, and migrations."""
    targets = {target["bound"]: target for target in recommendation["targets"]}
    intervals, verdicts = dict(point["intervals"]), []
    for verdict in point["sla"]:
        target = targets.get(str(bound_of(verdict)))
        if target is not None:
            verdict = {**verdict, "sure": target["sure"] and not target["within_error"]}
            if target["low"] is not None:
                intervals[verdict["figure"]] = [max(target["low"], 0), target["high"]]
        verdicts.append(verdict)
    arguments = dict(point["arguments"])
    if limit := recommendation["basis"]["migration_limit"]:
        arguments["migration_limit"] = limit
    return {**point, "arguments": arguments, "intervals": intervals, "sla": verdicts}


def _prediction(plan: Plan) -> dict[str, Any]:
    """What the point predicts, for programs, and the run that says so."""
    return {
        "dynosim": VERSION,
        "point": plan.point,
        "model": plan.model,
        "engine": plan.engine,
        "figures": dict(plan.figures),
        "intervals": {key: found for key, found in plan.intervals.items() if key in plan.figures},
        "sla": list(plan.sla),
        "measured_error": plan.measured_error,
        "run": dict(plan.given),
        "after_defaults": dict(plan.arguments),
    }


def _write(target: Path, texts: Mapping[str, str]) -> None:
    """Makes a folder with these files: beside its place, into which it is moved when it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, text in texts.items():
            file = draft / name
            file.write_text(text, encoding="utf-8")
            if name.endswith(".sh"):
                file.chmod(_SCRIPT_MODE)
        draft.chmod(_SCRIPT_MODE)
        try:
            draft.rename(target)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise ValueError(f"-o: {os.fspath(target)!r} exists, want a new folder") from None
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
