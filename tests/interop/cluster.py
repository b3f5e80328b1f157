"""A Kubernetes API server with etcd below it, and its controllers if asked for.

No pods run: tests write down by hand that they are ready, or :mod:`node` does what a kubelet would.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from livetools import Service, until
from manifests import ONCE, documents
from servers import Etcd, free_port

ADMIN, DYNAMO, NOBODY = "admin-token", "dynamo-token", "nobody-token"
DWM = "/apis/nvidia.com/v1alpha1/namespaces/default/dynamoworkermetadatas"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
PODS = "/api/v1/namespaces/default/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
KINDS = {  # where objects of these kinds are
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "Pod": PODS,
    "Role": f"{RBAC}/roles",
    "RoleBinding": f"{RBAC}/rolebindings",
    "Service": "/api/v1/namespaces/default/services",
    "ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
}
LABELS = {"nvidia.com/dynamo-discovery-enabled": "true", "nvidia.com/dynamo-discovery-backend": "kubernetes"}


class Cluster:
    """The API server, and a kubeconfig with the rights of Dynamo's workers and frontends."""

    def __init__(self, folder: Path) -> None:
        self.programs = Path(os.environ.get("KUBERNETES", ""))
        program = self.programs / "kube-apiserver"
        if not program.is_file():
            pytest.skip("KUBERNETES names no folder with an API server (make interop-kubernetes builds one)")
        if shutil.which("openssl") is None:
            pytest.skip("no openssl on PATH")
        self.folder = folder / "cluster"
        self.folder.mkdir()
        self.etcd = Etcd(folder)
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        key, public = self.folder / "sa.key", self.folder / "sa.pub"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
        tokens = self.folder / "tokens.csv"
        tokens.write_text(
            f'{ADMIN},admin,1,"system:masters"\n'
            f"{DYNAMO},system:serviceaccount:default:dynamo,2\n"
            f"{NOBODY},system:serviceaccount:default:nobody,3\n"
        )
        command = [str(program), f"--etcd-servers={self.etcd.url}", f"--secure-port={port}", "--bind-address=127.0.0.1"]
        command += [f"--cert-dir={self.folder}", "--service-account-issuer=https://example.com"]
        command += [f"--service-account-key-file={public}", f"--service-account-signing-key-file={key}"]
        command += [
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
        ]
        command += ["--disable-admission-plugins=ServiceAccount"]
        self.process = Service(command, self.folder / "log", {})
        self.controllers: Service | None = None
        try:
            until(self._ready, 60)
            self.apply(*documents(ONCE[0]))
            until(lambda: self.call("GET", DWM)[0] == 200)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.controllers is not None:
            self.controllers.__exit__()
        self.process.__exit__()
        self.etcd.kill()

    def control(self) -> None:
        """Starts what makes pods of Deployments and slices of Services, and deletes what the dead have owned."""
        names = ("deployment", "replicaset", "endpointslice", "garbage-collector")
        command = [str(self.programs / "kube-controller-manager"), f"--kubeconfig={self.kubeconfig(ADMIN)}"]
        command += ["--controllers=" + ",".join(f"{name}-controller" for name in names), "--leader-elect=false"]
        command += ["--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={self.folder}"]
        self.controllers = Service(command, self.folder / "controllers.log", {})

    def kubeconfig(self, token: str = DYNAMO) -> str:
        path = self.folder / f"{token[-40:]}.config"
        if path.exists():  # a process may be reading it
            return str(path)
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(json.dumps(content))
        return str(path)

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", token: str = ADMIN
    ) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {token}", "content-type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(request, timeout=300, context=context) as response:
                text = response.read().decode()
                return response.status, json.loads(text) if text.startswith("{") else text
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def create(self, path: str, body: Any) -> Any:
        status, answer = self.call("POST", path, body)
        assert status in (200, 201), answer
        return answer

    def apply(self, *objects: dict[str, Any]) -> None:
        """Server-side apply, which refuses unknown fields."""
        for body in objects:
            path = (
                f"{KINDS[body['kind']]}/{body['metadata']['name']}?fieldManager=test&force=true&fieldValidation=Strict"
            )
            status, answer = self.call("PATCH", path, body, "application/apply-patch+yaml")
            assert status in (200, 201), answer

    def token(self, account: str) -> str:
        """What the cluster gives to the pods of a service account."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        answer = self.create(f"{KINDS['ServiceAccount']}/{account}/token", request)
        token: str = answer["status"]["token"]
        return token

    def _ready(self) -> bool:
        assert self.process.process.poll() is None, self.process.log
        try:
            return self.call("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def allow(self) -> None:
        """The role of workers and frontends of all kinds."""
        rules = [
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
            {
                "apiGroups": ["nvidia.com"],
                "resources": ["dynamoworkermetadatas"],
                "verbs": ["list", "watch", "create", "patch", "delete"],
            },
        ]
        group = "rbac.authorization.k8s.io"
        role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "dynamo"}, "rules": rules}
        self.apply(role)
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "dynamo"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "dynamo"},
            "subjects": [{"kind": "ServiceAccount", "name": "dynamo", "namespace": "default"}],
        }
        self.apply(binding)

    def pod(self, name: str) -> dict[str, str]:
        """Creates a pod and returns the environment of a process in it."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": LABELS},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        }
        uid = self.create(PODS, body)["metadata"]["uid"]
        return {"POD_NAME": name, "POD_UID": uid, "POD_NAMESPACE": "default", "KUBECONFIG": self.kubeconfig()}

    def set_ready(self, pod: str, ready: bool) -> None:
        """What the endpoint slice controller says about a pod."""
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": pod, "labels": {"kubernetes.io/service-name": "workers", **LABELS}},
            "addressType": "IPv4",
            "endpoints": [
                {
                    "addresses": ["192.0.2.1"],
                    "conditions": {"ready": ready},
                    "targetRef": {"kind": "Pod", "name": pod, "namespace": "default"},
                }
            ],
        }
        path = f"{SLICES}/{pod}?fieldManager=test&force=true"
        status, answer = self.call("PATCH", path, body, "application/apply-patch+yaml")
        assert status in (200, 201), answer

    def resources(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.call("GET", DWM)[1]["items"]
        return items

    def endpoints(self) -> list[dict[str, Any]]:
        return [r for item in self.resources() for r in (item["spec"]["data"]["endpoints"] or {}).values()]


class Kubernetes:
    """The cluster as the place where frontends and workers of a site meet."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster(folder)
        self.cluster.allow()
        self.arguments = ["--discovery-backend", "kubernetes"]
        self.environment = self.cluster.pod("frontend")

    def records(self) -> list[dict[str, Any]]:
        return self.cluster.endpoints()

    def close(self) -> None:
        self.cluster.close()
