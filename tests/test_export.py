"""Exports of points: every argument has its row, files say what was simulated, and mockers start from them."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import exporttools
import jsonschema
import pytest
import yaml
from conftest import row, write_trace
from frontendtools import meeting
from manifests import check, components

from dynamo import sweep
from dynamo.replay import run_synthetic_trace_replay
from dynamo.sweep.exports import engine, flags
from dynamo.sweep.exports.table import ASSUMED, ENGINE, FLAG, REFUSED, ROUTER, RUN, SCALING
from dynamo.sweep.main import main

SCHEMAS = Path(__file__).parent / "schemas"
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
TRAFFIC = {"input_tokens": 300, "output_tokens": 20, "request_count": 12, "arrival_interval_ms": 5.0}
Json = dict[str, Any]


def schema(name: str) -> Json:
    found: Json = json.loads((SCHEMAS / f"{name}.json").read_text())
    return found


KINDS = {
    "Deployment": "io.k8s.api.apps.v1.Deployment",
    "Service": "io.k8s.api.core.v1.Service",
    "ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "HorizontalPodAutoscaler": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
}


def check_object(document: Json) -> None:
    """Raises ValidationError unless an object of Kubernetes is as its published schema wants it."""
    if document["kind"] == "DynamoGraphDeployment":
        check(document)
        check_graph(document)
    elif document["kind"] == "ScaledObject":
        jsonschema.validate(document, schema("keda"))
    else:
        jsonschema.validate(document, {**schema("kubernetes"), "$ref": f"#/$defs/{KINDS[document['kind']]}"})


def check_graph(graph: Json) -> None:
    """Raises ValidationError unless a graph is as the CRD of Dynamo's operator wants it."""
    version = graph["apiVersion"].removeprefix("nvidia.com/")
    shared = {"$defs": {**schema("kubernetes")["$defs"], **schema("dynamo")["$defs"]}}
    jsonschema.validate(graph, {**shared, "$ref": f"#/$defs/{version}"})


def made(folder: Path, run: Mapping[str, Any], point: int | str = "best", **more: Any) -> sweep.Export:
    """The export of a sweep with one point."""
    sweep.run({"run": {**TRAFFIC, **run}, "search": {"seed": [1]}, "gpu_hour_price": 2}, folder / "sweep")
    return sweep.export(folder / "sweep", point, folder / "out", **{"model": MODEL, **more})


def documents(folder: Path, name: str) -> list[Json]:
    return list(yaml.safe_load_all((folder / "out" / name).read_text()))


# The tables.


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (exporttools.engine_arguments(), ENGINE),
        (exporttools.names_of("run_options_generated.json"), RUN),
        (exporttools.names_of("router_config_generated.json"), ROUTER),
        (exporttools.names_of("autoscaler_generated.json"), SCALING),
    ],
    ids=["engine", "run", "router", "autoscaler"],
)
def test_everything_has_a_row(names: list[str], table: Mapping[str, Any]) -> None:
    """A new argument, option, setting or key has to be exported, refused, or said to have no counterpart."""
    without = [name for name in names if name not in table and not name.startswith("kv_cache_groups.")]
    assert not without, f"{without}: want rows in python/dynamo/sweep/exports/table.py"
    members = {f"kv_cache_groups.{member}" for member in ("type", "window", "num_blocks")}
    assert not set(table) - {*names, *members, "kind"}
    for name, known in table.items():
        assert known.text or known.vllm or known.sglang, name
        assert (known.kind == FLAG) == bool(known.vllm or known.sglang), name


def test_the_page_has_these_tables() -> None:
    text = exporttools.PAGE.read_text()
    assert text == exporttools.page(text), "want: python tests/exporttools.py"
    assert exporttools.markdown() in text


# Flags say what was simulated, and what flags say was simulated.

