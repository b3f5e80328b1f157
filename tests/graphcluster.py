"""Exported graphs on a cluster: a stand-in for its API server, and what Dynamo's operator and a node do with a graph.

Engines are our simulated workers with the flags of the manifest, pods are processes of this machine.
"""

from __future__ import annotations

import contextlib
import copy
import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from frontendtools import Frontend
from livetools import Service, make_model, mocker, until
from manifests import check, components

from dynamo.sweep.exports import engine, flags
from dynamo.sweep.exports.table import ASSUMED, ENGINE, ROUTER

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
GRAPHS = "/apis/nvidia.com/{}/namespaces/default/dynamographdeployments"
LABELS = {"nvidia.com/dynamo-discovery-enabled": "true", "nvidia.com/dynamo-discovery-backend": "kubernetes"}


class ApiServer(Protocol):
    """What is needed of an API server."""

    def call(self, method: str, path: str, body: Any = None, kind: str = ...) -> tuple[int, Any]:
        """Status and answer of a request."""

    def kubeconfig(self) -> str:
        """The path of a file that says where it is."""


class StandIn:
    """Keeps objects as they were written. A DynamoGraphDeployment has to be as its schema wants it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._objects: dict[str, dict[str, Json]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def kubeconfig(self) -> str:
        path = self.folder / "kubeconfig"
        if path.exists():  # a process may be reading it
            return str(path)
        host, port = self._server.server_address[:2]
        cluster = {"name": "c", "cluster": {"server": f"http://{host!s}:{port}"}}
        context = {"name": "c", "context": {"cluster": "c"}}
        content = {"apiVersion": "v1", "kind": "Config", "current-context": "c"}
        path.write_text(json.dumps({**content, "clusters": [cluster], "contexts": [context]}))
        return str(path)

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        with self._lock:
            return self._answer(method, urlsplit(path).path, body)

    def _answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        place, _, name = path.rpartition("/")
        items = self._objects.setdefault(path, {}) if _is_list(path) else self._objects.setdefault(place, {})
        if _is_list(path) and method == "GET":
            return 200, {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(items.values())}
        if method == "POST" or (method == "PATCH" and name not in items):
            return self._create(items, body)
        if name not in items:
            return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        if method == "PATCH":
            items[name] = {**body, "metadata": {**items[name]["metadata"], **body["metadata"]}}
        return 200, items.pop(name) if method == "DELETE" else items[name]

    def _create(self, items: dict[str, Json], body: Json) -> tuple[int, Any]:
        if body["kind"] == "DynamoGraphDeployment":
            try:
                check(body)
            except ValueError as error:
                return 422, str(error)
        made = copy.deepcopy(body)
        made["metadata"]["uid"] = str(uuid.uuid4())
        items[made["metadata"]["name"]] = made
        return 201, made

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _reply(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, answer = cluster.call(self.command, self.path, body)
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_DELETE = _reply  # names of the standard library

            def log_message(self, *_: Any) -> None:
                """Writes nothing."""

        return Handler


def _is_list(path: str) -> bool:
    """Whether a path ends with the name of a kind, such as /api/v1/namespaces/default/pods."""
    return len(path.strip("/").split("/")) == (5 if path.startswith("/api/") else 6)


class Operator:
    """Does with a graph what Dynamo's operator and a node do: pods, their processes, and which of them are ready."""

    def __init__(self, cluster: ApiServer, folder: Path, durations: Mapping[str, Any]) -> None:
        self.cluster, self.folder = cluster, folder
        self.durations = durations
        """Engine arguments of each role that no flag says: what the simulation takes the world to be."""
        self.model = make_model(folder / "model")
        self.stack = ExitStack()
        self.engines: dict[str, list[Json]] = {}
        self.router: Json = {}
        self.frontend: Frontend | None = None
        self.workers: list[Service] = []

    def reconcile(self, version: str, name: str) -> None:
        """Reads a graph from the API server, and starts what it names."""
        status, graph = self.cluster.call("GET", f"{GRAPHS.format(version)}/{name}")
        assert status == 200, graph
        spec = graph["spec"]
        framework, parts = spec["backendFramework"], list(components(graph))
        counts = {
            part: (spec["services"][part] if "services" in spec else item)["replicas"]
            for (part, _, _), item in zip(parts, spec.get("components", spec.get("services")), strict=True)
        }
        for part, role, container in sorted(parts, key=lambda each: each[1] == "frontend"):  # workers first
            assert container is not None
            for index in range(counts[part]):
                pod = f"{name}-{part.lower()}-{index}"
                environment = self._pod(pod, container)
                if role == "frontend":
                    self._start_frontend(container, environment)
                else:
                    self._start_worker(pod, framework, role, container, environment)

    def _pod(self, name: str, container: Json) -> dict[str, str]:
        """Creates a pod that is ready, and returns the environment of its process."""
        main = {"name": "main", **{key: container[key] for key in ("image", "command", "args")}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": LABELS}}
        status, pod = self.cluster.call("POST", PODS, {**body, "spec": {"containers": [main]}})
        assert status == 201, pod
        target = {"kind": "Pod", "name": name, "namespace": "default"}
        endpoint = {"addresses": ["192.0.2.1"], "conditions": {"ready": True}, "targetRef": target}
        body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
        body["metadata"] = {"name": name, "labels": {"kubernetes.io/service-name": "workers", **LABELS}}
        status, answer = self.cluster.call("POST", SLICES, {**body, "endpoints": [endpoint]})
        assert status == 201, answer
        given = {variable["name"]: variable["value"] for variable in container.get("env", ())}
        identity = {"POD_NAME": name, "POD_UID": pod["metadata"]["uid"], "POD_NAMESPACE": "default"}
        local = {"KUBECONFIG": self.cluster.kubeconfig(), "DYN_DISCOVERY_BACKEND": "kubernetes"}
        local |= {"DYN_TCP_RPC_HOST": "127.0.0.1", "DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1"}
        return {**given, **identity, **local}

    def _start_frontend(self, container: Json, environment: dict[str, str]) -> None:
        assert container["command"] == ["python3", "-m", "dynamo.frontend"]
        words = flags.parse(container["args"])
        said = {name: row.vllm.read(words) for name, row in ROUTER.items() if row.vllm is not None}
        self.router = {name: value for name, value in said.items() if value is not None}
        arguments = ["--router-mode", str(words["--router-mode"])]
        if self.router:
            arguments += ["--router-config", json.dumps(self.router)]
        self.frontend = self.stack.enter_context(Frontend(self.folder, environment, *arguments))

    def _start_worker(self, pod: str, framework: str, role: str, container: Json, environment: dict[str, str]) -> None:
        assert container["command"] == ["python3", "-m", f"dynamo.{framework}"]
        name = str(container["args"][1])
        arguments = engine.read(framework, container["args"], environment)
        arguments |= self.durations[role]
        self.engines.setdefault(role, []).append(dict(arguments))
        mode = arguments.pop("worker_type", None)
        split = ["--disaggregation-mode", mode] if mode in ("prefill", "decode") else []
        command = mocker("--model-path", str(self.model), "--model-name", name, *split)
        command += ["--extra-engine-args", json.dumps(arguments)]
        log = self.folder / f"{pod}.log"
        self.workers.append(self.stack.enter_context(Service(command, log, environment)))

    def until_serving(self, model: str) -> Frontend:
        """Waits until the frontend has found all workers."""
        front = self.frontend
        assert front is not None

        def known() -> bool:
            for service in (front, *self.workers):
                assert service.process.poll() is None, service.log
            return front.log.count('msg="a worker has come"') == len(self.workers)

        until(known)
        front.until_models(model)
        return front


def assumed(simulated: Mapping[str, Any]) -> Json:
    """The engine arguments of a run that no flag says."""
    return {name: value for name, value in engine.flat(simulated).items() if ENGINE[name].kind == ASSUMED}


@contextlib.contextmanager
def stand_in(folder: Path) -> Iterator[StandIn]:
    """A stand-in that is closed with the block."""
    made = StandIn(folder)
    try:
        yield made
    finally:
        made.close()
