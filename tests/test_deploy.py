"""The manifests of mock deployments, as far as they can be checked without a cluster."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from manifests import DEPLOY, GRAPHS, ONCE, PLAIN, check, components, containers, documents

from dynamo.mocker.main import _parser

ALL = [*GRAPHS, *PLAIN, *ONCE]
LABELS = {"nvidia.com/dynamo-discovery-enabled": "true", "nvidia.com/dynamo-discovery-backend": "kubernetes"}
MOCKER = ["python3", "-m", "dynamo.mocker"]
FRONTEND = ["python3", "-m", "dynamo.frontend"]


def name(path: Path) -> str:
    return str(path.relative_to(DEPLOY))


def test_none_is_forgotten() -> None:
    assert sorted(DEPLOY.rglob("*.yaml")) == sorted(ALL)


@pytest.mark.parametrize("path", GRAPHS, ids=name)
def test_schema(path: Path) -> None:
    (graph,) = documents(path)
    check(graph)
    assert graph["metadata"]["name"] == f"mocker-{path.stem}"
    assert (graph["apiVersion"] == "nvidia.com/v1alpha1") == (path.parent.name == "v1alpha1")


@pytest.mark.parametrize("path", [*GRAPHS, *PLAIN], ids=name)
def test_workers_take_their_arguments(path: Path) -> None:
    """All are options that workers know, their files are in the image, and roles are as the file name says."""
    modes = []
    for container in (c for document in documents(path) for c in containers(document)):
        if container.get("command") != MOCKER:
            assert container.get("command", FRONTEND) == FRONTEND
            assert "args" not in container
            continue
        options = vars(_parser().parse_args(container["args"]))
        modes.append(options.get("disaggregation_mode"))
        assert options["model_path"] == options["model_name"]
        profile = DEPLOY.parents[3] / options["planner_profile_data"]
        assert profile.is_dir()
        assert container["workingDir"] == "/workspace"
    assert modes == {"agg": [None], "disagg": ["prefill", "decode"]}[path.stem]


@pytest.mark.parametrize("path", [*GRAPHS, *PLAIN], ids=name)
def test_model_is_fetched_before(path: Path) -> None:
    """The first container of a worker's pod fetches the model that the second one serves, to where that looks."""
    text = path.read_text()
    served = re.findall(r"- --model-path\n +- (\S+)\n", text)
    assert re.findall(r"\[hf, download, (\S+),", text) == served
    assert text.count("name: HF_HOME") == 2 * len(served)
    assert len(set(re.findall(r"name: HF_HOME\n +value: (\S+)", text) + re.findall(r"mountPath: (\S+)", text))) == 1


def test_both_versions_say_the_same() -> None:
    for path in GRAPHS[:2]:
        new, old = documents(path)[0], documents(path.parent / "v1alpha1" / path.name)[0]
        mains = [{n: {**c, "name": "main"} for n, _, c in components(graph) if c is not None} for graph in (new, old)]
        assert mains[0] == mains[1]


def test_images_are_those_of_the_documents() -> None:
    text = (DEPLOY / "README.md").read_text() + (DEPLOY / "Dockerfile").read_text()
    for path in [*GRAPHS, *PLAIN]:
        assert all(image in text for image in re.findall(r"image: (\S+)", path.read_text()))


@pytest.mark.parametrize("path", PLAIN, ids=name)
def test_plain(path: Path) -> None:
    """Every Deployment has a Service of its own, which selects its pods; what it needs from others exists."""
    found = {kind: {d["metadata"]["name"]: d for d in documents(path) if d["kind"] == kind} for kind in KINDS}
    accounts = {d["metadata"]["name"] for d in documents(ONCE[1]) if d["kind"] == "ServiceAccount"}
    assert sum(map(len, found.values())) == len(documents(path))
    assert found["Deployment"].keys() == found["Service"].keys()
    for key, deployment in found["Deployment"].items():
        template, service = deployment["spec"]["template"], found["Service"][key]
        labels = template["metadata"]["labels"].items()
        assert deployment["spec"]["selector"]["matchLabels"].items() <= labels
        assert service["spec"]["selector"].items() <= labels
        assert template["spec"]["serviceAccountName"] in accounts
        (container,) = template["spec"]["containers"]
        ports = {port["name"] for port in container["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
        worker = container["command"] == MOCKER
        assert worker == (LABELS.items() <= labels) == (LABELS.items() <= service["metadata"]["labels"].items())
        environment = {e["name"]: e.get("value") for e in container["env"]}
        assert environment["DYN_NAMESPACE"] == f"mocker-{path.stem}"
        assert {"POD_NAME", "POD_UID", "POD_NAMESPACE"} <= environment.keys()
        if worker:
            patience = float(environment["DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS"] or 0)
            assert 0 < patience < template["spec"]["terminationGracePeriodSeconds"]


KINDS = ("Deployment", "Service")


def refused(graph: dict[str, Any]) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        check(graph)
    return str(caught.value)


def beta(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    graph = copy.deepcopy(documents(GRAPHS[1])[0])
    change(graph)
    return graph


def worker(graph: dict[str, Any]) -> dict[str, Any]:
    main: dict[str, Any] = graph["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]
    return main


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda g: g.update(kind="Deployment"), "$.kind"),
        (lambda g: g.update(apiVersion="nvidia.com/v2"), "$.apiVersion"),
        (lambda g: g.update(apiVersion="nvidia.com/v1alpha1"), "'components' was unexpected"),
        (lambda g: g["metadata"].update(name="Mocker_1"), "$.metadata.name"),
        (lambda g: g["spec"].update(services={}), "'services' was unexpected"),
        (lambda g: g["spec"]["components"][1].update(replicas=-1), "replicas"),
        (lambda g: g["spec"]["components"][1].update(replicas="1"), "replicas"),
        (lambda g: g["spec"]["components"][1].update(type="router"), "$.spec.components[1].type"),
        (lambda g: g["spec"]["components"][1].update(subComponentType="prefill"), "'subComponentType' was unexpected"),
        (lambda g: g["spec"]["components"][1].update(name="DECODE"), "decode: more than one"),
        (lambda g: g["spec"]["components"][1].update(name="a_b"), "$.spec.components[1].name"),
        (lambda g: g["spec"]["components"][1].update(type="decode"), "got prefill, but its type is decode"),
        (lambda g: g["spec"]["components"].pop(0), "want a frontend"),
        (lambda g: g["spec"]["components"].pop(2), "want decode workers"),
        (lambda g: worker(g)["args"].append(1), "1 is not of type 'string'"),
        (lambda g: worker(g)["env"][0].update(value=1), "1 is not of type 'string'"),
        (lambda g: worker(g).update(name="engine"), "want a main container"),
        (lambda g: worker(g).pop("command"), "want a command"),
        (lambda g: worker(g).pop("image"), "with an image"),
    ],
)
def test_schema_finds(change: Callable[[dict[str, Any]], object], problem: str) -> None:
    assert problem in refused(beta(change))
