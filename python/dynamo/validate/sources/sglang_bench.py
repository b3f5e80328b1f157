"""Results of ``python -m sglang.bench_serving --output-file`` (with ``--output-details``: single requests)."""

from __future__ import annotations

from dynamo.validate.measurement import Measurement
from dynamo.validate.sources import serving_bench
from dynamo.validate.sources.file import SourceFile

FORMAT = "sglang-bench"
MARKS = ("mean_ttft_ms", "mean_tpot_ms", "completed", "request_throughput")
# Keys that the program writes, and its cousin of vLLM does not.
_OWN = {"total_output_tokens_retokenized", "sharegpt_output_len", "random_range_ratio"}


def recognised(file: SourceFile) -> bool:
    keys = file.start.keys()
    return {"mean_ttft_ms", "mean_tpot_ms", "completed"} <= keys and bool(_OWN & keys)


def read(file: SourceFile) -> list[Measurement]:
    """Returns the runs in a file. Without ``deployment.json`` the engine is taken to be SGLang. Raises BadSource."""
    return serving_bench.runs(file, FORMAT, "sglang")