VLLM = {"engine_type": "vllm", "block_size": 64, "num_gpu_blocks": 100}
SGLANG = {"engine_type": "sglang", "block_size": 4, "num_gpu_blocks": 100, "sglang": {}}
SAID = [
    *({**VLLM, "max_model_len": n, "max_num_seqs": n, "max_num_batched_tokens": n} for n in (1, 2048)),
    {**VLLM, "block_size": 16, "enable_prefix_caching": False, "enable_chunked_prefill": True},
    {**VLLM, "aic_tp_size": 2, "aic_attention_dp_size": 4, "aic_moe_ep_size": 8, "aic_moe_tp_size": 1},
    {**VLLM, "aic_tp_size": 4, "gpu_memory_utilization": 0.85, "kv_cache_dtype": "fp8"},
    {**VLLM, "aic_nextn": 3, "watermark": 0.05, "async_scheduling": False, "scheduler_reserve_full_isl": False},
    {**VLLM, "long_prefill_token_threshold": 512, "prefill_schedule_interval": 3, "kv_cache_memory_bytes": 10**10},
    {**VLLM, "host_cache_gb": 64.0, "async_scheduling": True},
    {**SGLANG, "max_model_len": 4096, "max_num_seqs": 7, "aic_tp_size": 2, "mem_fraction_static": 0.8},
    {**SGLANG, "aic_tp_size": 2, "aic_attention_dp_size": 4, "aic_moe_ep_size": 4, "aic_moe_tp_size": 2},
    {**SGLANG, "sglang": {"schedule_policy": "lpm", "max_prefill_tokens": 99, "chunked_prefill_size": 64}},
    {**SGLANG, "sglang": {"schedule_conservativeness": 0.3, "overlap_schedule": False, "enable_mixed_chunk": True}},
    {**SGLANG, "sglang": {"scheduler_recv_interval": 10, "clip_max_new_tokens": 1024}, "aic_nextn": 2},
    {**SGLANG, "sglang": {"num_reserved_decode_tokens": 64}},
    {**SGLANG, "host_cache_gb": 100.0, "host_cache": {"write_policy": "write_back"}, "aic_kv_cache_dtype": "fp8"},
]


@pytest.mark.parametrize("said", SAID, ids=lambda said: "-".join(str(v) for v in said.values())[:60])
def test_flags_say_what_was_simulated(said: Json) -> None:
    command = engine.command("extra_engine_args", said)
    found = engine.read(said["engine_type"], command.words, command.environment)
    wanted = engine.flat(said)
    assert {name: found.get(name) for name in wanted if name not in IMPLIED} == pytest.approx(
        {name: value for name, value in wanted.items() if name not in IMPLIED}
    )


IMPLIED = ("aic_moe_tp_size",)  # the GPUs of a worker by the number of places of experts


def test_all_flags_are_tried() -> None:
    """Each row with a flag is in one of the cases above, or is the second name of one that is."""
    for kind in ("vllm", "sglang"):
        tried = {name for said in SAID if said["engine_type"] == kind for name in engine.flat(said)}
        flagged = {
            name
            for name, row in ENGINE.items()
            if row.kind == FLAG and row.flag(kind) is not None and not (kind == "sglang" and row.vllm_only)
        }
        assert flagged - tried <= {"dp_size", "worker_type", "aic_kv_cache_dtype"}, kind


