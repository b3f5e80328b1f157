"""Exported graphs on a real API server, live against simulated. What Dynamo's operator does is done by graphcluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from graphcluster import GRAPHS
from livetools import until
from test_export_cluster import RUNS, rehearse

VERSIONS = {"v1alpha1": False, "v1beta1": True}
"""Those of a graph, and which of them is stored."""


class Served:
    """A cluster with the kind of a graph, as the tests of exports want it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        cluster.allow()
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        names = {"kind": "DynamoGraphDeployment", "plural": "dynamographdeployments"}
        versions = [{"name": n, "served": True, "storage": stored, "schema": schema} for n, stored in VERSIONS.items()]
        spec = {"group": "nvidia.com", "names": names, "scope": "Namespaced", "versions": versions}
        cluster.apply(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "dynamographdeployments.nvidia.com"},
                "spec": spec,
            }
        )
        until(lambda: all(self.call("GET", GRAPHS.format(version))[0] == 200 for version in VERSIONS))

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        return self.cluster.call(method, path, body, kind)

    def kubeconfig(self) -> str:
        return self.cluster.kubeconfig()


@pytest.mark.filterwarnings("ignore:.*hand-offs of KV take no time")
@pytest.mark.parametrize(("case", "release"), [("two workers", "1.3"), ("two workers", "1.6"), ("two pools", "1.6")])
def test_graphs_start_on_a_cluster(tmp_path: Path, case: str, release: str) -> None:
    assert case in RUNS
    cluster = Cluster(tmp_path)
    try:
        rehearse(Served(cluster), tmp_path, RUNS[case], release)
    finally:
        cluster.close()
