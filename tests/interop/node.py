"""What the scheduler and the kubelet of a cluster do: pods become processes of this machine, whose readiness is probed.

Containers that come first in a pod are not run: what they fetch is there already. Ports are free ones of this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster import KINDS, PODS, Cluster
from livetools import Service, get
from servers import free_port

PROGRAMS = {"dynamo.mocker": sys.executable, "dynamo.frontend": os.environ.get("REFERENCE", "")}
PORTS = ("DYN_SYSTEM_PORT", "DYN_HTTP_PORT")
MERGE = "application/merge-patch+json"


@dataclass
class Running:
    """A pod whose main container runs."""

    name: str
    app: str
    uid: str
    address: str
    service: Service
    url: str
    probe: str
    before_stop: list[str]
    ready: bool = False
    ending: subprocess.Popen[bytes] | None = None  # what runs before its process is told to end
    told: bool = False

    def probed(self) -> bool:
        try:
            return get(self.url + self.probe)[0] == 200
        except OSError:
            return False


class Node:
    """All pods of the cluster run on it. Code that waits for something calls `sync` meanwhile."""

    def __init__(self, cluster: Cluster, folder: Path, environment: dict[str, str]) -> None:
        self.cluster = cluster
        self.folder = folder
        self.environment = environment
        self.pods: dict[str, Running] = {}
        self._started = 0
        cluster.create(KINDS["Node"], {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}})

    def sync(self) -> bool:
        """Starts and ends processes as the cluster wants it, and tells it which are ready. It is always true."""
        items = self.cluster.call("GET", PODS)[1]["items"]
        for pod in items:
            uid = pod["metadata"]["uid"]
            if uid not in self.pods and "deletionTimestamp" not in pod["metadata"]:
                self._bind(pod)
                self.pods[uid] = self._start(pod)
            elif uid in self.pods and "deletionTimestamp" in pod["metadata"]:
                self._end(self.pods[uid])
        for uid in self.pods.keys() - {pod["metadata"]["uid"] for pod in items}:
            self.pods.pop(uid).service.__exit__()
        for running in self.pods.values():
            if running.probed() != running.ready:
                self._tell(running, not running.ready)
        return True

    def of(self, app: str) -> list[Running]:
        return [running for running in self.pods.values() if running.app == app]

    def close(self) -> None:
        for running in self.pods.values():
            running.service.__exit__()

    def _bind(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.cluster.create(f"{PODS}/{name}/binding", body)

    def _start(self, pod: dict[str, Any]) -> Running:
        meta, (container,) = pod["metadata"], pod["spec"]["containers"]
        fields = {f"metadata.{key}": meta[key] for key in ("name", "namespace", "uid")}
        port = str(free_port())
        given = {e["name"]: e["value"] if "value" in e else self._field(e, fields) for e in container["env"]}
        given |= {name: port for name in PORTS if name in given}
        token = self.cluster.token(pod["spec"]["serviceAccountName"])
        kubeconfig = {"KUBECONFIG": self.cluster.kubeconfig(token)}
        python, flag, module = container["command"]
        assert (python, flag) == ("python3", "-m")
        command = [PROGRAMS[module], "-m", module, *container.get("args", [])]
        environment = {**given, **kubeconfig, **self.environment}
        service = Service(command, self.folder / f"{meta['name']}.log", environment)
        self._started += 1
        return Running(
            name=meta["name"],
            app=meta["labels"]["app.kubernetes.io/name"],
            uid=meta["uid"],
            address=f"192.0.2.{self._started}",
            service=service,
            url=f"http://127.0.0.1:{port}",
            probe=container["readinessProbe"]["httpGet"]["path"],
            before_stop=container["lifecycle"]["preStop"]["exec"]["command"] if "lifecycle" in container else ["true"],
        )

    @staticmethod
    def _field(entry: dict[str, Any], fields: dict[str, str]) -> str:
        return fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]

    def _end(self, running: Running) -> None:
        """What is to run before, then SIGTERM; the pod goes when its process has ended."""
        if running.service.process.poll() is not None:
            self.cluster.call("DELETE", f"{PODS}/{running.name}?gracePeriodSeconds=0")
        elif running.ending is None:
            running.ending = subprocess.Popen(running.before_stop)
        elif running.ending.poll() is not None and not running.told:
            running.told = True
            running.service.stop()

    def _tell(self, running: Running, ready: bool) -> None:
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": None}
        status = {"phase": "Running", "podIP": running.address, "podIPs": [{"ip": running.address}]}
        patch = {"status": {**status, "conditions": [condition]}}
        code, answer = self.cluster.call("PATCH", f"{PODS}/{running.name}/status", patch, MERGE)
        assert code in (200, 404), answer
        running.ready = ready
