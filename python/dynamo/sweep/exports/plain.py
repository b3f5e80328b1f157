"""A point without Dynamo: Deployments of Kubernetes, and docker compose. nginx routes before several workers."""

from __future__ import annotations

import math

from dynamo.sweep.exports import documents, scaling
from dynamo.sweep.exports.documents import PORT, Json
from dynamo.sweep.exports.plan import Plan, Pool
from dynamo.sweep.exports.table import MODES

_NGINX = "nginx:1.29"
_PROBE_S = 10
_PATIENCE_S = 1800
"""The least time that a start of an engine, which loads a model and captures graphs, may take."""


def kubernetes(plan: Plan, prometheus: str) -> str:
    """Deployments with Services, and what scales them. Raises ValueError for what needs Dynamo."""
    directive, pool = _directive(plan), plan.pools[0]
    workers, app = f"{plan.name}-worker", {"app": f"{plan.name}-worker"}
    behind = {"clusterIP": "None"} if plan.router else {}
    found: list[Json] = [
        _service(workers, app, behind),
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": workers, "labels": app},
            "spec": {
                "replicas": pool.workers,
                "selector": {"matchLabels": app},
                "template": {"metadata": {"labels": app}, "spec": _pod(plan, pool)},
            },
        },
    ]
    if plan.router is not None:
        found += _router(plan, directive)
    for scaler in plan.scalers.values():
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": workers}
        found.append(scaler.document(workers, target, prometheus, f"{workers}-.*"))
    entry = plan.name if plan.router else workers
    header = (
        f"Point {plan.point} of a sweep on plain Kubernetes: kubectl apply -f kubernetes.yaml\n"
        f"Requests go to http://{entry}:{PORT}. The secret {documents.SECRET} holds HF_TOKEN, for models that need one."
    )
    if rules := scaling.rules({role: (workers, f"{workers}-.*", scaler) for role, scaler in plan.scalers.items()}):
        header += f"\nRules for the adapter of Prometheus, which has to read port {PORT} of the workers:\n{rules}"
    return documents.yaml_text(header, *found)


def compose(plan: Plan) -> str:
    """Services for docker compose on one host. Raises ValueError for what needs Dynamo or a cluster."""
    _directive(plan)
    pool = plan.pools[0]
    if plan.scalers:
        raise ValueError("autoscaler: docker compose does not scale")
    services: Json = {}
    names = _names(pool)
    for number, name in enumerate(names):
        first = number * pool.gpus
        devices = [str(device) for device in range(first, first + pool.gpus)]
        words = documents.serve(plan, pool)
        services[name] = {
            "image": documents.stock_image(plan),
            "entrypoint": words[: _program(words)],
            "command": words[_program(words) :],
            "environment": {"HF_TOKEN": "${HF_TOKEN:-}", "HF_HOME": "/models", **pool.command.environment},
            "volumes": ["${HF_HOME:-~/.cache/huggingface}:/models"],
            "ipc": "host",
            "restart": "unless-stopped",
            "deploy": {"resources": {"reservations": _reservations(pool, devices)}},
            "healthcheck": {
                "test": [
                    "CMD",
                    "python3",
                    "-c",
                    f"import urllib.request as u; u.urlopen('http://localhost:{PORT}/health')",
                ],
                "interval": f"{_PROBE_S}s",
                "start_period": f"{_patience(pool)}s",
            },
        }
    published = [f"{PORT}:{PORT}"]
    text: Json = {"services": services}
    if plan.router is None:
        services[names[0]]["ports"] = published
    else:
        services["router"] = {
            "image": _NGINX,
            "restart": "unless-stopped",
            "ports": published,
            "configs": [{"source": "nginx", "target": "/etc/nginx/conf.d/default.conf"}],
            "depends_on": {name: {"condition": "service_healthy"} for name in names},
        }
        text["configs"] = {"nginx": {"file": "./nginx.conf"}}
    header = f"Point {plan.point} of a sweep on one host with {pool.workers * pool.gpus} GPUs: docker compose up"
    return documents.yaml_text(header, text)


def nginx(plan: Plan) -> str:
    """The configuration of the router of docker compose; nothing before a single worker."""
    if plan.router is None:
        return ""
    servers = "".join(f"    server {name}:{PORT};\n" for name in _names(plan.pools[0]))
    return _nginx(_directive(plan), servers)


