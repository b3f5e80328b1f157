"""The command line of live workers: argparse, plain values, Go.

Only options that were given are passed on, with the environment variables that matter. What they may be, and which of
them are built, is decided in Go.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from dynamo import _core
from dynamo._core import objectfile, values
from dynamo.mocker.defaults import described
from dynamo.mocker.hub import download
from dynamo.replay.console import BAD_INPUT, INTERRUPTED, Parser, UsageError, exit_code, fail, say

_ENVIRONMENT = (
    *("DYN_", "HF_", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("ETCD_", "NATS_", "POD_", "CONTAINER_NAME", "KUBECONFIG", "HOME"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``python -m dynamo.mocker`` with these arguments (those of the process if None) and returns its exit code.

    The workers serve until SIGTERM or SIGINT: then nobody finds them any more, the requests they have are answered, and
    the code is 0 or 130. A second signal ends them at once. 2: bad input, nobody has seen a worker. 1: they could not
    serve. Signals are only listened to in the main thread.
    """
    return exit_code(lambda: _serve(argv))


def _serve(argv: Sequence[str] | None) -> int:
    try:
        options = _with_files(vars(_parser().parse_args(argv)))
        for name, value in options.items():
            if isinstance(value, str):
                values.text(name, value)
    except (UsageError, ValueError, FileNotFoundError) as error:
        return fail(error, BAD_INPUT)
    environment = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)]
    config = {**options, "environment": [text for text in environment if text.isprintable()]}
    signals = _Signals()
    try:
        with _heard(signals):
            _core.serve(config, signals.news)
    except FileNotFoundError as missing:
        if not download(options.get("model_path", ""), missing):
            raise
        with _heard(signals):
            _core.serve(config, signals.news)
    return INTERRUPTED if signals.interrupted else 0


def _with_files(options: dict[str, Any]) -> dict[str, Any]:
    """The options, with the object in place of ``@FILE``, and of a YAML file, which Go does not read."""
    args = options.get("extra_engine_args", "")
    if args.startswith("@"):
        options["extra_engine_args"] = objectfile.expand("--extra-engine-args", args)
    elif objectfile.is_yaml(args):
        options["extra_engine_args"] = objectfile.expand("--extra-engine-args", f"@{args}")
    if "reasoning" in options:
        options["reasoning"] = objectfile.expand("--reasoning", options["reasoning"])
    return options


