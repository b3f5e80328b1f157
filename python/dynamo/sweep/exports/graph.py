"""A DynamoGraphDeployment of a point, for the operators of Dynamo 1.3 and 1.6."""

from __future__ import annotations

from dynamo.sweep.exports import documents, scaling
from dynamo.sweep.exports.documents import Json
from dynamo.sweep.exports.plan import Plan, Pool
from dynamo.sweep.exports.table import MODES

RELEASES = {"1.3": "1.3.1", "1.6": "1.6.1"}
_SHARED_MEMORY = "16Gi"


def text(plan: Plan, release: str, prometheus: str) -> str:
    """The manifest for a release of Dynamo. Raises ValueError if its frontend has no such router."""
    mode = MODES["round_robin" if plan.router is None else plan.router].dynamo
    if mode is None:
        raise ValueError(f"router_mode {plan.router}: Dynamo's frontend has none like it")
    frontend = ["--router-mode", mode, *plan.router_words]
    if limit := plan.arguments.get("migration_limit"):
        frontend += ["--migration-limit", str(limit)]
    image = documents.dynamo_image(plan, RELEASES[release])
    graph = _old(plan, image, frontend) if release == "1.3" else _new(plan, image, frontend)
    found = [graph]
    for role, scaler in plan.scalers.items():
        target = {
            "apiVersion": "nvidia.com/v1alpha1",
            "kind": "DynamoGraphDeploymentScalingAdapter",
            "name": f"{plan.name}-{role}",
        }
        found.append(scaler.document(f"{plan.name}-{role}", target, prometheus, f"{plan.name}.*-{role}-.*"))
    header = (
        f"Point {plan.point} of a sweep, for the operator of Dynamo {release}: kubectl apply -f dynamo-{release}.yaml\n"
        f"The secret {documents.SECRET} holds HF_TOKEN, for models that need one."
    )
    named = {r: (f"{plan.name}-{r}", f"{plan.name}.*-{r}-.*", scaler) for r, scaler in plan.scalers.items()}
    if rules := scaling.rules(named):
        header += f"\nRules for the adapter of Prometheus:\n{rules}"
    return documents.yaml_text(header, *found)


def _old(plan: Plan, image: str, frontend: list[str]) -> Json:
    """The resource in version v1alpha1, which lists services."""
    services: Json = {
        "Frontend": {
            "componentType": "frontend",
            "replicas": 1,
            "extraPodSpec": {
                "mainContainer": {"image": image, "command": ["python3", "-m", "dynamo.frontend"], "args": frontend}
            },
        }
    }
    for pool in plan.pools:
        service: Json = {"componentType": "worker"}
        if pool.role != "worker":
            service["subComponentType"] = pool.role
        service |= {
            "replicas": pool.workers,
            "envs": [documents.token_variable()],
            "resources": {"limits": {"gpu": str(pool.gpus)}, "requests": {"memory": f"{pool.memory_gib}Gi"}},
            "sharedMemory": {"size": _SHARED_MEMORY},
            "extraPodSpec": {**_node(plan), "mainContainer": _container(plan, pool, image)},
        }
        if pool.role in plan.scalers:
            service["scalingAdapter"] = {"enabled": True}
        services[pool.role] = service
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": plan.name},
        "spec": {"backendFramework": plan.engine, "services": services},
    }


def _new(plan: Plan, image: str, frontend: list[str]) -> Json:
    """The resource in version v1beta1, which lists components."""
    main = {"name": "main", "image": image, "command": ["python3", "-m", "dynamo.frontend"], "args": frontend}
    components: list[Json] = [
        {"name": "Frontend", "type": "frontend", "replicas": 1, "podTemplate": {"spec": {"containers": [main]}}}
    ]
    for pool in plan.pools:
        container = {"name": "main", **_container(plan, pool, image)}
        container |= {"envFrom": documents.token(), "resources": documents.resources(pool)}
        component: Json = {
            "name": pool.role,
            "type": pool.role,
            "replicas": pool.workers,
            "sharedMemorySize": _SHARED_MEMORY,
            "podTemplate": {"spec": {**_node(plan), "containers": [container]}},
        }
        if pool.role in plan.scalers:
            component["scalingAdapter"] = {}
        components.append(component)
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": plan.name},
        "spec": {"backendFramework": plan.engine, "components": components},
    }


def _container(plan: Plan, pool: Pool, image: str) -> Json:
    words = documents.worker(plan, pool)
    found: Json = {"image": image, "command": words[:3], "args": words[3:]}
    if environment := documents.variables(pool):
        found["env"] = environment
    return found


def _node(plan: Plan) -> Json:
    return {"nodeSelector": {"nvidia.com/gpu.product": plan.gpu}} if plan.gpu else {}