def _reservations(pool: Pool, devices: list[str]) -> Json:
    """The GPUs and the host memory of a worker."""
    gpus = {"driver": "nvidia", "device_ids": devices, "capabilities": ["gpu"]}
    return {"memory": f"{pool.memory_gib}g", "devices": [gpus]}


def _names(pool: Pool) -> list[str]:
    return [f"worker-{number}" for number in range(pool.workers)]


def _program(words: list[str]) -> int:
    """How many words name the program."""
    return next(at for at, word in enumerate(words) if word == "serve" or "." in word) + 1


def _directive(plan: Plan) -> str:
    """The directive of nginx. Raises ValueError for deployments that need Dynamo's frontend."""
    if not plan.one_pool:
        raise ValueError("two pools: Dynamo's frontend brings them together")
    directive = MODES[plan.router or "round_robin"].nginx
    if directive is None:
        raise ValueError(f"router_mode {plan.router}: only Dynamo's frontend has it")
    if limit := plan.arguments.get("migration_limit"):
        raise ValueError(f"migration_limit {limit}: only Dynamo's frontend has it")
    return directive


def _nginx(directive: str, servers: str, before: str = "") -> str:
    """A configuration that hands requests on and lets answers stream."""
    chosen = f"    {directive};\n" if directive else ""
    return (
        f"{before}upstream workers {{\n    zone workers 256k;\n{chosen}{servers}    keepalive 512;\n}}\n"
        f"server {{\n    listen {PORT};\n    client_max_body_size 64m;\n    location / {{\n"
        "        proxy_pass http://workers;\n        proxy_http_version 1.1;\n"
        '        proxy_set_header Connection "";\n        proxy_set_header Host $host;\n'
        "        proxy_buffering off;\n        proxy_read_timeout 3600s;\n    }\n}\n"
    )


def _router(plan: Plan, directive: str) -> list[Json]:
    name, app = plan.name, {"app": plan.name}
    servers = f"    server {plan.name}-worker:{PORT} resolve;\n"
    before = "resolver kube-dns.kube-system.svc.cluster.local valid=5s;\n"
    # Names are looked up as they stand, so that of the Service has to be whole: its namespace is in the environment.
    template = _nginx(directive, servers.replace(f":{PORT}", f".${{NAMESPACE}}.svc.cluster.local:{PORT}"), before)
    container = {
        "name": "nginx",
        "image": _NGINX,
        "env": [
            {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "NGINX_ENVSUBST_FILTER", "value": "NAMESPACE"},
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": "http"}},
        "volumeMounts": [{"name": "templates", "mountPath": "/etc/nginx/templates"}],
    }
    pod = {"containers": [container], "volumes": [{"name": "templates", "configMap": {"name": f"{name}-nginx"}}]}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-nginx"},
            "data": {"default.conf.template": template},
        },
        _service(name, app, {}),
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": app},
            "spec": {
                "replicas": 1,  # a second one would take turns of its own
                "selector": {"matchLabels": app},
                "template": {"metadata": {"labels": app}, "spec": pod},
            },
        },
    ]


def _service(name: str, app: Json, more: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": app},
        "spec": {**more, "selector": app, "ports": [{"name": "http", "port": PORT, "targetPort": "http"}]},
    }


def _pod(plan: Plan, pool: Pool) -> Json:
    words = documents.serve(plan, pool)
    probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": _PROBE_S}
    container: Json = {
        "name": "engine",
        "image": documents.stock_image(plan),
        "command": words[: _program(words)],
        "args": words[_program(words) :],
        "envFrom": documents.token(),
    }
    if environment := documents.variables(pool):
        container["env"] = environment
    container |= {
        "ports": [{"name": "http", "containerPort": PORT}],
        "startupProbe": {**probe, "failureThreshold": math.ceil(_patience(pool) / _PROBE_S)},
        "readinessProbe": probe,
        "resources": documents.resources(pool),
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    pod: Json = {"nodeSelector": {"nvidia.com/gpu.product": plan.gpu}} if plan.gpu else {}
    return {
        **pod,
        "terminationGracePeriodSeconds": 120,
        "containers": [container],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }


def _patience(pool: Pool) -> int:
    """Seconds that a start may take: three times as long as it was simulated, if that is more than usual."""
    return max(_PATIENCE_S, math.ceil(3 * pool.startup_s))
