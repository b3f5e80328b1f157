"""Live workers over HTTP, without a frontend: what a user with curl sees of them, and how they come and go."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from livetools import Service, free_port, get, make_model, mocker, post, records, stream, until

PROMPT = list(range(3, 43))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_model(tmp_path_factory.mktemp("models") / "tiny"))


class Workers(Service):
    """Workers that have been found in discovery."""

    def __init__(self, folder: Path, *arguments: str, plane: str = "http", **environment: str) -> None:
        self.root = folder / "kv"
        self.status = f"http://127.0.0.1:{free_port()}"
        super().__init__(
            mocker("--discovery-backend", "file", "--request-plane", plane, *arguments),
            folder / "mocker.log",
            {
                "DYN_FILE_KV": str(self.root),
                "DYN_HTTP_RPC_HOST": "127.0.0.1",
                "DYN_TCP_RPC_HOST": "127.0.0.1",
                "DYN_SYSTEM_HOST": "127.0.0.1",
                "DYN_SYSTEM_PORT": self.status.rpartition(":")[2],
                **environment,
            },
        )

    def url(self, endpoint: str = "generate") -> str:
        found: list[str] = until(
            lambda: [r["transport"]["http"] for r in records(self.root) if r["endpoint"] == endpoint]
        )
        return found[0]

    def metric(self, name: str) -> float:
        _, text = get(self.status + "/metrics")
        values = [float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name)]
        assert values, name
        return sum(values)

    def until_metric(self, name: str, value: float) -> None:
        """Waits for a value: metrics follow the end of a pass or an answer, which a client may have heard of before."""
        until(lambda: name in get(self.status + "/metrics")[1] and self.metric(name) == value)


@contextmanager
def workers(folder: Path, *arguments: str, **environment: str) -> Iterator[Workers]:
    with Workers(folder, *arguments, **environment) as service:
        until(lambda: get(service.status + "/health")[0] == 200 if "status server" in service.log else None)
        yield service


def generate(max_tokens: int | None = 4, **more: Any) -> dict[str, Any]:
    stop = {} if max_tokens is None else {"max_tokens": max_tokens}
    return {"token_ids": PROMPT, "stop_conditions": stop, **more}


def answer(text: str) -> tuple[list[int], str]:
    """Tokens and finish reason; there is one token in each item, and then the end."""
    items = [json.loads(line) for line in text.splitlines()]
    assert items[-1] == {"complete_final": True}
    outputs = [item["data"] for item in items[:-1]]
    assert all(len(o["token_ids"]) == 1 and o["finish_reason"] is None for o in outputs[:-1])
    assert outputs[-1]["token_ids"] == []
    return [o["token_ids"][0] for o in outputs[:-1]], outputs[-1]["finish_reason"]


def test_answers_and_errors(tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model, "--num-gpu-blocks-override", "100") as w:
        url = w.url()
        status, text = post(url, generate())
        tokens, finish = answer(text)
        assert (status, len(tokens), finish) == (200, 4, "length")
        assert all(1000 <= t < 2000 for t in tokens)
        assert len(answer(post(url, generate(None))[1])[0]) == 16
        for body, problem in [
            (b"{", "unexpected end"),
            ({"token_ids": []}, "token_ids"),
            (generate(0), "max_tokens"),
            (generate(10_000), "the pool has 100"),
            (generate(routing={"dp_rank": 3}), "dp_rank 3 is out of bounds for dp_size 1"),
            (generate(bootstrap_info={"handoff_id": "x"}), "bootstrap_info"),
        ]:
            status, text = post(url, body)
            assert status == 200
            error = json.loads(text.splitlines()[0])["error"]
            assert problem in error["message"]
            assert error["code"] == 400
        assert post(url + "x", generate())[0] == 404
        assert get(url)[0] == 405
        assert get(w.status + "/live")[0] == 200
        w.until_metric("dynamo_component_requests_total", 8)
        w.until_metric("vllm:e2e_request_latency_seconds_count", 2)
        w.until_metric("vllm:inter_token_latency_seconds_count", 3 + 15)
        w.stop()
        assert w.wait() == 0
        assert records(w.root) == records(w.root, "mdc") == records(w.root, "event_channels") == []


def test_tokens_are_planned(tmp_path: Path, model: str) -> None:
    """Recorded answers, thoughts and stop tokens."""
    recorded = tmp_path / "recorded.jsonl"
    rows = [
        {"request_id": "r1", "output_length": 3, "output_token_ids": [7, 8, 9]},
        {},
        {"session_id": "s", "output_tokens": 1, "output_token_ids": [5]},
    ]
    recorded.write_text("".join(json.dumps(r) + "\n" for r in rows))
    reasoning = '{"start_thinking_token_id": 3000, "end_thinking_token_id": 3001, "thinking_ratio": 0.5}'
    arguments = ("--model-path", model, "--reasoning", reasoning, "--response-replay-trace-path", str(recorded))
    with workers(tmp_path, *arguments, "--seed", "5") as w:

        def tokens(**more: Any) -> tuple[list[int], str]:
            return answer(post(w.url(), generate(6, **more))[1])

        assert tokens(annotations=["output_replay_id:r1"]) == ([7, 8, 9], "length")
        assert tokens(annotations=["output_replay_id:s:0"]) == ([5], "length")
        drawn, _ = tokens(annotations=["output_replay_id:unknown"])
        assert (drawn[0], drawn[2], len(drawn)) == (3000, 3001, 6)
        replay = {"annotations": ["output_replay_id:r1"]}
        stop = {"max_tokens": 6, "stop_token_ids_hidden": [8]}
        assert tokens(**replay, stop_conditions=stop) == ([7, 8], "stop")
        assert tokens(**replay, stop_conditions={**stop, "min_tokens": 3}) == ([7, 8, 9], "length")
        assert tokens(**replay, eos_token_ids=[7]) == ([7], "eos")
        ignore = {"max_tokens": 6, "ignore_eos": True}
        assert tokens(**replay, eos_token_ids=[7], stop_conditions=ignore) == ([7, 8, 9], "length")


def test_disconnect_frees_the_engine(tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model) as w:
        lines = stream(w.url(), generate(100_000))  # for ten minutes
        next(lines)
        w.until_metric("vllm:num_requests_running", 1)
        lines.close()  # type: ignore[attr-defined]
        until(lambda: w.metric("vllm:num_requests_running") + w.metric("vllm:kv_cache_usage_perc") == 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_drain(tmp_path: Path, model: str, number: int) -> None:
    """A running request is answered, the workers cannot be found meanwhile."""
    with workers(tmp_path, "--model-path", model, "--num-workers", "2") as w:
        lines = stream(w.url(), generate(1000))  # for six seconds
        next(lines)
        endless = stream(w.url(), generate(100_000))  # for ten minutes
        next(endless)
        w.stop(number)
        until(lambda: not records(w.root))
        assert w.process.poll() is None
        assert get(w.status + "/health")[0] == 503
        assert len(list(lines)) == 1000 + 2 - 1
        assert w.process.poll() is None
        endless.close()  # type: ignore[attr-defined]
        assert w.wait() == (130 if number == signal.SIGINT else 0)


def test_probes_are_answered_whatever_strangers_do(tmp_path: Path, model: str) -> None:
    """Connections to the status port that say nothing, or never end their requests, do not keep probes waiting."""
    with workers(tmp_path, "--model-path", model) as w, ExitStack() as strangers:
        port = int(w.status.rpartition(":")[2])
        for i in range(900):  # where they have to be waited for, 10 s for every 256, the probe comes after 30 s
            stranger = strangers.enter_context(socket.create_connection(("127.0.0.1", port)))
            with suppress(ConnectionError):  # it may have given way already
                stranger.sendall((b"", b"GET /health HTTP/1.1\r\n")[i % 2])
        assert get(w.status + "/health", patience_s=20)[0] == 200


def test_a_second_signal_ends_at_once(tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model) as w:
        lines = stream(w.url(), generate(100_000))
        next(lines)
        w.stop(signal.SIGINT)
        w.wait_for("shutting down")
        assert w.process.poll() is None
        w.stop(signal.SIGINT)
        assert w.wait() == 130  # the request would take ten minutes
        assert records(w.root) == []


def test_overload(tmp_path: Path, model: str) -> None:
    """With one request at a time and a queue of two, five of eight are turned away."""
    limits = {"DYN_ENGINE_REQUEST_LIMIT": "1", "DYN_DYNAMO_REQUEST_QUEUE_LIMIT": "1"}
    with workers(tmp_path, "--model-path", model, **limits) as w:
        url, statuses = w.url(), []
        first = stream(url, generate(100_000))
        next(first)
        threads = [threading.Thread(target=lambda: statuses.append(post(url, generate(5))[0])) for _ in range(7)]
        for t in threads:
            t.start()
        until(lambda: w.metric("dynamo_rejection_request_total") == 5)
        first.close()  # type: ignore[attr-defined]
        for t in threads:
            t.join()
        assert sorted(statuses) == [200] * 2 + [503] * 5
        w.until_metric("dynamo_rejection_request_total", 5)


def test_many_workers_and_ranks(tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model, "--num-workers", "2", "--data-parallel-size", "2") as w:
        assert len(records(w.root)) == 2 * (1 + 2 * 2)  # each rank answers routers of 1.3 and of 1.6
        assert len(records(w.root, "mdc")) == 2
        for scoped in (False, True):  # 1.6 looks for channels of endpoints
            topics = sorted(r["topic"] for r in records(w.root, "event_channels") if ("scope" in r) == scoped)
            assert topics == ["forward-pass-metrics"] * 2 + ["kv-events"] * 4 + ["kv_metrics"] * 2
        sources = [r["metadata"] for r in records(w.root, "event_sources")]
        assert sorted(s["worker"]["dp_rank"] for s in sources) == [0, 0, 1, 1]
        cards = [r["card_json"] for r in records(w.root, "mdc")]
        assert cards[0] == cards[1]
        assert cards[0]["display_name"] == model
        for rank in range(2):
            answer(post(w.url(), generate(routing={"dp_rank": rank}))[1])
        query = {"worker_id": records(w.root)[0]["instance_id"], "dp_rank": 1}
        empty = {"TreeDump": {"events": [], "last_event_id": 0, "reset_scope": "all"}}
        status, text = post(w.url("worker_kv_indexer_query_dp1"), query)
        assert (status, json.loads(text.splitlines()[0])) == (200, empty)
        with w.log_path.open() as log:
            assert sum("msg=serving" in line for line in log) == 2


def test_startup_time_delays_service_only(tmp_path: Path, model: str) -> None:
    (tmp_path / "never").mkdir()
    with Workers(tmp_path / "never", "--model-path", model, "--startup-time", "1000") as w:
        w.url()
        assert get(w.status + "/health")[0] == 503
        w.stop()
        assert w.wait() == 0
    began = time.monotonic()
    with Workers(tmp_path, "--model-path", model, "--startup-time", "2") as w:
        answer(post(w.url(), generate())[1])
        assert time.monotonic() - began > 2
        assert get(w.status + "/health")[0] == 200


def test_killed_workers_expire(tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model) as w:
        w.stop(signal.SIGKILL)
        w.wait()
        assert records(w.root)
        (tmp_path / "second").mkdir()
        environment = {"DYN_FILE_KV": str(w.root)}
        with workers(tmp_path / "second", "--model-path", model, "--model-name", "x", **environment) as other:
            mine = until(lambda: [r for r in records(w.root, "mdc") if r["card_json"]["display_name"] == "x"])
            until(lambda: records(w.root, "mdc") == mine)
            other.stop()
            assert other.wait() == 0


def test_sglang(tmp_path: Path, model: str) -> None:
    sglang = ("--engine-type", "sglang", "--sglang-page-size", "16")
    with workers(tmp_path, "--model-path", model, *sglang, DYN_MOCKER_KV_CACHE_TRACE="1") as w:
        assert w.log.count("DYN_MOCKER_KV_CACHE_TRACE has no effect with engine_type sglang") == 1
        assert len(answer(post(w.url(), generate())[1])[0]) == 4
        w.until_metric("sglang:num_requests_total", 1)
        w.until_metric("sglang:cache_hit_rate", 0)
        answer(post(w.url(), generate())[1])
        w.until_metric("sglang:cache_hit_rate", 32 / 80)  # two pages of the second prompt


WORKER = {"dynamo_namespace", "dynamo_component", "worker_id"}
ENDPOINT = WORKER | {"dynamo_endpoint"}
RANK = {"model_name", "worker_id"}
LABELS_OF_NAMES: list[tuple[str, set[str], str]] = [
    (
        "dynamo_component_",
        ENDPOINT,
        "requests_total request_duration_seconds inflight_requests request_bytes_total response_bytes_total "
        "cancellation_total",
    ),
    ("dynamo_component_", ENDPOINT | {"error_type"}, "errors_total"),
    ("dynamo_component_", {"worker_id"}, "uptime_seconds"),
    ("dynamo_component_kv_publisher_", WORKER, "engines_dropped_events_total"),
    ("dynamo_component_kv_publisher_", WORKER | {"event_type", "stage"}, "zmq_events_total"),
    ("dynamo_", set(), "engine_request request_queue rejection_request_total"),
    (
        "dynamo_work_handler_",
        set(),
        "pool_active_tasks pool_capacity queue_capacity queue_depth enqueue_rejected_total permit_wait_seconds "
        "network_transit_seconds time_to_first_response_seconds",
    ),
]
METRICS = {prefix + name: labels for prefix, labels, names in LABELS_OF_NAMES for name in names.split()}
TIMES = ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds")
VLLM_NAMES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "gpu_cache_usage_perc")
VLLM, TRTLLM = (
    {f"{engine}:{name}": RANK | {"engine"} for name in (*VLLM_NAMES, "num_preemptions_total", *TIMES)}
    for engine in ("vllm", "trtllm")
)
SGLANG_NAMES = ("num_running_reqs", "num_queue_reqs", "cache_hit_rate", "num_requests_total", *TIMES)
SGLANG_LABELS = RANK | {"dp_rank", "engine_type", "tp_rank", "pp_rank", "moe_ep_rank"}
SGLANG = {f"sglang:{name}": SGLANG_LABELS for name in SGLANG_NAMES}
ENGINES = {
    "vllm": ([], VLLM),
    "trtllm": (["--engine-type", "trtllm"], TRTLLM),
    "sglang": (["--engine-type", "sglang", "--sglang-page-size", "16"], SGLANG),
}


def labels_of(text: str) -> dict[str, set[str]]:
    """The labels of each metric family; those of a histogram besides its bounds."""
    found: dict[str, set[str]] = {}
    family = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            family = line.split()[2]
        elif not line.startswith("#"):
            found[family] = set(re.findall(r'[{,](\w+)="', line)) - {"le"}
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_metrics_have_their_names(tmp_path: Path, model: str, engine: str) -> None:
    arguments, engine_metrics = ENGINES[engine]
    port = str(free_port())
    with workers(tmp_path, "--model-path", model, "--zmq-kv-events-ports", port, "--block-size", "16", *arguments) as w:
        answer(post(w.url(), generate(20))[1])
        w.until_metric("dynamo_work_handler_time_to_first_response_seconds_count", 1)
        w.until_metric(f"{engine}:e2e_request_latency_seconds_count", 1)
        found = labels_of(get(w.status + "/metrics")[1])
        wanted = {**METRICS, **engine_metrics}
        assert {name: found.get(name) for name in wanted} == wanted
        w.until_metric("dynamo_component_kv_publisher_engines_dropped_events_total", 0)
        stored = 'dynamo_component_kv_publisher_zmq_events_total{dynamo_component="backend",'
        until(lambda: w.metric(stored) > 0)
        kinds = re.findall(r'error_type="(\w+)"', get(w.status + "/metrics")[1])
        assert set(kinds) == {
            "deserialization",
            "invalid_message",
            "response_stream",
            "generate",
            "publish_response",
            "publish_final",
        }


def answers_at_once(url: str, requests: int, max_tokens: int) -> list[list[int]]:
    """The tokens of requests that are sent at the same time."""
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda: texts.append(post(url, generate(max_tokens))[1])) for _ in range(requests)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return [answer(text)[0] for text in texts]


SMALL_POOL = ("--block-size", "16", "--num-gpu-blocks-override", "8")


def test_preemptions_are_counted(tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model, *SMALL_POOL) as w:
        assert [len(tokens) for tokens in answers_at_once(w.url(), 3, 60)] == [60] * 3
        until(lambda: w.metric("vllm:num_preemptions_total") > 0)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_vllm_by_its_own_scheduler(tmp_path: Path, model: str, asynchronous: bool) -> None:
    arguments = {"scheduler": "vllm", "block_size": 16, "num_gpu_blocks": 8, "async_scheduling": asynchronous}
    with workers(tmp_path, "--model-path", model, "--extra-engine-args", json.dumps(arguments)) as w:
        assert [len(tokens) for tokens in answers_at_once(w.url(), 3, 60)] == [60] * 3
        until(lambda: w.metric("vllm:num_preemptions_total") > 0)
        too_long = post(w.url(), generate(1000))[1]
        assert "the pool has 8" in json.loads(too_long.splitlines()[0])["error"]["message"]


@pytest.mark.parametrize("overlapped", [True, False])
def test_sglang_by_its_own_scheduler(tmp_path: Path, model: str, overlapped: bool) -> None:
    """Three answers need 17 of 10 pages. With so little set aside for outputs all are admitted, and some retracted."""
    nested = {"overlap_schedule": overlapped, "schedule_conservativeness": 0.02}
    arguments = {
        "engine_type": "sglang",
        "scheduler": "sglang",
        "block_size": 16,
        "num_gpu_blocks": 10,
        "sglang": nested,
    }
    with workers(tmp_path, "--model-path", model, "--extra-engine-args", json.dumps(arguments)) as w:
        assert [len(tokens) for tokens in answers_at_once(w.url(), 3, 60)] == [60] * 3
        w.until_metric("sglang:num_requests_total", 3)
        too_long = post(w.url(), generate(1000))[1]
        assert "the pool has 10" in json.loads(too_long.splitlines()[0])["error"]["message"]
        shortened = post(w.url(), generate(96))[1]
        assert "cut the output of 96 tokens to 95" in json.loads(shortened.splitlines()[0])["error"]["message"]


def test_trtllm(tmp_path: Path, model: str) -> None:
    """Nothing is preempted, and an answer that the pool cannot hold ends with the pool."""
    with workers(tmp_path, "--model-path", model, "--engine-type", "trtllm", *SMALL_POOL) as w:
        assert [len(tokens) for tokens in answers_at_once(w.url(), 3, 60)] == [60] * 3
        w.until_metric("trtllm:num_preemptions_total", 0)
        tokens, finish = answer(post(w.url(), generate(1000))[1])
        assert (len(tokens), finish) == (8 * 16 - len(PROMPT), "length")
        too_long = post(w.url(), {"token_ids": [7] * 128, "stop_conditions": {"max_tokens": 5}})[1]
        assert "the pool has 8" in json.loads(too_long.splitlines()[0])["error"]["message"]


def test_a_file_replaces_engine_options(tmp_path: Path, model: str) -> None:
    arguments = tmp_path / "engine.json"
    arguments.write_text('{"block_size": 16, "max_num_seqs": null}')
    with workers(tmp_path, "--model-path", model, "--extra-engine-args", str(arguments), "--block-size", "32") as w:
        assert "block_size: no effect beside extra_engine_args" in w.log
        card = records(w.root, "mdc")[0]["card_json"]
        assert card["kv_cache_block_size"] == 16
        assert card["runtime_config"]["max_num_seqs"] == 256


REFUSED = [
    (["--model-path", "/no/such/model"], "model_path"),
    (["--num-workers", "0"], "num_workers: got 0"),
    (["--num-workers", "x"], "--num-workers"),
    (["--stagger-delay", "-2"], "stagger_delay: got -2"),
    (["--discovery-backend", "zookeeper"], "discovery_backend: got"),
    (["--request-plane", "udp"], "request_plane: got"),
    (["--event-plane", "udp"], "event_plane: got"),
    (["--disaggregation-mode", "encode"], 'disaggregation_mode: got "encode"'),
    (["--disaggregation-mode", "prefill", "--bootstrap-ports", "9000,9001"], "must have exactly num_workers (1) ports"),
    (["--disaggregation-mode", "decode", "--bootstrap-ports", "9000,9001"], "must have exactly num_workers (1) ports"),
    (["--num-workers", "2", "--bootstrap-ports", "9000"], "must have exactly num_workers (2) ports"),
    (["--disaggregation-mode", "prefill", "--bootstrap-ports", "x"], 'bootstrap_ports: got "x"'),
    (["--is-prefill-worker", "--is-decode-worker"], "not both"),
    (["--is-decode-worker", "--disaggregation-mode", "agg"], "cannot be combined with disaggregation_mode"),
    (["--zmq-kv-events-ports", "20080,20081"], "zmq_kv_events_ports: must have exactly num_workers (1) ports"),
    (["--zmq-kv-events-ports", "x"], "zmq_kv_events_ports"),
    (["--zmq-replay-ports", "20080"], "requires zmq_kv_events_ports"),
    (["--num-g2-blocks", "5"], "num_g2_blocks"),
    (["--engine-type", "trtllm", "--disaggregation-mode", "prefill"], "which has no hand-offs"),
    (["--data-parallel-size", "0"], "data_parallel_size: got 0"),
    (["--block-size", "3"], "block_size: got 3"),
    (["--reasoning", "{"], "reasoning"),
    (["--reasoning", "{}"], "reasoning.start_thinking_token_id"),
    (["--extra-engine-args", "/no/such/file"], "extra_engine_args"),
    (["--response-replay-trace-path", "/no/such/file"], "response_replay_trace_path"),
    (["--planner-profile-data", "/no/such/file"], "planner_profile_data"),
    (["--endpoint", "dyn://A.b.c"], "endpoint"),
    (["--speedup-ratio", "nan"], "speedup_ratio"),
    (["--what"], "--what"),
]


@pytest.mark.parametrize(("arguments", "problem"), REFUSED)
def test_bad_input(tmp_path: Path, model: str, arguments: list[str], problem: str) -> None:
    bad_input(tmp_path, ["--model-path", model, "--discovery-backend", "file", *arguments], problem)


def test_what_is_needed(tmp_path: Path, model: str) -> None:
    bad_input(tmp_path, ["--discovery-backend", "file"], "model_path: got nothing")


ETCD = ["--discovery-backend", "etcd"]
MEM = ["--discovery-backend", "mem"]
NATS = [*MEM, "--request-plane", "nats"]
KUBERNETES = ["--discovery-backend", "kubernetes"]
POD = {"POD_NAME": "a", "POD_UID": "b", "POD_NAMESPACE": "c"}
ENVIRONMENT = [
    (ETCD, {"ETCD_ENDPOINTS": "ftp://a"}, 'ETCD_ENDPOINTS: got "ftp://a", want http://HOST:PORT'),
    (ETCD, {"ETCD_AUTH_USERNAME": "u"}, "ETCD_AUTH_USERNAME and ETCD_AUTH_PASSWORD: got one without the other"),
    (ETCD, {"ETCD_AUTH_CA": "/no/such/file", "ETCD_ENDPOINTS": "a"}, "ETCD_AUTH_CA"),
    (NATS, {"NATS_SERVER": "http://a"}, 'NATS_SERVER: got "http://a", want nats://HOST:PORT'),
    (NATS, {"NATS_AUTH_NKEY": "x"}, "NATS_AUTH_NKEY: want the seed of a key"),
    (NATS, {"NATS_AUTH_CREDENTIALS_FILE": "/no/such/file"}, "NATS_AUTH_CREDENTIALS_FILE"),
    (KUBERNETES, {"POD_NAME": ""}, "POD_NAME: got nothing"),
    (KUBERNETES, {**POD, "DYN_KUBE_DISCOVERY_MODE": "node"}, "DYN_KUBE_DISCOVERY_MODE: got"),
]


@pytest.mark.parametrize(("arguments", "environment", "problem"), ENVIRONMENT)
def test_bad_environment(
    tmp_path: Path, model: str, arguments: list[str], environment: dict[str, str], problem: str
) -> None:
    bad_input(tmp_path, ["--model-path", model, *arguments], problem, environment)


NO_SERVER = [
    (KUBERNETES, {**POD, "KUBECONFIG": "/no/such/file"}, "kubernetes: no API server"),
    (ETCD, {"ETCD_ENDPOINTS": "http://127.0.0.1:1"}, "etcd at http://127.0.0.1:1: "),
    (NATS, {"NATS_SERVER": "nats://127.0.0.1:1"}, "NATS at nats://127.0.0.1:1: "),
    ([*MEM, "--event-plane", "nats"], {"NATS_SERVER": "127.0.0.1:1"}, "NATS at nats://127.0.0.1:1: "),
    ([*MEM, "--durable-kv-events"], {"NATS_SERVER": "127.0.0.1:1"}, "start nats-server there"),
]


@pytest.mark.parametrize(("arguments", "environment", "problem"), NO_SERVER)
def test_no_server(tmp_path: Path, model: str, arguments: list[str], environment: dict[str, str], problem: str) -> None:
    done = run(tmp_path, ["--model-path", model, *arguments], environment)
    assert done.returncode == 1, done
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
    assert problem in done.stderr


def run(
    folder: Path, arguments: list[str], environment: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        mocker(*arguments),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def bad_input(
    folder: Path, arguments: list[str], problem: str, environment: Mapping[str, str] = MappingProxyType({})
) -> None:
    done = run(folder, arguments, environment)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert problem in done.stderr


def test_a_taken_port_is_a_failed_run(tmp_path: Path, model: str) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = str(s.getsockname()[1])
        with Workers(tmp_path, "--model-path", model, DYN_HTTP_RPC_PORT=port) as w:
            assert w.wait() == 1
            assert "error: request plane:" in w.log
        with Workers(tmp_path, "--model-path", model, "--zmq-kv-events-ports", port) as w:
            assert w.wait() == 1
            assert "address already in use" in w.log
            assert records(w.root) == []


def test_environment_is_checked(tmp_path: Path, model: str) -> None:
    for name in ("DYN_SYSTEM_PORT", "DYN_HTTP_RPC_PORT", "DYN_ENGINE_REQUEST_LIMIT", "DYN_TCP_MAX_MESSAGE_SIZE"):
        with Workers(tmp_path, "--model-path", model, **{name: "x"}) as w:
            assert w.wait() == 2
            assert f'environment variable {name}: got "x"' in w.log
