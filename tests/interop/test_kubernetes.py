"""A stock frontend finds our workers by way of a real Kubernetes API server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from cluster import DWM, NOBODY, PODS, Kubernetes
from livetools import get, until

Make = Callable[..., Any]


def words(first: int, count: int) -> str:
    return " ".join(f"tok{i}" for i in range(first, first + count))


def seen(site: Any) -> set[int]:
    """The instances that the frontend knows."""
    found = json.loads(get(site.url + "/health")[1]).get("instances", [])
    return {i["instance_id"] for i in found if i["endpoint"] == "generate"}


def test_pod(site: Make) -> None:
    """Two workers in one pod are two instances, as long as the pod is ready; they leave nothing."""
    s = site("round-robin", servers=Kubernetes)
    cluster = s.servers.cluster
    w = s.workers("--num-workers", "2", **cluster.pod("worker-0"))
    until(lambda: len(s.instances()) == 2)
    ids = {r["instance_id"] for r in s.instances()}
    assert 1186445869714687 in ids  # what readers derive from the name
    cluster.set_ready("worker-0", ready=True)
    s.ready(2)
    assert seen(s) == ids
    before = w.metrics("dynamo_component_requests_total")
    assert [s.complete(words(5, 20), 3)[0] for _ in range(8)] == [200] * 8
    served = [b - a for a, b in zip(before, w.metrics("dynamo_component_requests_total"), strict=True)]
    assert sorted(served)[-2:] == [4, 4], served

    cluster.set_ready("worker-0", ready=False)
    until(lambda: not seen(s))
    cluster.set_ready("worker-0", ready=True)
    until(lambda: seen(s) == ids)

    # Records that are deleted come back.
    assert cluster.call("DELETE", f"{DWM}/worker-0")[0] == 200
    until(lambda: not seen(s))
    until(lambda: seen(s) == ids)

    w.service.stop()
    assert w.service.wait() == 0
    assert [r for r in cluster.resources() if r["metadata"]["name"] == "worker-0"] == []
    until(lambda: not seen(s))


def test_pods_and_kv_router(site: Make) -> None:
    """Two pods behind the KV router; deleting one leaves the other serving."""
    s = site("kv", "--kv-cache-block-size", "16", servers=Kubernetes)
    cluster = s.servers.cluster
    workers = {}
    for name in ("worker-0", "worker-1"):
        workers[name] = s.workers("--block-size", "16", name=name, **cluster.pod(name))
        cluster.set_ready(name, ready=True)
    s.ready(2)
    time.sleep(2)  # for subscriptions
    before = {name: w.metric("dynamo_component_requests_total") for name, w in workers.items()}
    for i in range(6):
        assert s.complete(words(100, 320), 2)[0] == 200
        time.sleep(0.2 if i else 1)
    served = [w.metric("dynamo_component_requests_total") - before[name] for name, w in workers.items()]
    assert sorted(served)[-1] >= 5, served

    assert cluster.call("DELETE", f"{PODS}/worker-1?gracePeriodSeconds=0")[0] == 200
    cluster.set_ready("worker-1", ready=False)
    workers["worker-1"].service.stop()
    until(lambda: len(seen(s)) == 1)
    assert [s.complete("tok5", 1)[0] for _ in range(4)] == [200] * 4


def test_container_mode(site: Make) -> None:
    """Containers of one pod are instances of their own."""
    mode = {"DYN_KUBE_DISCOVERY_MODE": "container"}
    s = site("round-robin", servers=Kubernetes, CONTAINER_NAME="main", **mode)
    cluster = s.servers.cluster
    pod = cluster.pod("worker-0")
    for container in ("main", "engine-0"):
        s.workers(name=container, CONTAINER_NAME=container, **mode, **pod)
    names = ("main", "engine-0")
    statuses = [
        {"name": n, "ready": True, "restartCount": 0, "image": "i", "imageID": "i", "state": {"running": {}}}
        for n in names
    ]
    patch = {"status": {"phase": "Running", "containerStatuses": statuses}}
    status, answer = cluster.call("PATCH", f"{PODS}/worker-0/status", patch, "application/merge-patch+json")
    assert status == 200, answer
    s.ready(2)
    assert seen(s) == {1186445869714687, 8051026481054291}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"POD_UID": "11111111-2222-3333-4444-555555555555"}, "the identity is that of a former pod"),
        ({"POD_NAME": "worker-9"}, 'there is no such pod in namespace "default"'),
        ({"TOKEN": NOBODY}, "the role of this pod needs list, create, patch and delete"),
    ],
)
def test_refused(site: Make, change: dict[str, str], problem: str) -> None:
    s = site("round-robin", servers=Kubernetes)
    cluster = s.servers.cluster
    environment = {**cluster.pod("worker-0"), **change}
    if token := environment.pop("TOKEN", None):
        environment["KUBECONFIG"] = cluster.kubeconfig(token)
    service = s.start_workers("refused", environment)
    assert service.wait() == 1
    assert problem in service.log
    assert "Traceback" not in service.log
