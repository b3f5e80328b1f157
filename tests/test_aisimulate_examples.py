"""Every public example of AISimulate is converted and runs, or is refused by a line that names what is missing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aisimulate_examples import EXAMPLES, RUN, SWEEP, Example

from dynamo.replay import convertconfig, run_synthetic_trace_replay, run_trace_replay
from dynamo.sweep import spec

DOCUMENT = Path(__file__).parents[1] / "docs" / "coming-from.md"
# A small file for each format of traces that examples have.
RECORDED = {
    "schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": 30,
    "request": {"request_id": "a", "output_tokens": 2, "request_received_ms": 0,
                "replay": {"trace_block_size": 4, "input_length": 8, "input_sequence_hashes": [1, 2]}},
}  # fmt: skip
TURN = {"session_id": "s", "timestamp": 0, "input_length": 8, "output_length": 2, "hash_ids": [1]}
TRACES: dict[str, list[dict[str, Any]]] = {
    "mooncake": [TURN],
    "mooncake-delta": [TURN],
    "agentic_mooncake": [{**TURN, "request_id": "a", "hash_ids": [1, 2]}],
    "applied_compute_agentic": [{
        "num_turns": 1, "input_prompt_length": 60, "assistant_response_length": [3], "tool_call_output_length": [5],
        "tool_call_latency": [0.05], "final_assistant_response_length": 4}],
    "dynamo": [RECORDED],
    "weka": [{"id": "s", "block_size": 4, "hash_id_scope": "local", "requests": [
        {"t": 0, "type": "n", "in": 8, "out": 2, "hash_ids": [1, 2], "api_time": 2, "think_time": 0}]}],
}  # fmt: skip
IDENTIFIERS = [f"{number:03d} {example.place}" for number, example in enumerate(EXAMPLES)]


def without_sdk(engine: Mapping[str, Any]) -> dict[str, Any]:
    """An engine whose durations and pool are built in where the AIC SDK would say them."""
    if "aic_backend" not in engine:
        return dict(engine)
    unknown = ("gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction")
    found = {key: value for key, value in engine.items() if key not in unknown and not key.startswith("aic_")}
    drafts = {key: engine[key] for key in ("aic_nextn", "aic_nextn_accept_rates") if key in engine}
    return {"num_gpu_blocks": 8192, "kv_bytes_per_token": 131072, **found, **drafts}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", EXAMPLES, ids=IDENTIFIERS)
def test_an_example_runs_or_is_refused_by_name(tmp_path: Path, example: Example) -> None:
    file = tmp_path / "example.json"
    file.write_text(json.dumps(example.content))
    if example.becomes not in (RUN, SWEEP):
        with pytest.raises(ValueError, match=re.escape(example.becomes)) as refusal:
            convertconfig.convert(str(file), example.overrides)
        assert "\n" not in str(refusal.value)
        return
    made = convertconfig.convert(str(file), example.overrides)
    assert made.sweep == (example.becomes == SWEEP)
    run = dict(made.content["run"] if made.sweep else made.content)
    for name in [name for name in run if name.endswith("engine_args")]:
        run[name] = without_sdk(run[name])
    if made.sweep:
        assert spec.load(dict(made.content)).search
        return
    if "trace_files" in run:
        trace = tmp_path / "trace.jsonl"
        trace.write_text("".join(json.dumps(row) + "\n" for row in TRACES[run["trace_format"]]))
        report = run_trace_replay(**{**run, "trace_files": [str(trace)]})
    else:
        report = run_synthetic_trace_replay(**{**run, "request_count": min(run["request_count"], 40)})
    assert report["completed_requests"] == report["num_requests"] > 0


def test_the_document_counts_them() -> None:
    """docs/coming-from.md says how many become what."""
    counts = Counter(e.becomes if e.becomes in (RUN, SWEEP) else "refused" for e in EXAMPLES)
    places = len({example.place for example in EXAMPLES})
    said = f"Of {len(EXAMPLES)} examples in {places} files, {counts[RUN]} become runs and {counts[SWEEP]} become sweeps"
    assert f"{said}. The other {counts['refused']} are refused" in " ".join(DOCUMENT.read_text().split())