class _Signals:
    """The signals that asked this process to end."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._told = 0

    @property
    def interrupted(self) -> bool:
        return signal.SIGINT in self.received

    def news(self) -> bool:
        """Whether there is one that has not been asked about; one at a time."""
        if self._told == len(self.received):
            return False
        self._told += 1
        if self._told == 1:
            say("shutting down after the requests in flight; a second signal ends them at once")
        return True

    def handle(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)


@contextmanager
def _heard(signals: _Signals) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A shell starts the background jobs of a script with SIGINT ignored: Ctrl-C is not for them.
    heard = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.handle) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


Option = tuple[str, Callable[[str], Any], str]

_WORKERS: Sequence[Option] = (
    ("--model-path", str, "folder of the model: config.json, tokenizer.json; or its name on the Hugging Face hub"),
    ("--model-name", str, "name under which it is served (default: the model path)"),
    ("--endpoint", str, "dyn://namespace.component.endpoint (default: dyn://dynamo.backend.generate)"),
    ("--num-workers", int, "workers in this process (default: 1)"),
    ("--stagger-delay", float, "seconds between their launches (default: -1, chosen by their number)"),
    ("--startup-time", float, "seconds before a worker serves what it is sent"),
    ("--default-max-tokens", int, "tokens of an answer if a request asks for no number (default: 16)"),
    ("--seed", int, "decides which tokens are drawn (default: 0)"),
    ("--response-replay-trace-path", str, "JSONL file with answers to repeat"),
    ("--reasoning", str, "JSON or @FILE: start_thinking_token_id, end_thinking_token_id, thinking_ratio"),
)
_ENGINE: Sequence[Option] = (
    (
        "--extra-engine-args",
        str,
        "JSON or YAML file with all engine arguments, instead of the options below; or @FILE, or JSON",
    ),
    ("--engine-type", str, "vllm (default), sglang or trtllm"),
    ("--num-gpu-blocks-override", int, "KV blocks of a rank (default: 16384)"),
    ("--block-size", int, "tokens of a KV block (default: vllm 64, sglang 1, trtllm 32)"),
    ("--max-num-seqs", int, "requests that run at the same time (default: 256)"),
    ("--max-num-batched-tokens", int, "tokens of one pass (default: 8192)"),
    ("--preemption-mode", str, "lifo (default) or fifo"),
    ("--watermark", float, "fraction of the pool that new requests must leave (default: 0)"),
    ("--speedup-ratio", float, "divides every duration (default: 1)"),
    ("--decode-speedup-ratio", float, "divides decode durations once more (default: 1)"),
    ("--data-parallel-size", int, "ranks of each worker, an engine each (default: 1)"),
    ("--planner-profile-data", str, "measured durations: an NPZ file or a folder"),
    ("--sglang-schedule-policy", str, "fifo, fcfs or lpm"),
    ("--sglang-page-size", int, "tokens of a page"),
    ("--sglang-max-prefill-tokens", int, "tokens of a prefill batch"),
    ("--sglang-chunked-prefill-size", int, "longest prompt that is not split"),
    ("--sglang-clip-max-new-tokens", int, "how much of its output a request reserves at most"),
    ("--sglang-schedule-conservativeness", float, "scales that"),
    ("--trtllm-capacity-scheduler-policy", str, "guaranteed_no_evict"),
    ("--gpu-memory-utilization", float, "vLLM: fraction of GPU memory"),
    ("--mem-fraction-static", float, "SGLang: the same"),
    ("--free-gpu-memory-fraction", float, "TensorRT-LLM: the same"),
    ("--num-g2-blocks", int, "not built yet: KV blocks in host memory"),
    ("--num-g3-blocks", int, "not built yet: KV blocks on disk"),
    ("--offload-batch-size", int, "not built yet: blocks that are moved together"),
    ("--bandwidth-g1-to-g2-gbps", float, "not built yet: GB/s from GPU to host"),
    ("--bandwidth-g2-to-g1-gbps", float, "not built yet: GB/s from host to GPU"),
    ("--bandwidth-g2-to-g3-gbps", float, "not built yet: GB/s from host to disk"),
    ("--bandwidth-g3-to-g2-gbps", float, "not built yet: GB/s from disk to host"),
    ("--bandwidth-g2-to-g4-gbps", float, "not built yet: GB/s from host to object storage"),
    ("--bandwidth-g4-to-g2-gbps", float, "not built yet: GB/s from object storage to host"),
)
_SPEED: Sequence[Option] = (
    ("--aic-system", str, "GPU system"),
    ("--aic-backend", str, "engine"),
    ("--aic-backend-version", str, "engine version"),
    ("--aic-tp-size", int, "tensor parallelism"),
    ("--aic-moe-tp-size", int, "tensor parallelism of experts"),
    ("--aic-moe-ep-size", int, "expert parallelism"),
    ("--aic-attention-dp-size", int, "data parallelism of attention"),
    ("--aic-nextn", int, "draft tokens of speculative decoding"),
    ("--aic-nextn-accept-rates", str, "their acceptance rates, separated by commas"),
    ("--aic-mtp-seed", int, "decides which are accepted (default: 42)"),
)
_PLANES: Sequence[Option] = (
    ("--discovery-backend", str, "etcd, kubernetes, file or mem (default: DYN_DISCOVERY_BACKEND, or etcd)"),
    ("--request-plane", str, "tcp, nats or http (default: DYN_REQUEST_PLANE, or tcp)"),
    ("--event-plane", str, "zmq or nats (default: DYN_EVENT_PLANE, or zmq)"),
    ("--listen-host", str, "address of every socket (default: DYN_LISTEN_HOST; see docs/security.md)"),
    ("--max-worker-histograms", int, "with more workers, histograms in /metrics are those of the model (default: 100)"),
    ("--zmq-kv-events-ports", str, "a port for each worker, with commas: KV events in the engine's own format"),
    ("--zmq-replay-ports", str, "a port for each worker, with commas: to ask for missed ones"),
)
_DISAGGREGATION: Sequence[Option] = (
    ("--disaggregation-mode", str, "agg (default), prefill or decode"),
    ("--bootstrap-ports", str, "a port for each worker, with commas: hand-offs"),
    ("--kv-transfer-bandwidth", float, "GB/s between workers"),
    ("--kv-transfer-timing-mode", str, "full_prompt or destination_missing"),
    ("--kv-cache-dtype", str, "data type of the KV cache (default: auto)"),
    ("--kv-bytes-per-token", int, "size of a token's KV (default: from the model)"),
)
_SWITCHES: Sequence[tuple[str, str]] = (
    ("--enable-g4-storage", "not built yet: KV blocks in object storage"),
    ("--aic-perf-model", "durations from AIC"),
    ("--is-prefill-worker", "deprecated: use --disaggregation-mode"),
    ("--is-decode-worker", "deprecated: use --disaggregation-mode"),
    ("--durable-kv-events", "deprecated: KV events go to a stream of NATS JetStream"),
)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        product="Dynamo Mocker",
        prog="python -m dynamo.mocker",
        usage="%(prog)s --model-path DIR [options]",
        description="Serve simulated LLM workers, which a Dynamo frontend finds and uses like real ones.",
        argument_default=argparse.SUPPRESS,
    )
    for title, options in (
        ("workers", _WORKERS),
        ("engine", _ENGINE),
        ("durations", _SPEED),
        ("planes", _PLANES),
        ("disaggregation", _DISAGGREGATION),
    ):
        group = parser.add_argument_group(title)
        for flag, kind, text in options:
            group.add_argument(flag, type=kind, help=described(flag, text), metavar=_METAVARS[kind])
    switches = parser.add_argument_group("switches")
    for flag in ("--enable-prefix-caching", "--enable-chunked-prefill"):
        switches.add_argument(flag, action=argparse.BooleanOptionalAction, help="(default: on)")
    for flag, text in _SWITCHES:
        switches.add_argument(flag, action="store_true", help=text)
    return parser


_METAVARS: dict[Callable[[str], Any], str] = {int: "N", float: "X", str: "TEXT"}
