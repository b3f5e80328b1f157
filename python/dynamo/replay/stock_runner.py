"""Runs the planner of ai-dynamo, in an interpreter of its own that has ai-dynamo and not this package.

``stock.py`` starts this file and talks to it over standard input and output: each message is a JSON object after its
length in bytes, 4 bytes, little-endian. A question has the key ``do``, an answer has what was asked for or ``error``.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import os
import struct
import sys
import traceback
from typing import Any


def main() -> None:
    questions = sys.stdin.buffer
    # What the planner and its libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), line_buffering=True)
    planner = Planner()
    while (question := _read(questions)) is not None:
        verb = question.pop("do")
        try:
            answer = getattr(planner, verb)(**question)
        except BaseException as error:
            answer = {
                "error": f"{type(error).__name__}: {error}",
                "missing": error.name if isinstance(error, ModuleNotFoundError) else None,
                "usage": verb == "configure",
                "traceback": [line.strip() for line in traceback.format_exc().splitlines()[-6:-1]],
            }
        _write(answers, answer)


def _read(stream: Any) -> dict[str, Any] | None:
    head = stream.read(4)
    if len(head) < 4:
        return None
    message: dict[str, Any] = json.loads(stream.read(struct.unpack("<I", head)[0]))
    return message


def _write(stream: Any, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    stream.write(struct.pack("<I", len(body)) + body)
    stream.flush()


class Planner:
    """The planner of one run."""

    def __init__(self) -> None:
        self._config: Any = None
        self._adapter: Any = None
        self._targets: tuple[str, ...] = ()

    def configure(self, config: str) -> dict[str, Any]:
        """Reads the settings, a path or JSON text. The answer is for which pools they are, and what they aim at."""
        settings = importlib.import_module("dynamo.planner.config.planner_config").PlannerConfig
        self._config = settings.from_config_arg(config)
        self._config.advisory = True
        return {
            "mode": _text(self._config.mode),
            "target": _text(self._config.optimization_target),
            "version": importlib.import_module("importlib.metadata").version("ai-dynamo"),
        }

    def start(self, pools: dict[str, dict[str, Any]], passes: dict[str, list[dict[str, Any]]] | None) -> dict[str, Any]:
        """Makes the planner."""
        types = importlib.import_module("dynamo.planner.core.types")
        adapter = importlib.import_module("dynamo.planner.offline.replay_adapter").ReplayPlannerAdapter
        capabilities = {name: types.EngineCapabilities(**_capabilities(pool)) for name, pool in pools.items()}
        self._adapter = adapter(
            planner_config=self._config, bridge=None, capabilities=types.WorkerCapabilities(**capabilities)
        )
        # With one pool it asks for 0 prefill workers.
        self._targets = tuple(f"target_{name}" for name in pools)
        if passes is not None:
            self._learn(passes, one_pool="prefill" not in pools)
        return {}

    def first_tick(self) -> dict[str, Any]:
        """Returns when the first tick is due."""
        return {"initial_tick_ms": _time(self._adapter.initial_tick_ms())}

    def _learn(self, passes: dict[str, list[dict[str, Any]]], one_pool: bool) -> None:
        """Tells the planner how long passes take. Two pools need passes of both."""
        prefill = [_pass(p, "num_prefill_requests", "sum_prefill_tokens") for p in passes["prefill"]]
        decode = [_pass(p, "num_decode_requests", "sum_decode_kv_tokens") for p in passes["decode"]]
        if one_pool and prefill + decode:
            self._adapter.install_benchmark_fpms(agg_fpms=prefill + decode)
        elif prefill and decode:
            self._adapter.install_benchmark_fpms(prefill_fpms=prefill, decode_fpms=decode)

    def tick(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """Decides at a tick."""
        decision: dict[str, Any] = self._adapter.on_tick(metrics)
        targets = {target: decision[target] for target in self._targets}
        return {**targets, "next_tick_ms": _time(decision["next_tick_ms"])}

    def finish(self, report: dict[str, Any]) -> dict[str, Any]:
        """Ends the run: the planner writes its own report and says what it has done."""
        outcome = self._adapter.finalize(report)
        return {
            "events": [
                {
                    "at_s": event.at_s,
                    "component": event.component,
                    "from_count": event.from_count,
                    "to_count": event.to_count,
                    "reason": event.reason,
                }
                for event in outcome.scaling_events
            ],
            "ticks": outcome.total_ticks,
            "html": None if outcome.html_report_path is None else str(outcome.html_report_path),
        }


def _capabilities(pool: dict[str, Any]) -> dict[str, Any]:
    return {
        "num_gpu": 1,
        "max_num_batched_tokens": pool["max_num_batched_tokens"],
        "max_num_seqs": pool["max_num_seqs"],
        "context_length": pool["tokens"] or None,
        "max_kv_tokens": pool["tokens"] or None,
        "speculative_nextn": pool["drafts"] or None,
    }


def _time(ms: float | None) -> float | None:
    """Returns a time, None if it never comes."""
    return None if ms is None or not math.isfinite(ms) else ms


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))


def _pass(predicted: dict[str, Any], requests: str, tokens: str) -> Any:
    metrics = importlib.import_module("dynamo.common.forward_pass_metrics")
    scheduled = metrics.ScheduledRequestMetrics(**{requests: predicted["requests"], tokens: predicted["tokens"]})
    return metrics.ForwardPassMetrics(wall_time=predicted["seconds"], scheduled_requests=scheduled)


if __name__ == "__main__":
    main()
