"""What gateways, autoscalers and the planner read from /metrics: names, types and labels are a contract."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from frontendtools import meeting
from livetools import get, post
from servetools import DEPLOY, FAST, MODEL, Server, manifests, serving

RANK = {"model_name", "worker_id", "engine"}
MODEL_AND_RANK = RANK - {"worker_id"}
SGLANG_RANK = {"model_name", "worker_id", "dp_rank", "engine_type", "tp_rank", "pp_rank", "moe_ep_rank"}

# Name: type and labels.
CONTRACTS = {
    "endpoint picker of llm-d and of the Gateway API inference extension": {
        "vllm:num_requests_waiting": ("gauge", RANK),
        "vllm:num_requests_running": ("gauge", RANK),
        "vllm:kv_cache_usage_perc": ("gauge", RANK),
        "vllm:lora_requests_info": ("gauge", {"max_lora", "running_lora_adapters", "waiting_lora_adapters"}),
        "vllm:cache_config_info": ("gauge", RANK | {"block_size", "num_gpu_blocks", "enable_prefix_caching"}),
    },
    "guides for KEDA and HPA": {
        "vllm:num_requests_waiting": ("gauge", RANK),
        "vllm:num_requests_running": ("gauge", RANK),
        "vllm:gpu_cache_usage_perc": ("gauge", RANK),
        "vllm:time_to_first_token_seconds": ("histogram", MODEL_AND_RANK),
        "vllm:inter_token_latency_seconds": ("histogram", MODEL_AND_RANK),
        "vllm:time_per_output_token_seconds": ("histogram", MODEL_AND_RANK),
        "vllm:iteration_tokens_total": ("histogram", MODEL_AND_RANK),
        "vllm:request_max_num_generation_tokens": ("histogram", MODEL_AND_RANK),
        "vllm:e2e_request_latency_seconds": ("histogram", MODEL_AND_RANK),
        "vllm:request_queue_time_seconds": ("histogram", MODEL_AND_RANK),
        "vllm:request_success_total": ("counter", MODEL_AND_RANK | {"finished_reason"}),
        "vllm:prompt_tokens_total": ("counter", RANK),
        "vllm:generation_tokens_total": ("counter", RANK),
        "vllm:prefix_cache_queries_total": ("counter", RANK),
        "vllm:prefix_cache_hits_total": ("counter", RANK),
        "vllm:num_preemptions_total": ("counter", RANK),
    },
    "planner": {
        "dynamo_frontend_requests_total": ("counter", {"model", "endpoint", "request_type", "status"}),
        "dynamo_frontend_inflight_requests": ("gauge", {"model"}),
        "dynamo_frontend_queued_requests": ("gauge", {"model"}),
        "dynamo_frontend_output_tokens_total": ("counter", {"model"}),
        "dynamo_frontend_request_duration_seconds": ("histogram", {"model"}),
        "dynamo_frontend_time_to_first_token_seconds": ("histogram", {"model"}),
        "dynamo_frontend_inter_token_latency_seconds": ("histogram", {"model"}),
        "dynamo_frontend_input_sequence_tokens": ("histogram", {"model"}),
        "dynamo_frontend_output_sequence_tokens": ("histogram", {"model"}),
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that has answered a request of each kind."""
    with serving(tmp_path_factory.mktemp("metrics"), *FAST, "--lora-modules", "sql") as s:
        for body in ({"max_tokens": 3}, {"stream": True}, {"model": "sql", "max_tokens": 3}):
            assert post(s.url + "/v1/completions", {"prompt": "x"} | body)[0] == 200
        s.until_idle()
        yield s


def shown(server: Server) -> dict[str, tuple[str, set[str]]]:
    """Type and labels of each metric."""
    page = get(server.url + "/metrics")[1]
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    metrics = {}
    for name, labels in re.findall(r"^([\w:]+)(?:\{(.*)\})? \S+$", page, re.MULTILINE):
        base = name if name in types else re.sub(r"_(bucket|sum|count)$", "", name)
        metrics[base] = (types[base], set(re.findall(r'(\w+)="', labels)) - {"le"})
    return metrics


@pytest.mark.parametrize("reader", CONTRACTS)
def test_contract(server: Server, reader: str) -> None:
    metrics = shown(server)
    assert {name: metrics.get(name) for name in CONTRACTS[reader]} == CONTRACTS[reader]


