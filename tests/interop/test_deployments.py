"""The manifests in a cluster with a real API server and controllers. Only pods are processes of this machine."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import DWM, KINDS, PODS, Cluster
from livetools import get, make_model, post, until
from manifests import GRAPHS, ONCE, PLAIN, documents
from node import Node, Running
from servers import free_port

MODEL = "nvidia/Llama-3.1-8B-Instruct-FP8"
PROJECT = Path(__file__).parent.parent.parent
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With all that deployments need once."""
    made = Cluster(tmp_path)
    try:
        made.apply(*documents(ONCE[0]), *documents(ONCE[1]))
        yield made
    finally:
        made.close()


@pytest.fixture
def node(cluster: Cluster, tmp_path: Path) -> Iterator[Node]:
    """Its images have the project's profiles, and its volumes the model."""
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    models = tmp_path / "models/hub" / ("models--" + MODEL.replace("/", "--"))
    make_model(models / "snapshots/1234abcd")
    (models / "refs").mkdir()
    (models / "refs/main").write_text("1234abcd")
    cluster.control()
    environment = {"HF_HOME": str(tmp_path / "models"), "HF_HUB_OFFLINE": "1", "DYN_LOG": "info"}
    environment |= {"DYN_TCP_RPC_HOST": "127.0.0.1", "DYN_HTTP_RPC_HOST": "127.0.0.1", "DYN_SYSTEM_HOST": "127.0.0.1"}
    made = Node(cluster, tmp_path, environment)
    try:
        yield made
    finally:
        made.close()


def complete(frontend: Running) -> int:
    body = {"model": MODEL, "prompt": "tok5 tok6 tok7", "max_tokens": 3}
    status, text = post(frontend.url + "/v1/completions", body)
    if status == 200:
        assert json.loads(text)["usage"]["completion_tokens"] == 3
    return status


def serving(node: Node, apps: dict[str, int]) -> Callable[[], bool]:
    """Whether so many pods are ready, and the frontend among them knows just the workers that are."""
    front = next(app for app in apps if app.endswith("-frontend"))

    def known() -> bool:
        node.sync()
        for running in node.pods.values():
            assert running.ending or running.service.process.poll() is None, running.service.log
        ready = [r for r in node.pods.values() if r.ready and r.ending is None]
        if any([r.app for r in ready].count(app) != count for app, count in apps.items()):
            return False
        (url,) = (r.url for r in ready if r.app == front)
        instances = json.loads(get(url + "/health")[1]).get("instances", [])
        found = {i["instance_id"] for i in instances if i["endpoint"] == "generate"}
        return found == ids(node.cluster, {r.name for r in ready}) and MODEL in get(url + "/v1/models")[1]

    return known


def ids(cluster: Cluster, names: set[str]) -> set[int]:
    """The instances in these pods."""
    items = [item for item in cluster.call("GET", DWM)[1]["items"] if item["metadata"]["name"] in names]
    records = [r for item in items for r in (item["spec"]["data"]["endpoints"] or {}).values()]
    return {r["instance_id"] for r in records if r["endpoint"] == "generate"}


def served(running: Running) -> float:
    lines = get(running.url + "/metrics")[1].splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("dynamo_component_requests_total"))


def resources(cluster: Cluster) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.call("GET", DWM)[1]["items"]}


def test_agg(cluster: Cluster, node: Node) -> None:
    """Pods that are deleted, killed or added: the frontend goes on with those that are ready."""
    cluster.apply(*documents(PLAIN[0]))
    apps = {"mocker-agg-frontend": 1, "mocker-agg-worker": 2}
    until(serving(node, apps), 60)
    (frontend,) = node.of("mocker-agg-frontend")
    until(lambda: complete(frontend) == 200)
    assert [complete(frontend) for _ in range(6)] == [200] * 6
    first, second = node.of("mocker-agg-worker")
    assert min(served(first), served(second)) >= 3
    assert resources(cluster) == {first.name, second.name}

    # Deleted: first it cannot be found any more, then it ends. No request fails, and the Deployment makes another one.
    assert cluster.call("DELETE", f"{PODS}/{first.name}")[0] == 200
    codes = []
    until(lambda: node.sync() and codes.append(complete(frontend)) is None and first.uid not in node.pods)
    assert len(codes) >= 5
    assert set(codes) == {200}
    assert first.service.wait() == 0
    assert first.name not in resources(cluster)
    until(serving(node, apps))
    assert [complete(frontend) for _ in range(6)] == [200] * 6

    # Killed with its pod: the garbage collector removes what it has left.
    second.service.stop(signal.SIGKILL)
    assert cluster.call("DELETE", f"{PODS}/{second.name}?gracePeriodSeconds=0")[0] == 200
    until(serving(node, apps), 60)
    until(lambda: resources(cluster) == {r.name for r in node.of("mocker-agg-worker")})
    assert [complete(frontend) for _ in range(6)] == [200] * 6

    scale = {"spec": {"replicas": 3}}
    path = f"{KINDS['Deployment']}/mocker-agg-worker"
    assert cluster.call("PATCH", path, scale, "application/merge-patch+json")[0] == 200
    until(serving(node, {**apps, "mocker-agg-worker": 3}))
    assert [complete(frontend) for _ in range(6)] == [200] * 6


