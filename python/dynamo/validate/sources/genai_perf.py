"""Results of GenAI-Perf, AIPerf's predecessor: ``profile_export_genai_perf.json`` with statistics."""

from __future__ import annotations

from dynamo.validate.measurement import Measurement
from dynamo.validate.sources import stats_export
from dynamo.validate.sources.file import SourceFile

FORMAT = "genai-perf"
MARKS = ("time_to_first_token", "avg")


def recognised(file: SourceFile) -> bool:
    return stats_export.recognised(file) and "aiperf_version" not in file.start


def read(file: SourceFile) -> list[Measurement]:
    """Returns the one run of a file. Raises BadSource."""
    return stats_export.read(file, FORMAT)
