"""Manifests of deployments: reading them, and what a DynamoGraphDeployment may say.

The schemas cover the fields of Dynamo 1.3's operator; those that mock deployments do not use may have any value. Of the
fields of containers, which are those of Kubernetes, what workers may need is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

DEPLOY = Path(__file__).parent.parent / "examples/backends/mocker/deploy"
GRAPHS = [DEPLOY / name for name in ("agg.yaml", "disagg.yaml", "v1alpha1/agg.yaml", "v1alpha1/disagg.yaml")]
PLAIN = [DEPLOY / "plain" / name for name in ("agg.yaml", "disagg.yaml")]
ONCE = [DEPLOY / "plain" / name for name in ("resource.yaml", "permissions.yaml")]

Json = dict[str, Any]

ANY: Json = {}
TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
TEXTS: Json = {"type": "object", "additionalProperties": TEXT}
FRAMEWORK: Json = {"enum": ["sglang", "vllm", "trtllm"]}
DNS_LABEL: Json = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}


def fields(required: tuple[str, ...] = (), **properties: Json) -> Json:
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


def items(item: Json, **more: Any) -> Json:
    return {"type": "array", "items": item, **more}


def anything(*names: str) -> dict[str, Json]:
    return dict.fromkeys(names, ANY)


ENV = items(fields(("name",), name=TEXT, value=TEXT, valueFrom={"type": "object"}))
CONTAINER = {
    "image": {"type": "string", "minLength": 1},
    "workingDir": TEXT,
    "command": items(TEXT),
    "args": items(TEXT),
    "env": ENV,
    "envFrom": items(fields(prefix=TEXT, secretRef={"type": "object"}, configMapRef={"type": "object"})),
    "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "volumeMounts": items(fields(("name", "mountPath"), name=TEXT, mountPath=TEXT, readOnly={"type": "boolean"})),
    "ports": items({"type": "object", "required": ["containerPort"]}),
    "resources": fields(requests={"type": "object"}, limits={"type": "object"}),
    **anything("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext"),
}
CONTAINERS = items(fields(("name",), name=DNS_LABEL, **CONTAINER), minItems=1)
POD = {
    "initContainers": CONTAINERS,
    "volumes": items({"type": "object", "required": ["name"]}),
    "serviceAccountName": DNS_LABEL,
    "terminationGracePeriodSeconds": COUNT,
    **anything("affinity", "imagePullSecrets", "nodeSelector", "securityContext", "tolerations"),
}

AMOUNTS = fields(cpu=TEXT, memory=TEXT, gpu=TEXT, gpuType=TEXT, custom=TEXTS)
SERVICE = fields(
    componentType={"enum": ["frontend", "worker", "planner", "epp", "prefill", "decode"]},
    subComponentType={"enum": ["prefill", "decode"]},
    replicas=COUNT,
    envs=ENV,
    envFromSecret=TEXT,
    resources=fields(requests=AMOUNTS, limits=AMOUNTS),
    sharedMemory=fields(disabled={"type": "boolean"}, size=TEXT),
    volumeMounts=items(fields(("name",), name=TEXT, mountPoint=TEXT, useAsCompilationCache={"type": "boolean"})),
    extraPodSpec=fields(**POD, containers=CONTAINERS, mainContainer=fields(name=TEXT, **CONTAINER)),
    globalDynamoNamespace={"type": "boolean"},
    labels=TEXTS,
    annotations=TEXTS,
    **anything("livenessProbe", "readinessProbe", "multinode", "scalingAdapter", "modelRef", "ingress"),
    **anything("extraPodMetadata", "eppConfig", "checkpoint", "serviceName", "dynamoNamespace"),
)
COMPONENT = fields(
    ("name",),
    name={"type": "string", "maxLength": 63, "pattern": "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$"},
    type={"enum": ["frontend", "worker", "prefill", "decode", "planner", "epp"]},
    replicas=COUNT,
    podTemplate=fields(
        metadata=fields(labels=TEXTS, annotations=TEXTS), spec=fields(("containers",), **POD, containers=CONTAINERS)
    ),
    sharedMemorySize=TEXT,
    globalDynamoNamespace={"type": "boolean"},
    **anything("multinode", "scalingAdapter", "modelRef", "frontendSidecar", "eppConfig", "topologyConstraint"),
    **anything("compilationCache", "experimental"),
)
SPECS = {
    "nvidia.com/v1alpha1": fields(
        ("services",),
        services={"type": "object", "maxProperties": 25, "additionalProperties": SERVICE},
        envs=ENV,
        backendFramework=FRAMEWORK,
        pvcs=items({"type": "object", "required": ["name"]}, maxItems=100),
        annotations=TEXTS,
        labels=TEXTS,
    ),
    "nvidia.com/v1beta1": fields(
        ("components",), components=items(COMPONENT, maxItems=25), env=ENV, backendFramework=FRAMEWORK
    ),
}


def documents(path: Path) -> list[Json]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def check(graph: Json) -> None:
    """Raises ValueError that says what is wrong with a DynamoGraphDeployment of workers like ours."""
    metadata = fields(("name",), name=DNS_LABEL, namespace=DNS_LABEL, labels=TEXTS, annotations=TEXTS)
    schema = fields(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"enum": list(SPECS)},
        kind={"const": "DynamoGraphDeployment"},
        metadata=metadata,
        spec=SPECS.get(graph.get("apiVersion", ""), ANY),
    )
    errors = sorted(jsonschema.Draft202012Validator(schema).iter_errors(graph), key=str)
    if errors:
        raise ValueError("; ".join(f"{error.json_path}: {error.message}" for error in errors))
    parts = list(components(graph))
    names = Counter(name.lower() for name, _, _ in parts)
    if repeated := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"{repeated[0]}: more than one component of this name")
    roles = Counter(role for _, role, _ in parts)
    if not roles["frontend"] or not roles["worker"] + roles["prefill"] + roles["decode"]:
        raise ValueError("want a frontend and workers")
    for name, role, container in parts:
        check_main(name, role, container, disaggregated=roles["prefill"] > 0)
    if roles["prefill"] and not roles["decode"]:
        raise ValueError("want decode workers beside prefill workers")


def components(graph: Json) -> Iterator[tuple[str, str, Json | None]]:
    """Name, role and main container of each component."""
    if graph["apiVersion"].endswith("v1alpha1"):
        for name, service in graph["spec"]["services"].items():
            role = service.get("subComponentType") or service.get("componentType", "")
            yield name, role, service.get("extraPodSpec", {}).get("mainContainer")
        return
    for component in graph["spec"]["components"]:
        all_containers = component.get("podTemplate", {}).get("spec", {}).get("containers", [])
        main = next((c for c in all_containers if c["name"] == "main"), None)
        yield component["name"], component.get("type", ""), main


def check_main(name: str, role: str, container: Json | None, disaggregated: bool) -> None:
    if container is None or "image" not in container:
        raise ValueError(f"{name}: want a main container with an image")
    if role not in ("worker", "prefill", "decode"):
        return
    if not container.get("command"):
        raise ValueError(f"{name}: want a command, or the operator runs a shell")
    args = container.get("args", [])
    mode = args[args.index("--disaggregation-mode") + 1] if "--disaggregation-mode" in args else None
    if mode != (role if disaggregated else None):
        raise ValueError(f"{name}: --disaggregation-mode: got {mode}, but its type is {role}")


def containers(document: Json) -> Iterator[Json]:
    """All main containers of a document, with the command that each of them runs."""
    if document["kind"] == "DynamoGraphDeployment":
        yield from (container for _, _, container in components(document) if container is not None)
    elif document["kind"] == "Deployment":
        yield from document["spec"]["template"]["spec"]["containers"]
