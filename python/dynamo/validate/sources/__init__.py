"""Files of measurements: which format a file has, and the records in it.

A module per format has ``FORMAT``, its name; ``recognised(file)``, whether a file looks like it; and ``read(file)``,
the measurements of a file, which raises BadSource with one line that names the file and the fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from dynamo._core import values
from dynamo.validate.measurement import Measurement
from dynamo.validate.sources import (
    accelmark,
    aiperf,
    genai_perf,
    guidellm,
    llmservingsim,
    sglang_bench,
    silicon,
    vllm_bench,
)
from dynamo.validate.sources.checks import BadSource
from dynamo.validate.sources.file import MEASUREMENT_SUFFIXES, SourceFile, open_source

__all__ = ["FORMATS", "BadSource", "read"]

_MODULES: tuple[ModuleType, ...] = (
    *(silicon, llmservingsim, sglang_bench, vllm_bench),  # both bench programs write the keys of the second
    *(aiperf, guidellm, accelmark, genai_perf),
)
FORMATS: dict[str, ModuleType] = {module.FORMAT: module for module in _MODULES}


def read(paths: Iterable[str], source_format: str | None = None) -> list[Measurement]:
    """All measurements of files and folders, each once.

    ``source_format`` is a name in FORMATS; without it each file is recognised by its contents. A point of the silicon
    table that repeats another one's TTFT and TPOT is the same measurement under a second name, and left out.

    Raises BadSource or FileNotFoundError.
    """
    found: list[Measurement] = []
    for path in paths:
        found += _read_path(Path(path), source_format)
    return list(_distinct(found))


def _read_path(path: Path, source_format: str | None) -> list[Measurement]:
    if not path.exists():
        raise FileNotFoundError(f"SOURCE: {str(path)!r} is missing")
    if not path.is_dir():
        return _read_file(open_source(path), source_format)
    found: list[Measurement] = []
    for child in sorted(child for child in path.rglob("*") if child.name.endswith(MEASUREMENT_SUFFIXES)):
        file = open_source(child)
        module = FORMATS[source_format] if source_format else _recognise(file)
        if module is not None and module.recognised(file):
            found += module.read(file)
    if not found:
        raise BadSource(f"SOURCE: {str(path)!r} has no file of measurements; want {', '.join(FORMATS)}")
    return found


def _read_file(file: SourceFile, source_format: str | None) -> list[Measurement]:
    module = FORMATS[source_format] if source_format else _recognise(file)
    if module is None:
        raise BadSource(
            f"SOURCE: {values.show(file.name)} has none of the known formats: {', '.join(FORMATS)};"
            " --source-format reads it as one of them and says what is missing"
        )
    found: list[Measurement] = module.read(file)
    return found


def _recognise(file: SourceFile) -> ModuleType | None:
    return next((module for module in _MODULES if module.recognised(file)), None)


def _distinct(found: Sequence[Measurement]) -> Iterator[Measurement]:
    """The measurements, each once: by TTFT and TPOT in the silicon table, otherwise by file and name."""
    seen = set()
    for measurement in found:
        key: object = (measurement.file, measurement.id)
        if measurement.source in silicon.CAMPAIGNS:
            key = (measurement.ttft.mean, measurement.tpot.mean)
        if key not in seen:
            seen.add(key)
            yield measurement
