"""What the files of an export have in common: texts of YAML and shell, images, programs."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Sequence
from typing import Any

from dynamo.sweep.exports import engine
from dynamo.sweep.exports.engine import SGLANG, VLLM
from dynamo.sweep.exports.plan import Plan, Pool

Json = dict[str, Any]
PORT = 8000
CONNECTOR = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
_RUNTIMES = {VLLM: "vllm-runtime", SGLANG: "sglang-runtime"}
_STOCK = {VLLM: "vllm/vllm-openai:{}", SGLANG: "lmsysorg/sglang:{}"}
EVENTS_PORT = 20080
SECRET = "hf-token-secret"


def yaml_text(header: str, *documents: Json) -> str:
    """YAML documents after lines of a comment."""
    yaml: Any = importlib.import_module("yaml")  # which has no types
    comment = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
        """Writes what stands in several places in each, and texts of several lines as such."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def as_block(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, as_block)
    texts = [yaml.dump(d, Dumper=Dumper, sort_keys=False, width=1000, allow_unicode=True) for d in documents]
    return comment + "---\n".join(texts)


def stock_image(plan: Plan) -> str:
    """The image of the engine alone, of the version that was simulated."""
    return _STOCK[plan.engine].format(f"v{plan.version}" if plan.version else "latest")


def dynamo_image(plan: Plan, release: str) -> str:
    """The image of Dynamo's workers and frontend."""
    return f"nvcr.io/nvidia/ai-dynamo/{_RUNTIMES[plan.engine]}:{release}"


def serve(plan: Plan, pool: Pool) -> list[str]:
    """The command line of the engine's own server."""
    at = ["--host", "0.0.0.0", "--port", str(PORT)]
    if plan.engine == VLLM:
        return ["vllm", "serve", plan.model, *at, *pool.command.words, *_transfer(plan, pool)]
    words = ["python3", "-m", "sglang.launch_server", "--model-path", plan.model, *at, "--enable-metrics"]
    return [*words, *pool.command.words, *_role(plan, pool), *_transfer(plan, pool)]


def worker(plan: Plan, pool: Pool, events_port: int = EVENTS_PORT) -> list[str]:
    """The command line of Dynamo's worker."""
    model = "--model" if plan.engine == VLLM else "--model-path"
    words = ["python3", "-m", f"dynamo.{plan.engine}", model, plan.model, *pool.command.words]
    words += [*_role(plan, pool), *_transfer(plan, pool)]
    if plan.router == "kv_router" and pool.role != "decode":
        words += ["--kv-events-config", _events(plan, events_port)]
    return words


def _role(plan: Plan, pool: Pool) -> list[str]:
    return [] if pool.role == "worker" else engine.role(pool.role, plan.engine)


def _transfer(plan: Plan, pool: Pool) -> list[str]:
    """How KV goes from prefill to decode workers."""
    if pool.role == "worker":
        return []
    return ["--kv-transfer-config", CONNECTOR] if plan.engine == VLLM else ["--disaggregation-transfer-backend", "nixl"]


def _events(plan: Plan, port: int) -> str:
    enabled = ',"enable_kv_cache_events":true' if plan.engine == VLLM else ""
    return f'{{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:{port}"{enabled}}}'


def variables(pool: Pool) -> list[Json]:
    """The environment of an engine, as Kubernetes writes it."""
    return [{"name": name, "value": value} for name, value in pool.command.environment.items()]


def resources(pool: Pool) -> Json:
    """What a worker needs of its node, as Kubernetes writes it."""
    return {"limits": {"nvidia.com/gpu": str(pool.gpus)}, "requests": {"memory": f"{pool.memory_gib}Gi"}}


def token() -> list[Json]:
    """The secret with the token for weights, which need not be there."""
    return [{"secretRef": {"name": SECRET, "optional": True}}]


def token_variable() -> Json:
    """The same as a single variable, for resources whose reference to a whole secret cannot be optional."""
    return {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "HF_TOKEN", "optional": True}},
    }


def quoted(words: Sequence[str]) -> str:
    """Words for a shell, a flag with its value in each line."""
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return " \\\n    ".join(" ".join(line) for line in lines)
