"""Files of measurements: which format a file has, and the records in it.

A module per format has ``FORMAT``, its name; ``recognised(file)``, whether a file looks like it; and ``read(file)``,
the measurements of a file, which raises BadSource with one line that names the file and the fault. ``MARKS`` are names
in a file that tell it from others.
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
    """Returns all measurements of files and folders, each once.

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
    children = sorted(child for child in path.rglob("*") if child.name.endswith(MEASUREMENT_SUFFIXES))
    for child in children:
        file = open_source(child)
        module = FORMATS[source_format] if source_format else _recognise(file)
        if module is not None and module.recognised(file):
            found += module.read(file)
    if not found:
        almost = "; ".join(fault for child in children for fault in [_almost(child)] if fault)
        why = f"; {almost}" if almost else f"; want {', '.join(FORMATS)}"
        raise BadSource(f"SOURCE: {str(path)!r} has no file of measurements{why}")
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


def _almost(path: Path) -> str:
    """Returns what is wrong with a file that has at least half of what tells a format from others; "" for any other
    file.
    """
    file = open_source(path)
    named = {module: [key for key in module.MARKS if key in file.text] for module in _MODULES}
    module = max(named, key=lambda module: len(named[module]) / len(module.MARKS))
    if 2 * len(named[module]) < len(module.MARKS):
        return ""
    missing = [key for key in module.MARKS if key not in named[module]]
    if missing:
        return f"{file.name} is almost {module.FORMAT}: {', '.join(missing)} is missing"
    try:
        file.rows() if "\n" in file.text.strip() and file.first_line.rstrip().endswith("}") else file.whole
    except BadSource as error:
        return f"{file.name} is almost {module.FORMAT}: {str(error).removeprefix(file.name).lstrip(': ')}"
    return f"{file.name} is almost {module.FORMAT}; --source-format {module.FORMAT} says what is missing"


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