def test_values_of_the_contract(server: Server) -> None:
    assert set(server.samples("vllm:request_success_total")) == {
        f'engine="0",finished_reason="{reason}",model_name="{MODEL}"' for reason in ("length", "stop")
    }
    server.until_metric("vllm:generation_tokens_total", 3 + 16 + 3)
    server.until_metric("vllm:time_to_first_token_seconds_count", 3)
    server.until_metric("vllm:time_per_output_token_seconds_count", 2 + 15 + 2)
    server.until_metric("vllm:request_max_num_generation_tokens_sum", 3 + 16 + 3)
    server.until_metric(
        "vllm:iteration_tokens_total_sum", 3 * 2 + 3 + 16 + 3
    )  # prompts have a byte and a mark before it
    server.until_metric("dynamo_frontend_output_tokens_total", 22)


def test_adapters_and_lengths_are_those_of_options(tmp_path: Path) -> None:
    arguments = ["--lora-modules", "a,b", "--max-loras", "3", "--max-model-len", "262144"]
    with serving(tmp_path, *FAST, *arguments) as s:
        assert post(s.url + "/v1/completions", {"model": MODEL, "prompt": "x", "max_tokens": 3})[0] == 200
        s.until_metric("vllm:request_prompt_tokens_count", 1)
        assert 'max_lora="3"' in next(iter(s.samples("vllm:lora_requests_info")))
        ends = [re.findall(r'le="(.*?)"', labels)[0] for labels in s.samples("vllm:request_prompt_tokens_bucket")]
        assert ends[-3:] == ["100000", "200000", "+Inf"]


def test_contract_of_sglang(tmp_path: Path) -> None:
    with serving(tmp_path, *FAST, "--engine-type", "sglang") as s:
        assert post(s.url + "/v1/completions", {"prompt": "x", "max_tokens": 3})[0] == 200
        s.until_metric("sglang:num_running_reqs", 0)
        metrics = shown(s)
    for name in ("num_queue_reqs", "num_running_reqs", "token_usage", "cache_hit_rate"):
        assert metrics["sglang:" + name] == ("gauge", SGLANG_RANK), name
    assert metrics["sglang:time_to_first_token_seconds"][0] == "histogram"


# The manifests of examples/serve/deploy.


def test_manifests_read_metrics_that_exist(server: Server) -> None:
    """Every name of a metric in the manifests is on the page."""
    text = "".join(path.read_text() for path in DEPLOY.glob("*.yaml"))
    named = set(re.findall(r"vllm:\w+", text))
    assert {"vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:lora_requests_info"} <= named
    assert named <= set(shown(server))


def test_manifests_belong_together() -> None:
    kinds = manifests()
    deployment = kinds["Deployment", "dynosim"]["spec"]
    template = deployment["template"]
    (container,) = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    selected = deployment["selector"]["matchLabels"]
    assert selected.items() <= template["metadata"]["labels"].items()
    for kind, name in (("Service", "dynosim"), ("PodMonitor", "dynosim"), ("InferencePool", "dynosim")):
        selector = kinds[kind, name]["spec"]["selector"]
        assert selector.get("matchLabels", selector) == selected
    assert [p["number"] for p in kinds["InferencePool", "dynosim"]["spec"]["targetPorts"]] == [ports["http"]]
    scaler = kinds["HorizontalPodAutoscaler", "dynosim"]["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "dynosim"}
    backend = kinds["HTTPRoute", "dynosim"]["spec"]["rules"][0]["backendRefs"][0]
    assert (backend["kind"], backend["name"]) == ("InferencePool", "dynosim")
    assert kinds["InferencePool", "dynosim"]["spec"]["endpointPickerRef"]["name"] == "dynosim-picker"


def test_the_frontend_of_the_manifest(tmp_path: Path) -> None:
    """Its arguments are options of a frontend, and its service finds it."""
    kinds = manifests()
    deployment = kinds["Deployment", "dynosim-frontend"]["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    assert kinds["Service", "dynosim-frontend"]["spec"]["selector"] == deployment["selector"]["matchLabels"]
    arguments = [a for a in container["args"] if not a.startswith(("--http-host", "--http-port", "--frontend"))]
    with meeting(tmp_path) as place:
        front = place.frontend(*arguments)
        assert get(front.url + "/live")[0] == 200
        assert get(front.url + "/health")[0] == 503
        assert "level=WARN" not in front.log


def test_the_container_starts(tmp_path: Path) -> None:
    """With the arguments of the manifest, but for the address: the probes answer."""
    deployment = manifests()["Deployment", "dynosim"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [a for a in container["args"] if not a.startswith(("--http-host", "--http-port"))]
    with serving(tmp_path, *arguments) as s:
        for probe in ("readinessProbe", "livenessProbe"):
            assert get(s.url + container[probe]["httpGet"]["path"])[0] == 200
        models = get(s.url + "/v1/models")[1]
        assert all(name in models for name in re.findall(r"--model-name=(\S+)", " ".join(arguments)))
