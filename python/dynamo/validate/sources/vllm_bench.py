"""Results of ``vllm bench serve --save-result`` (with ``--save-detailed``: single requests), and of its predecessor."""

from __future__ import annotations

from dynamo.validate.measurement import Measurement
from dynamo.validate.sources import serving_bench
from dynamo.validate.sources.file import SourceFile

FORMAT = "vllm-bench"
MARKS = ("mean_ttft_ms", "mean_tpot_ms", "completed", "model_id")


def recognised(file: SourceFile) -> bool:
    return {"mean_ttft_ms", "mean_tpot_ms", "completed", "model_id"} <= file.start.keys()


def read(file: SourceFile) -> list[Measurement]:
    """Returns the runs in a file. Without ``deployment.json`` the engine is taken to be vLLM. Raises BadSource."""
    return serving_bench.runs(file, FORMAT, "vllm")