@pytest.mark.parametrize("name", [name for name, row in ENGINE.items() if row.kind == REFUSED])
def test_what_is_refused_is_named(name: str) -> None:
    value = "guaranteed_no_evict" if name.startswith("trtllm") else 77
    outer, _, member = name.partition(".")
    given = {**VLLM, outer: {member: value} if member else value}
    with pytest.raises(ValueError, match=rf"^extra_engine_args\.{name}: got .*, want .*: "):
        engine.command("extra_engine_args", given)
    for harmless in ENGINE[name].harmless:
        engine.command("extra_engine_args", {**VLLM, outer: {member: harmless} if member else harmless})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"engine_type": "trtllm"}, "engine_type: got .*want vllm or sglang"),
        ({"max_num_seqs": None}, "max_num_seqs: got null, want a number"),
        ({"block_size": 48}, "block_size: got 48, want one of 1, 8"),
        ({"aic_tp_size": 16}, "workers of 16 GPUs, want at most 8"),
        ({"aic_tp_size": 4, "aic_moe_ep_size": 2}, "aic_moe_ep_size: got 2, want 1 or 4"),
        ({"aic_tp_size": 4, "aic_moe_ep_size": 4, "aic_moe_tp_size": 4}, "want 4, all GPUs"),
        ({"num_host_blocks": 100}, "host_cache_gb: got nothing, want it instead of blocks"),
        ({"dp_size": 2, "aic_attention_dp_size": 4}, "dp_size: got 2, want 4"),
        ({"kv_cache_dtype": "fp8", "aic_kv_cache_dtype": "int8"}, "aic_kv_cache_dtype: got .int8."),
        ({"unheard_of": 1}, "unheard_of: unknown"),
    ],
)
def test_what_no_flag_can_say(change: Json, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        engine.command("extra_engine_args", {**VLLM, **change})


# The files.

RUNS: dict[str, tuple[Json, set[str]]] = {
    "one": ({}, {"start.sh", "kubernetes.yaml", "compose.yaml"}),
    "turns": ({"num_workers": 3}, {"start.sh", "kubernetes.yaml", "compose.yaml", "nginx.conf"}),
    "two choices": (
        {"num_workers": 2, "router_mode": "power_of_two"},
        {"kubernetes.yaml", "compose.yaml", "nginx.conf"},
    ),
    "kv": ({"num_workers": 2, "router_mode": "kv_router"}, {"start.sh"}),
    "sglang": (
        {"extra_engine_args": {"engine_type": "sglang", "sglang": {"clip_max_new_tokens": 512}}},
        {"start.sh", "kubernetes.yaml", "compose.yaml"},
    ),
    "two pools": (
        {
            "prefill_engine_args": {"worker_type": "prefill", "kv_transfer_bandwidth": 10, "kv_bytes_per_token": 100},
            "decode_engine_args": {"worker_type": "decode", "aic_tp_size": 2},
            "num_decode_workers": 2,
            "router_mode": "kv_router",
        },
        {"start.sh"},
    ),
    "hpa": (
        {"autoscaler": {"policy": "hpa", "target": 5, "max": 4, "tolerance": 0.05, "up": {"select": "min", "policies": [
            {"type": "pods", "value": 2, "period_s": 30}]}}, "extra_engine_args": {"startup_time": 900}},
        {"kubernetes.yaml"},
    ),
    "keda": (
        {"autoscaler": {"policy": "keda", "target": 2, "min": 1, "max": 4, "cooldown_s": 60}, "num_workers": 1},
        {"kubernetes.yaml"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RUNS)
def test_files_are_what_their_schemas_want(tmp_path: Path, case: str) -> None:
    run, wanted = RUNS[case]
    done = made(tmp_path, run)
    graphs = set() if case == "two choices" else {"dynamo-1.3.yaml", "dynamo-1.6.yaml"}
    always = {"README.md", "engine.sh", "prediction.json", "verify.sh", "verify.json"}
    assert set(done.files) - {"deployment.json"} == {*always, *wanted, *graphs}
    assert ("deployment.json" in done.files) == (case in ("one", "sglang", "hpa", "keda"))
    assert {file.name for file in (tmp_path / "out").iterdir()} == set(done.files)
    assert set(done.left_out) == {
        "start.sh",
        "kubernetes.yaml",
        "compose.yaml",
        "dynamo-1.3.yaml",
        "dynamo-1.6.yaml",
    } - set(done.files)
    for name in done.files:
        if name == "compose.yaml":
            (document,) = documents(tmp_path, name)
            jsonschema.validate(document, schema("compose"))
        elif name.endswith(".yaml"):
            for document in documents(tmp_path, name):
                check_object(document)
        elif name.endswith(".sh"):
            assert (tmp_path / "out" / name).stat().st_mode & 0o111
            subprocess.run(["sh", "-n", tmp_path / "out" / name], check=True)


STUB = """#!/bin/sh
# Stands in for a program: worker-1, by its GPU, ends as soon as all are there; the others run until they are ended.
echo "$$" >> "$0.pids"
[ "${CUDA_VISIBLE_DEVICES:-}" != "$ENDS" ] && exec sleep 600
while [ "$(wc -l < "$0.pids")" -lt 3 ]; do sleep 0.05; done
exit 7
"""


@pytest.mark.parametrize(
    ("ends", "status", "said"), [("1", 1, "start.sh: worker-1 ended with exit code 7\n"), ("none", 130, "")]
)
def test_no_process_is_left(tmp_path: Path, ends: str, status: int, said: str) -> None:
    """One that ends is named, and ends the others: with a worker less it is another deployment. So does a signal."""
    made(tmp_path, RUNS["kv"][0])
    program, known, errors = (tmp_path / name for name in ("python3", "python3.pids", "errors"))
    program.write_text(STUB)
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "ENDS": ends}
    with errors.open("w") as stderr:
        started = subprocess.Popen(["sh", tmp_path / "out" / "start.sh"], env=environment, stderr=stderr)
    while not known.exists() or known.read_text().count("\n") < 3:
        time.sleep(0.02)
    if ends == "none":
        started.terminate()
    started.wait()
    left = [pid for pid in known.read_text().split() if Path(f"/proc/{pid}").exists()]
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    assert (left, started.returncode, errors.read_text()) == ([], status, said)


def test_the_readme_says_what_to_install(tmp_path: Path) -> None:
    made(tmp_path / "one", RUNS["one"][0])
    made(tmp_path / "kv", RUNS["kv"][0])
    one, routed = ((tmp_path / case / "out" / "README.md").read_text() for case in ("one", "kv"))
    assert "`start.sh`: vLLM on hosts with GPUs: `pip install vllm`" in one
    assert "`compose.yaml`: Docker" in one
    assert "`start.sh`: Dynamo with vLLM on the host with GPUs: `pip install 'ai-dynamo[vllm]" in routed
    assert "`compose.yaml`: Docker" not in routed


def test_what_has_no_effect_with_a_scheduler_is_not_listed(tmp_path: Path) -> None:
    """By the table of the core: slips are the mocker's, and it never ignores the end of an answer."""
    for scheduler in ("dynamo", "sglang"):
        given = {"engine_type": "sglang", "scheduler": scheduler, "sglang": {"ignore_eos": True}}
        made(tmp_path / scheduler, {"extra_engine_args": given})
        text = (tmp_path / scheduler / "out" / "README.md").read_text()
        assert ("`sglang.reference_quirks`" in text) == (scheduler == "dynamo")
        assert ("`sglang.ignore_eos`" in text) == (scheduler == "sglang")


HOST = {"scheduler": "vllm", "host_cache_gb": 1.0, "kv_bytes_per_token": 1000}


@pytest.mark.parametrize("case", ["host", "no host", "turns"])
def test_what_no_file_says_is_listed(tmp_path: Path, case: str) -> None:
    """Every setting after defaults: a flag of a file, a row of the README, or a value that is as good as nothing."""
    mode = "round_robin" if case == "turns" else "kv_router"
    engine_args = {**HOST, "host_cache_gb": None} if case == "no host" else HOST
    made(tmp_path, {"num_workers": 2, "router_mode": mode, "extra_engine_args": engine_args})
    listed = "| `router_config.host_cache_hit_weight` | 0.75 | no flag of it is documented |"
    readme = (tmp_path / "out" / "README.md").read_text()
    assert (listed in readme) == (case == "host")
    if case == "turns":
        return
    settings = json.loads((tmp_path / "out" / "prediction.json").read_text())["after_defaults"]["router_config"]
    script = (tmp_path / "out" / "start.sh").read_text()
    for key, value in settings.items():
        known = ROUTER[key]
        said = known.vllm is not None and set(known.vllm.write(value)) <= set(script.split())
        nothing = value in (0, False, "none", None) or (key, value) == ("router_replicas", 1)
        assert said or nothing or f"router_config.{key}" in readme or (known.of_host and case == "no host"), key


def test_a_trace_that_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths of points are those of the working directory in which the sweep was run."""
    write_trace(tmp_path / "t.jsonl", [row(timestamp=0, input_length=20, output_length=5, hash_ids=[1])])
    monkeypatch.chdir(tmp_path)
    sweep.run({"run": {"trace": "t.jsonl"}, "search": {"seed": [1]}}, "sweep")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    problem = f"POINT: 1 has the trace t.jsonl, which is not here, {tmp_path}/elsewhere: want the folder in which"
    with pytest.raises(FileNotFoundError, match=re.escape(problem)):
        sweep.export("../sweep", 1, "out", model=MODEL)
    monkeypatch.chdir(tmp_path)
    assert "start.sh" in sweep.export("sweep", 1, "out", model=MODEL).files


def test_the_readme_says_what_hosts_need(tmp_path: Path) -> None:
    made(tmp_path / "pools", RUNS["two pools"][0])
    text = (tmp_path / "pools" / "out" / "README.md").read_text()
    assert "- the prefill worker: 1 GPU of one node and 16 GiB of its memory\n" in text
    assert "- each of 2 decode workers: 2 GPUs of one node and 32 GiB of its memory\n" in text
    assert "- one host for all (`start.sh`): 5 GPUs, 80 GiB\n" in text
    assert "- ports: 8000 for requests, 20080 to 20082 for events of KV caches (`start.sh`), 5600 to 5800 and" in text
    assert "No worker comes back after its loss" in text
    made(tmp_path / "one", RUNS["one"][0])
    assert "- ports: 8000 for requests\n" in (tmp_path / "one" / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    ("engine_args", "memory"),
    [
        ({}, 16),
        ({"aic_tp_size": 2, "host_cache_gb": 100.0, "scheduler": "vllm"}, 94 + 32),
        ({"num_g2_blocks": 1000, "kv_bytes_per_token": 2**20, "block_size": 64, "scheduler": "dynamo"}, 63 + 16),
    ],
)
def test_manifests_ask_for_memory(tmp_path: Path, engine_args: Json, memory: int) -> None:
    """That for KV blocks on the host, and a guess for the engine; the token for weights may be missing."""
    made(tmp_path, {"num_workers": 2, "extra_engine_args": {"kv_bytes_per_token": 1000, **engine_args}})
    optional = {"name": "hf-token-secret", "optional": True}
    (old,), (new,) = (documents(tmp_path, f"dynamo-{release}.yaml") for release in ("1.3", "1.6"))
    service = old["spec"]["services"]["worker"]
    assert service["resources"]["requests"] == {"memory": f"{memory}Gi"}
    assert service["envs"][0]["valueFrom"]["secretKeyRef"] == {**optional, "key": "HF_TOKEN"}
    plain = next(d for d in documents(tmp_path, "kubernetes.yaml") if d["kind"] == "Deployment")
    (of_graph,) = (c for c in new["spec"]["components"] if c["name"] == "worker")
    for pod in (of_graph["podTemplate"], plain["spec"]["template"]):
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["requests"] == {"memory": f"{memory}Gi"}
        assert container["envFrom"] == [{"secretRef": optional}]
    (composed,) = documents(tmp_path, "compose.yaml")
    for name in ("worker-0", "worker-1"):
        assert composed["services"][name]["deploy"]["resources"]["reservations"]["memory"] == f"{memory}g"
        assert composed["services"][name]["restart"] == "unless-stopped"


@pytest.mark.parametrize(
    ("release", "path", "value", "problem"),
    [
        ("1.3", ("spec", "backendFramework"), "tgi", "'tgi' is not one of"),
        ("1.3", ("spec", "services", "worker", "replicas"), -1, "-1 is less than the minimum of 0"),
        ("1.3", ("spec", "services", "worker", "sharedMemory"), {}, "{} is not valid under any of the given schemas"),
        ("1.3", ("spec", "services", "worker", "gpus"), 2, "Additional properties are not allowed ('gpus'"),
        ("1.6", ("spec", "components", 0, "type"), "router", "'router' is not one of"),
        ("1.6", ("spec", "components", 0, "scalingAdapter"), {"enabled": True}, "{'enabled': True} "),
        ("1.6", ("spec", "components", 0, "podTemplate", "spec"), {}, "'containers' is a required property"),
    ],
)
def test_graphs_that_their_definition_refuses(
    tmp_path: Path, release: str, path: tuple[str, ...], value: object, problem: str
) -> None:
    made(tmp_path, RUNS["one"][0])
    graph = documents(tmp_path, f"dynamo-{release}.yaml")[0]
    check_graph(graph)
    place: Any = graph
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError, match=re.escape(problem)):
        check_graph(graph)


@pytest.mark.parametrize("case", [case for case in RUNS if case != "two choices"])
def test_manifests_say_what_was_simulated(tmp_path: Path, case: str) -> None:
    """Every engine argument of the run is a flag of its worker in both graphs, and every flag was simulated."""
    made(tmp_path, RUNS[case][0])
    simulated = json.loads((tmp_path / "out" / "prediction.json").read_text())["after_defaults"]
    pools = {"worker": "extra_engine_args", "prefill": "prefill_engine_args", "decode": "decode_engine_args"}
    for name in ("dynamo-1.3.yaml", "dynamo-1.6.yaml"):
        found = {
            role: container for role, kind, container in components(documents(tmp_path, name)[0]) if kind != "frontend"
        }
        assert set(found) == {role for role, option in pools.items() if option in simulated}
        for role, container in found.items():
            assert container is not None
            check_worker(role, container, engine.flat(simulated[pools[role]]))


def check_worker(role: str, container: Json, given: Json) -> None:
    environment = {variable["name"]: variable["value"] for variable in container.get("env", ())}
    kind = given["engine_type"]
    read = engine.read(kind, container["args"], environment)
    read.setdefault("worker_type", "aggregated")
    assert read["worker_type"] == (role if role != "worker" else "aggregated")
    flagged = {
        name: value
        for name, value in given.items()
        if ENGINE[name].kind == FLAG and ENGINE[name].flag(kind) and not (kind == "sglang" and ENGINE[name].vllm_only)
    }
    assert {name: read.get(name) for name in flagged if name != "dp_size"} == pytest.approx(
        {name: value for name, value in flagged.items() if name != "dp_size"}
    )
    implied = {"aic_tp_size": 1, "sglang.overlap_schedule": True, "sglang.enable_mixed_chunk": False}
    known = {name: getattr(row.vllm, "implied", None) for name, row in ENGINE.items()}
    implied |= {name: value for name, value in known.items() if value is not None}
    for name, value in read.items():
        assert given.get(name, implied.get(name)) == value, name


def test_autoscalers(tmp_path: Path) -> None:
    made(tmp_path / "hpa", RUNS["hpa"][0])
    made(tmp_path / "keda", RUNS["keda"][0], prometheus="http://p:9090")
    (hpa,) = (d for d in documents(tmp_path / "hpa", "kubernetes.yaml") if d["kind"] == "HorizontalPodAutoscaler")
    assert hpa["spec"]["scaleTargetRef"]["name"] == "point-1-worker"
    assert (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"]) == (1, 4)
    assert hpa["spec"]["metrics"][0]["pods"]["target"] == {"type": "AverageValue", "averageValue": "5"}
    assert hpa["spec"]["behavior"]["scaleUp"] == {
        "stabilizationWindowSeconds": 0,
        "tolerance": "0.05",
        "selectPolicy": "Min",
        "policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}],
    }
    plain = {(d["kind"], d["metadata"]["name"]): d for d in documents(tmp_path / "hpa", "kubernetes.yaml")}
    probe = plain["Deployment", "point-1-worker"]["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 2700  # three times startup_time
    whole = {"autoscaler": {"policy": "hpa", "target": 5, "kind": "total"}}
    made(tmp_path / "whole", whole)
    (of_all,) = (d for d in documents(tmp_path / "whole", "kubernetes.yaml") if d["kind"] == "HorizontalPodAutoscaler")
    named = of_all["spec"]["metrics"][0]["external"]["metric"]["name"]
    text = (tmp_path / "whole" / "out" / "kubernetes.yaml").read_text()
    assert f"#   name: {{as: {named}}}\n" in text
    assert '{<<.LabelMatchers>>,pod=~"point-1-worker-.*"}' in text
    assert "&id" not in text
    (scaled,) = (d for d in documents(tmp_path / "keda", "kubernetes.yaml") if d["kind"] == "ScaledObject")
    assert scaled["spec"]["triggers"][0]["metadata"] == {
        "serverAddress": "http://p:9090",
        "query": 'sum(vllm:num_requests_waiting{pod=~"point-1-worker-.*"})',
        "threshold": "2",
        "activationThreshold": "0",
    }
    for name in ("dynamo-1.3.yaml", "dynamo-1.6.yaml"):
        graph, scaler = documents(tmp_path / "hpa", name)
        assert scaler["spec"]["scaleTargetRef"]["name"] == f"{graph['metadata']['name']}-worker"
        assert "scalingAdapter" in json.dumps(graph)


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        ({"num_workers": 2, "router_mode": "least_tokens"}, "router_mode: got least_tokens, want round_robin or"),
        ({"autoscaler": {"policy": "queue", "target": 1}}, "autoscaler.policy: got queue, want hpa or keda"),
        ({"autoscaler": {"policy": "keda", "target": 1, "min": 0}}, "autoscaler.min: got 0, want 1"),
        ({"autoscaler": {"policy": "hpa", "target": 1, "sync_s": 30}}, "autoscaler.sync_s: got 30, want 15"),
        (
            {"extra_engine_args": {"preemption_mode": "fifo"}},
            r'extra_engine_args\.preemption_mode: got "fifo", want "lifo"',
        ),
        (
            {"num_workers": 2, "router_mode": "kv_router", "router_config": {"overlap_score_credit_decay": 0.5}},
            "router_config.overlap_score_credit_decay: got 0.5, want it left out",
        ),
    ],
)
def test_what_no_file_can_say(tmp_path: Path, run: Json, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        made(tmp_path, run)
    assert not (tmp_path / "out").exists()


def test_the_folder_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match=r"-o: .* exists, want a new folder"):
        made(tmp_path, {})
    (tmp_path / "out").rmdir()

    def full(*_: Any, **__: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        sweep.export(tmp_path / "sweep", 1, tmp_path / "out", model=MODEL)
    assert [file.name for file in tmp_path.iterdir()] == ["sweep"]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep.run({"run": {**TRAFFIC}, "search": {"num_workers": [1, 2]}}, tmp_path / "sweep")
    command = ["export", str(tmp_path / "sweep"), "-o", str(tmp_path / "out")]
    for more, problem in (
        (["best"], "--model: got nothing, want the model to serve"),
        (["7", "--model", MODEL], "POINT: got "),
        (["x", "--model", MODEL], "want best or an id from 1 to 2"),
        (["1", "--model", MODEL, "--name", "A b"], "--name: got "),
    ):
        assert main([*command, *more]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert problem in err
    assert main([*command, "2", "--model", MODEL, "--name", "chat"]) == 0
    out, err = capsys.readouterr()
    assert f"{tmp_path}/out/dynamo-1.6.yaml" in out
    assert "note: The point was simulated by the scheduling rules of Dynamo's mocker" in err
    assert documents(tmp_path, "dynamo-1.6.yaml")[0]["metadata"]["name"] == "chat"


RANKS = {"scheduler": "vllm", "dp_size": 2, "num_gpu_blocks": 500}


@pytest.mark.parametrize(
    ("workers", "mode", "routing", "noted"),
    [(1, "kv_router", "router", False), (2, "kv_router", "router", False), (2, "kv_router", "vllm", True)],
)
def test_ranks_that_the_router_chooses(tmp_path: Path, workers: int, mode: str, routing: str, noted: bool) -> None:
    """Dynamo's frontend chooses ranks by itself; a point in which the router did not is exported with a note."""
    engine_args = {**RANKS, "dp_routing": routing}
    done = made(tmp_path, {"num_workers": workers, "router_mode": mode, "extra_engine_args": engine_args})
    found = {kind: (main or {}) for _, kind, main in components(documents(tmp_path, "dynamo-1.6.yaml")[0])}
    assert flags.parse(found["frontend"]["args"])["--router-mode"] == "kv"
    assert flags.parse(found["worker"]["args"])["--data-parallel-size"] == "2"
    assert ("nginx.conf" in done.files, "compose.yaml" in done.left_out) == (False, True)
    assert any("`dp_routing: router` predicts that" in warning for warning in done.warnings) == noted


@pytest.mark.parametrize(
    ("mode", "routing", "problem"),
    [
        ("round_robin", "router", 'dp_routing: got "router", want router_mode kv_router: no other router'),
        ("round_robin", "round_robin", 'dp_routing: got "round_robin", want "vllm" or "router": vLLM'),
    ],
)
def test_ranks_that_nothing_chooses_so(tmp_path: Path, mode: str, routing: str, problem: str) -> None:
    engine_args = {**RANKS, "dp_routing": routing}
    with pytest.raises(ValueError, match=re.escape(problem)):
        made(tmp_path, {"num_workers": 2, "router_mode": mode, "extra_engine_args": engine_args})


# Live against simulated.


def test_mockers_start_from_the_manifest(tmp_path: Path) -> None:
    """Workers with the flags of the exported graph take as long for a burst as the simulation says, in waves of two."""
    given = {
        "max_num_seqs": 2,
        "timing_model": "fixed",
        "fixed_prefill_ms": 40,
        "fixed_decode_ms": 20,
        "block_size": 16,
    }
    made(tmp_path, {"num_workers": 2, "router_mode": "kv_router", "extra_engine_args": given})
    graph = documents(tmp_path, "dynamo-1.6.yaml")[0]
    found = {kind: (main or {}) for _, kind, main in components(graph)}
    args = engine.read("vllm", found["worker"]["args"], {})
    simulated = json.loads((tmp_path / "out" / "prediction.json").read_text())["after_defaults"]["extra_engine_args"]
    args |= {name: value for name, value in simulated.items() if ENGINE[name].kind == ASSUMED}
    words = flags.parse(found["frontend"]["args"])
    router = {name: value for name, row in ROUTER.items() if row.vllm and (value := row.vllm.read(words)) is not None}
    replicas = graph["spec"]["components"][1]["replicas"]
    expected = run_synthetic_trace_replay(
        20, 31, 8, num_workers=replicas, router_mode="kv_router", arrival_interval_ms=0.0,
        router_config=router, extra_engine_args=args,
    )["duration_ms"]  # fmt: skip
    assert expected > 2 * 30 * 20  # two waves
    with meeting(tmp_path) as place:
        place.workers("--extra-engine-args", json.dumps(args), "--num-workers", str(replicas))
        front = place.frontend("--router-mode", str(words["--router-mode"]), "--router-config", json.dumps(router))
        place.until_known(front, replicas)
        front.until_models("tiny")
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            prompts = [" ".join(f"tok{20 * n + i}" for i in range(20)) for n in range(8)]
            answers = list(clients.map(lambda prompt: front.complete(prompt, 31, ignore_eos=True), prompts))
        took = 1000 * (time.monotonic() - began)
    assert [status for status, _ in answers] == [200] * 8
    assert [answer["usage"]["completion_tokens"] for _, answer in answers] == [31] * 8
    assert 0.95 * expected < took < 1.5 * expected + 30_000  # busy cores
