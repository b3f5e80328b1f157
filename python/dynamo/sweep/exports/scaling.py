"""Autoscalers of a run as objects of Kubernetes: a HorizontalPodAutoscaler, or a ScaledObject of KEDA."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dynamo._core import values

Json = dict[str, Any]
PROMETHEUS = "http://prometheus-server.monitoring.svc.cluster.local:9090"
"""Where KEDA asks, unless the export names another address."""
_HPA, _KEDA = "hpa", "keda"
_METRICS = {
    "num_requests_waiting": {"vllm": "vllm:num_requests_waiting", "sglang": "sglang:num_queue_reqs"},
    "num_requests_running": {"vllm": "vllm:num_requests_running", "sglang": "sglang:num_running_reqs"},
    "kv_cache_usage": {"vllm": "vllm:kv_cache_usage_perc", "sglang": "sglang:token_usage"},
    "ttft_p95_ms": {"vllm": "vllm:time_to_first_token_seconds", "sglang": "sglang:time_to_first_token_seconds"},
}
_TOLERANCE = 0.1
_DEFAULTS = {_HPA: (1, 8), _KEDA: (0, 100)}
_OTHERS = ("stabilization_up_s", "stabilization_down_s", "up", "down", "tolerance")


class Scaler(NamedTuple):
    """An autoscaler of one pool."""

    policy: str
    settings: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]
    engine: str

    @property
    def bounds(self) -> tuple[int, int]:
        """The fewest and most workers."""
        low, high = _DEFAULTS[self.policy]
        return int(self.settings.get("min", low)), int(self.settings.get("max", high))

    def document(self, name: str, target: Json, prometheus: str, pods: str) -> Json:
        """The object that scales ``target``, whose pods have names that match ``pods``."""
        head: Json = {"metadata": {"name": name}}
        if self.policy == _HPA:
            low, high = self.bounds
            spec: Json = {"scaleTargetRef": target, "minReplicas": low, "maxReplicas": high}
            spec["metrics"] = [self._metric(metric, name) for metric in self.metrics]
            behavior = self._behavior()
            if behavior:
                spec["behavior"] = behavior
            return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", **head, "spec": spec}
        return {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            **head,
            "spec": self._keda(target, prometheus, pods),
        }

    def _metric(self, metric: Mapping[str, Any], name: str) -> Json:
        named = adapted(self.engine, metric["metric"])
        amount = _quantity(metric["target"])
        if metric["kind"] == "average" and metric["metric"] != "ttft_p95_ms":
            target = {"type": "AverageValue", "averageValue": amount}
            return {"type": "Pods", "pods": {"metric": {"name": named}, "target": target}}
        target = {"type": "Value", "value": amount}
        if metric["kind"] == "total":
            target = {"type": "AverageValue", "averageValue": amount}
        return {"type": "External", "external": {"metric": {"name": _whole(named, name)}, "target": target}}

    def _behavior(self) -> Json:
        """What differs from the defaults of Kubernetes, or always for windows: their default is the simulated one."""
        found: Json = {}
        for direction, key, window in (("scaleUp", "up", 0), ("scaleDown", "down", 300)):
            rules: Json = {"stabilizationWindowSeconds": int(self.settings.get(f"stabilization_{key}_s", window))}
            if (tolerance := self.settings.get("tolerance", _TOLERANCE)) != _TOLERANCE:
                rules["tolerance"] = _quantity(tolerance)
            if (given := self.settings.get(key)) is not None:
                rules["selectPolicy"] = str(given.get("select", "max")).capitalize()
                if policies := given.get("policies"):
                    rules["policies"] = [
                        {
                            "type": str(p["type"]).capitalize(),
                            "value": int(p["value"]),
                            "periodSeconds": int(p["period_s"]),
                        }
                        for p in policies
                    ]
            found[direction] = rules
        return found

    def _keda(self, target: Json, prometheus: str, pods: str) -> Json:
        low, high = self.bounds
        spec: Json = {
            "scaleTargetRef": target,
            "pollingInterval": int(self.settings.get("polling_s", 30)),
            "cooldownPeriod": int(self.settings.get("cooldown_s", 300)),
            "initialCooldownPeriod": int(self.settings.get("initial_cooldown_s", 0)),
            "minReplicaCount": low,
            "maxReplicaCount": high,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": self._behavior()}},
        }
        spec["triggers"] = []
        for metric in self.metrics:
            told = {
                "serverAddress": prometheus,
                "query": f'sum({_METRICS[metric["metric"]][self.engine]}{{pod=~"{pods}"}})',
                "threshold": _quantity(metric["target"]),
                "activationThreshold": _quantity(self.settings.get("activation", 0)),
            }
            spec["triggers"].append({"type": "prometheus", "metricType": "AverageValue", "metadata": told})
        return spec


def adapted(engine: str, metric: str) -> str:
    """What an adapter for Prometheus calls a metric: names of Kubernetes have no colon."""
    found = _METRICS[metric][engine].replace(":", "_")
    return f"{found}_p95_ms" if metric == "ttft_p95_ms" else found


def _whole(metric: str, name: str) -> str:
    """What an adapter calls the metric of all workers of a deployment together."""
    return f"{metric}_of_{name}".replace("-", "_")


def rules(scalers: Mapping[str, tuple[str, str, Scaler]]) -> str:
    """What the adapter for Prometheus has to be told, as lines of a comment; nothing for KEDA.

    With the name of each scaler go that of its object, and what the names of its pods match.
    """
    single: dict[str, None] = {}
    whole: dict[str, None] = {}
    for name, pods, scaler in scalers.values():
        for metric in scaler.metrics if scaler.policy == _HPA else ():
            series, named = _METRICS[metric["metric"]][scaler.engine], adapted(scaler.engine, metric["metric"])
            late = metric["metric"] == "ttft_p95_ms"
            found = f'- seriesQuery: \'{series}{"_bucket" if late else ""}{{namespace!="",pod!=""}}\'\n'
            if metric["kind"] == "average" and not late:
                found += "  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}\n"
                found += f"  name: {{as: {named}}}\n"
                single[found + f"  metricsQuery: 'sum({series}{{<<.LabelMatchers>>}}) by (<<.GroupBy>>)'"] = None
                continue
            chosen = f'{{<<.LabelMatchers>>,pod=~"{pods}"}}'
            query = f"sum({series}{chosen})"
            if late:
                query = f"1000 * histogram_quantile(0.95, sum(rate({series}_bucket{chosen}[1m])) by (le))"
            found += "  resources: {overrides: {namespace: {resource: namespace}}}\n"
            whole[found + f"  name: {{as: {_whole(named, name)}}}\n  metricsQuery: '{query}'"] = None
    parts = [f"{key}:\n" + "\n".join(each) for key, each in (("rules", single), ("externalRules", whole)) if each]
    return "\n".join(parts)


def of(given: Any, engine: str, roles: Sequence[str]) -> dict[str, Scaler]:
    """The autoscalers of a run by the role of their pool. Raises ValueError for those that no file can say."""
    if given is None:
        return {}
    said = json.loads(given) if isinstance(given, str) else given
    found: dict[str, Scaler] = {}
    for settings in said if isinstance(said, list) else [said]:
        pool = settings.get("pool", "decode")
        role = "worker" if roles == ["worker"] else pool
        found[role] = _scaler(settings, engine)
    return found


def _scaler(settings: Mapping[str, Any], engine: str) -> Scaler:
    policy = settings["policy"]
    if policy not in _DEFAULTS:
        raise ValueError(f"autoscaler.policy: got {policy}, want hpa or keda: no object of Kubernetes does the same")
    if settings.get("sync_s", 15) != 15:
        raise ValueError(f"autoscaler.sync_s: got {settings['sync_s']}, want 15: it is a setting of the whole cluster, "
                         "--horizontal-pod-autoscaler-sync-period")  # fmt: skip
    metrics = settings.get("metrics") or [settings]
    said = [
        {"metric": m.get("metric", "num_requests_waiting"), "target": m["target"], "kind": m.get("kind", "average")}
        for m in metrics
    ]
    scaler = Scaler(policy, settings, said, engine)
    if scaler.bounds[0] < 1:
        raise ValueError(f"autoscaler.min: got {scaler.bounds[0]}, want 1 or more: without a worker nothing counts "
                         "what waits")  # fmt: skip
    if (idle := settings.get("idle")) is not None:
        raise ValueError(f"autoscaler.idle: got {values.show(idle)}, want it left out: KEDA's idleReplicaCount is 0 or "
                         "nothing")  # fmt: skip
    return scaler


def _quantity(value: Any) -> str:
    """A number as Kubernetes spells quantities: without an exponent, at most three places."""
    return f"{float(value):.3f}".rstrip("0").rstrip(".")
