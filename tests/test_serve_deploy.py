"""The container and the manifests of the OpenAI-compatible server, in examples/serve/deploy."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from livetools import Service, get, post
from manifests import CONTAINERS, COUNT, POD, TEXT, TEXTS, Json, fields, items
from servetools import DEPLOY, Server, manifests

PROJECT = Path(__file__).parents[1]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
MOST_BYTES = 60e6
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")


# The image.


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage of the Dockerfile, with what follows them."""
    found: list[list[tuple[str, str]]] = []
    for line in DOCKERFILE.splitlines():
        if line and not line.startswith("#"):
            instruction, _, rest = line.partition(" ")
            if instruction == "FROM":
                found.append([])
            found[-1].append((instruction, rest))
    return found


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the image: what the Dockerfile builds, and copies to the stage without anything else."""
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    build, last = stages()
    assert last[0] == ("FROM", "scratch")
    root = tmp_path_factory.mktemp("image")
    root.chmod(0o755)  # its user is another one
    (command,) = (rest for instruction, rest in build if instruction == "RUN" and "go build" in rest)
    ((source, target),) = (rest.split()[1:] for instruction, rest in last if instruction == "COPY")
    assert f"-o {source} " in command
    subprocess.run(command.replace(f"-o {source} ", f"-o {root}{target} "), shell=True, cwd=PROJECT, check=True)
    return root


def setting(name: str) -> list[str]:
    """ENTRYPOINT or CMD."""
    (text,) = (rest for instruction, rest in stages()[-1] if instruction == name)
    words: list[str] = json.loads(text)
    return words


def test_size(image: Path) -> None:
    assert sum(path.stat().st_size for path in image.rglob("*") if path.is_file()) < MOST_BYTES


class InImage(Server):
    """A server that sees the files of the image and nothing else, with its user, command and arguments."""

    def __init__(self, image: Path, folder: Path) -> None:
        ((_, user),) = (found for found in stages()[-1] if found[0] == "USER")
        command = ["chroot", f"--userspec={user}", str(image), *setting("ENTRYPOINT"), *setting("CMD"), "--http-port=0"]
        Service.__init__(self, command, folder / "server.log", {})

    @property
    def url(self) -> str:
        return re.sub(r"//.*:", "//127.0.0.1:", super().url)  # it listens at every address


@AS_ROOT
def test_the_image_runs(image: Path, tmp_path: Path) -> None:
    with InImage(image, tmp_path) as server:
        assert get(server.url + "/health")[0] == 200
        status, text = post(server.url + "/v1/completions", {"prompt": "x", "max_tokens": 3})
        assert (status, json.loads(text)["usage"]["completion_tokens"]) == (200, 3)
        server.stop(signal.SIGTERM)
        assert server.wait() == 0, server.log


@AS_ROOT
@pytest.mark.skipif(shutil.which("buildah") is None, reason="needs buildah")
def test_the_image_is_built(image: Path, tmp_path: Path) -> None:
    """The last stage as the Dockerfile has it, from a binary that is there: the first one needs a download."""
    folder = tmp_path / "context"
    folder.mkdir()
    shutil.copy(image / "dynosim-serve", folder)
    last = DOCKERFILE[DOCKERFILE.rindex("FROM scratch") :]
    (folder / "Dockerfile").write_text("FROM scratch AS build\nCOPY dynosim-serve /dynosim-serve\n" + last)
    buildah = ["buildah", "--storage-driver=vfs", f"--root={tmp_path}/storage", f"--runroot={tmp_path}/run"]

    def run(*arguments: str) -> str:
        return subprocess.run([*buildah, *arguments], check=True, capture_output=True, text=True).stdout

    run("build", "--isolation=chroot", "--tag=dynosim-serve", str(folder))
    described = json.loads(run("inspect", "--type=image", "dynosim-serve"))
    config = described["OCIv1"]["config"]
    assert (config["Entrypoint"], config["Cmd"]) == (["/dynosim-serve"], ["--http-host=0.0.0.0"])
    assert (config["User"], list(config["ExposedPorts"])) == ("65532:65532", ["8000/tcp"])
    mounted = Path(run("mount", run("from", "dynosim-serve").strip()).strip())
    assert [str(path.relative_to(mounted)) for path in mounted.rglob("*")] == ["dynosim-serve"]
    assert (mounted / "dynosim-serve").stat().st_size < MOST_BYTES


# The manifests.

NUMBER: Json = {"type": "integer", "minimum": 1, "maximum": 65535}
SELECTOR = fields(("matchLabels",), matchLabels=TEXTS)
SECONDS = {"type": "string", "pattern": "^[0-9]+s$"}
METRIC = fields(
    ("metric", "target"), metric=fields(("name",), name=TEXT), target=fields(("type",), type=TEXT, averageValue=TEXT)
)
# What each kind may have, of what these manifests could use. Kinds that are no part of Kubernetes follow those
# of Gateway API 1.4, its inference extension 1.0 and the Prometheus operator 0.85.
SPECS: dict[str, Json] = {
    "apps/v1 Deployment": fields(
        ("selector", "template"),
        replicas=COUNT,
        selector=SELECTOR,
        template=fields(
            ("metadata", "spec"),
            metadata=fields(labels=TEXTS, annotations=TEXTS),
            spec=fields(("containers",), **POD, containers=CONTAINERS),
        ),
    ),
    "v1 Service": fields(
        ("selector", "ports"),
        selector=TEXTS,
        ports=items(fields(("port",), name=TEXT, port=NUMBER, targetPort={"type": ["string", "integer"]})),
    ),
    "autoscaling/v2 HorizontalPodAutoscaler": fields(
        ("scaleTargetRef", "maxReplicas"),
        scaleTargetRef=fields(("kind", "name"), apiVersion=TEXT, kind=TEXT, name=TEXT),
        minReplicas=COUNT,
        maxReplicas=COUNT,
        metrics=items(fields(("type", "pods"), type={"const": "Pods"}, pods=METRIC)),
        behavior=fields(scaleDown=fields(stabilizationWindowSeconds=COUNT)),
    ),
    "monitoring.coreos.com/v1 PodMonitor": fields(
        ("selector", "podMetricsEndpoints"),
        selector=SELECTOR,
        podMetricsEndpoints=items(fields(("port",), port=TEXT, path=TEXT, interval=SECONDS)),
    ),
    "inference.networking.k8s.io/v1 InferencePool": fields(
        ("selector", "targetPorts", "endpointPickerRef"),
        selector=SELECTOR,
        targetPorts=items(fields(("number",), number=NUMBER), minItems=1, maxItems=1),
        endpointPickerRef=fields(("name", "port"), name=TEXT, port=fields(("number",), number=NUMBER)),
    ),
    "gateway.networking.k8s.io/v1 HTTPRoute": fields(
        ("parentRefs", "rules"),
        parentRefs=items(fields(("name",), name=TEXT, namespace=TEXT)),
        rules=items(
            fields(
                ("backendRefs",),
                matches=items(
                    fields(path=fields(("type", "value"), type={"enum": ["Exact", "PathPrefix"]}, value=TEXT))
                ),
                backendRefs=items(fields(("name",), group=TEXT, kind=TEXT, name=TEXT, port=NUMBER)),
            )
        ),
    ),
}


def test_fields_of_manifests() -> None:
    seen = set()
    for document in manifests().values():
        kind = f"{document['apiVersion']} {document['kind']}"
        seen.add(kind)
        whole = fields(
            ("metadata", "spec"),
            apiVersion=TEXT,
            kind=TEXT,
            metadata=fields(("name",), name=TEXT, labels=TEXTS),
            spec=SPECS[kind],
        )
        jsonschema.Draft202012Validator(whole).validate(document)
    assert seen == set(SPECS)


def test_the_autoscaler_asks_for_the_metric_that_the_adapter_makes() -> None:
    (scaler,) = (d for d in manifests().values() if d["kind"] == "HorizontalPodAutoscaler")
    rule = re.search(r"^# +rules:\n(?:# .*\n)+", (DEPLOY / "autoscaler.yaml").read_text(), re.MULTILINE)
    assert rule
    (made,) = yaml.safe_load(re.sub("^# ", "", rule[0], flags=re.MULTILINE))["rules"]
    asked = [metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"]]
    assert asked == [made["name"]["as"]] == [made["seriesQuery"].partition("{")[0].replace(":", "_")]