@pytest.mark.parametrize("direct", [False, True])
def test_disagg(cluster: Cluster, node: Node, direct: bool) -> None:
    """Prefill and decode workers take part in every request, also with hand-offs that run directly between them."""
    objects = documents(PLAIN[1])
    if direct:
        (prefill,) = (d for d in objects if d["kind"] == "Deployment" and d["metadata"]["name"].endswith("-prefill"))
        prefill["spec"]["template"]["spec"]["containers"][0]["args"] += ["--bootstrap-ports", str(free_port())]
    cluster.apply(*objects)
    until(serving(node, {f"mocker-disagg-{role}": 1 for role in ("frontend", "prefill", "decode")}), 60)
    (frontend,) = node.of("mocker-disagg-frontend")
    until(lambda: complete(frontend) == 200)
    workers = [*node.of("mocker-disagg-prefill"), *node.of("mocker-disagg-decode")]

    def all_took_part() -> bool:
        before = [served(w) for w in workers]
        assert complete(frontend) == 200
        return all(served(w) > n for w, n in zip(workers, before, strict=True))

    until(all_took_part)


def test_two_deployments(cluster: Cluster, node: Node) -> None:
    """Both in one namespace: frontends keep to their own workers."""
    for path in PLAIN:
        cluster.apply(*documents(path))
    agg = serving(node, {"mocker-agg-frontend": 1, "mocker-agg-worker": 2})
    disagg = serving(node, {f"mocker-disagg-{role}": 1 for role in ("frontend", "prefill", "decode")})
    until(lambda: agg() and disagg(), 60)
    own, other = node.of("mocker-agg-worker"), node.of("mocker-disagg-prefill") + node.of("mocker-disagg-decode")
    (frontend,) = node.of("mocker-agg-frontend")
    until(lambda: complete(frontend) == 200)
    assert [complete(frontend) for _ in range(8)] == [200] * 8
    assert min(map(served, own)) >= 4
    assert max(map(served, other)) == 0


def allowed(cluster: Cluster, account: str, namespace: str) -> set[tuple[str, str]]:
    """Resources and verbs that a service account may use, beside those that everybody may."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    body = {**review, "spec": {"namespace": namespace}}
    status, answer = cluster.call("POST", RULES, body, token=cluster.token(account))
    assert status == 201, answer
    rules = answer["status"]["resourceRules"]
    found = {(r, v) for rule in rules for r in rule["resources"] for v in rule["verbs"]}
    return {(r, v) for r, v in found if not r.startswith("selfsubject")}


def test_permissions(cluster: Cluster) -> None:
    """No more than is needed; the deployments above show that it is enough."""
    writes = {("dynamoworkermetadatas", verb) for verb in ("list", "create", "patch")}
    worker = {*writes, ("dynamoworkermetadatas", "delete"), ("pods", "get")}
    frontend = {*writes, ("dynamoworkermetadatas", "watch"), ("endpointslices", "list"), ("endpointslices", "watch")}
    until(lambda: allowed(cluster, "dynamo-worker", "default"))
    assert allowed(cluster, "dynamo-worker", "default") == worker
    assert allowed(cluster, "dynamo-frontend", "default") == frontend
    assert allowed(cluster, "dynamo-worker", "kube-system") == set()
    token = cluster.token("dynamo-worker")
    for path in (PODS, "/api/v1/namespaces/default/secrets", DWM.replace("default", "kube-system")):
        assert cluster.call("GET", path, token=token)[0] == 403


def test_denied(cluster: Cluster, node: Node) -> None:
    """Without its role, a worker says what it needs and ends; no frontend has found it."""
    role = next(d for d in documents(ONCE[1]) if d["kind"] == "Role" and d["metadata"]["name"] == "dynamo-worker")
    role["rules"][0]["verbs"].remove("create")
    cluster.apply(role)
    cluster.apply(*documents(PLAIN[0]))
    workers = until(lambda: node.sync() and node.of("mocker-agg-worker"), 60)
    assert workers[0].service.wait() == 1
    assert (
        "the role of this pod needs list, create, patch and delete for dynamoworkermetadatas" in workers[0].service.log
    )
    assert "Traceback" not in workers[0].service.log
    assert resources(cluster) == set()


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}


def test_pods_are_valid(cluster: Cluster) -> None:
    """Those that the operator makes have no unknown field; workers without it need no rights on their node."""
    check = f"{PODS}?dryRun=All&fieldValidation=Strict"
    for path in GRAPHS[:2]:
        for component in documents(path)[0]["spec"]["components"]:
            answer = cluster.call("POST", check, pod(component["podTemplate"]["spec"]))
            assert answer[0] == 201, answer
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": labels}})
    place = PODS.replace("default", "strict") + "?dryRun=All"
    assert cluster.call("POST", place, pod({"containers": [{"name": "main", "image": "i"}]}))[0] == 403
    workers = [d for path in PLAIN for d in documents(path) if d["kind"] == "Deployment" and "front" not in str(d)]
    assert len(workers) == 3
    for deployment in workers:
        answer = cluster.call("POST", place, pod(deployment["spec"]["template"]["spec"]))
        assert answer[0] == 201, answer
