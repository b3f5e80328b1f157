#!/usr/bin/env python3
"""Write tables of durations, as AIC predicts them, for the gate in tests/test_accuracy.py.

usage: durations.py

It needs aiconfigurator 0.12 beside dynosim. The gate needs neither the SDK nor its data: it replays a few measurements
with these tables and compares the errors with tests/accuracy/recorded.json, which --errors of the same script writes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from gate import CASES, Case, measured_errors  # noqa: E402

PREFILL = [1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
CONTEXTS = [64, 256, 512, 1024, 2048, 4096, 8192]
RUNNING = [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--errors", action="store_true", help="only write recorded.json, from the tables as they are")
    if not parser.parse_args().errors:
        for case in CASES:
            write_table(case)
    errors = {case.name: measured_errors(case) for case in CASES}
    (HERE / "recorded.json").write_text(json.dumps(errors, indent=1) + "\n")


def write_table(case: Case) -> None:
    """One prompt alone by its length, and a decode step by KV tokens and context, on a grid that such tables have."""
    from dynamo.replay import run_synthetic_trace_replay
    from dynamo.validate.static import session_of

    engine = {name: value for name, value in case.replays()[0].engine.items() if name.startswith("aic_")}
    run_synthetic_trace_replay(1, 1, 1, extra_engine_args={**engine, "engine_type": engine["aic_backend"]})
    session = session_of(engine)
    assert session is not None
    predictor = session.predictor
    kv_tokens = sorted({context * running for context in CONTEXTS for running in RUNNING})
    decode = [[predictor.decode(max(1, round(kv / context)), context) for context in CONTEXTS] for kv in kv_tokens]
    np.savez_compressed(
        case.table,
        prefill_isl=np.array(PREFILL, dtype=float),
        prefill_ttft_ms=np.array([predictor.prefill(1, length, 0) for length in PREFILL]),
        decode_active_kv_tokens=np.array(kv_tokens, dtype=float),
        decode_context_length=np.array(CONTEXTS, dtype=float),
        decode_itl=np.array(decode),
    )
    print(f"{case.table.name}: {case.table.stat().st_size} bytes, pool of {session.pool_blocks} blocks")


if __name__ == "__main__":
    main()
