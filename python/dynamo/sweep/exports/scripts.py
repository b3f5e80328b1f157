"""A shell script that starts a point on one host, and the command lines of its processes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dynamo.sweep.exports import documents
from dynamo.sweep.exports.documents import EVENTS_PORT, PORT
from dynamo.sweep.exports.plan import Plan
from dynamo.sweep.exports.table import MODES

_HEAD = """#!/bin/sh
# Point {point} of a sweep on this host: {gpus} GPUs, requests to http://localhost:{port}. Ctrl-C ends all of it.
# No process is started again: the end of one ends all. Where the loss of a worker was simulated, it came back, as
# Kubernetes or a service manager brings it back.
set -eu
processes=
started() {{ processes="$processes $!:$1"; }}
trap 'for each in $processes; do kill "${{each%%:*}}" 2>/dev/null || :; done; wait' EXIT
trap 'exit 130' INT TERM

"""
_TAIL = """
# The end of one process ends all: without it this is another deployment.
while sleep 1; do
    for each in $processes; do
        kill -0 "${each%%:*}" 2>/dev/null && continue
        status=0
        wait "${each%%:*}" || status=$?
        echo "start.sh: ${each#*:} ended with exit code $status" >&2
        exit 1
    done
done
"""
_MEETING = {"DYN_DISCOVERY_BACKEND": "file"}


def start(plan: Plan) -> str:
    """The script. Raises ValueError for what no process of one host does."""
    if plan.scalers:
        raise ValueError("autoscaler: a script does not scale")
    gpus = sum(pool.workers * pool.gpus for pool in plan.pools)
    text = _HEAD.format(point=plan.point, gpus=gpus, port=PORT)
    if plan.behind_dynamo:
        text += "# Workers and frontend meet in a folder, DYN_FILE_KV.\n"
    for process in processes(plan):
        variables = "".join(f"{name}={value} " for name, value in process.environment.items())
        before = f"{variables}\\\n" if variables else ""
        text += f"\n{before}{documents.quoted(process.words)} &\nstarted {process.name}\n"
    return text + _TAIL


class Process(NamedTuple):
    """A process of the script."""

    name: str
    environment: Mapping[str, str]
    words: Sequence[str]

    @property
    def line(self) -> str:
        """The command in one line."""
        variables = "".join(f"{name}={value} " for name, value in self.environment.items())
        return variables + shlex.join(self.words)


def processes(plan: Plan) -> Iterator[Process]:
    """The processes that make the deployment on one host. Raises ValueError if Dynamo's frontend has no such router."""
    if not plan.behind_dynamo:
        yield Process(plan.pools[0].role, plan.pools[0].command.environment, documents.serve(plan, plan.pools[0]))
        return
    mode = MODES["round_robin" if plan.router is None else plan.router].dynamo
    if mode is None:
        raise ValueError(f"router_mode {plan.router}: Dynamo's frontend has none like it")
    frontend = ["python3", "-m", "dynamo.frontend", "--http-port", str(PORT), "--router-mode", mode]
    if limit := plan.arguments.get("migration_limit"):
        frontend += ["--migration-limit", str(limit)]
    yield Process("frontend", _MEETING, [*frontend, *plan.router_words])
    number = first = 0
    for pool in plan.pools:
        for at in range(pool.workers):
            devices = ",".join(str(device) for device in range(first, first + pool.gpus))
            # Ports at which workers wait for each other's KV and processes of one worker meet are a host's, too.
            own = {**_MEETING, "CUDA_VISIBLE_DEVICES": devices, **pool.command.environment}
            if pool.role != "worker" and plan.engine == "vllm":
                own["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(side_channel(number))
            yield Process(f"{pool.role}-{at}", own, documents.worker(plan, pool, EVENTS_PORT + number))
            number, first = number + 1, first + pool.gpus


def side_channel(worker: int) -> int:
    """The first port at which others ask a worker for its KV: one for each rank, far from those of the next worker."""
    return 5600 + 100 * worker


def engines(plan: Plan) -> str:
    """The engine's own command line of each pool, for hosts on which workers are started one by one."""
    roles = [pool.role for pool in plan.pools]
    text = (
        "#!/bin/sh\n# One worker by the engine's own server, on port $PORT, 8000 if not given, without a router:\n"
        f"# {' or '.join(f'sh engine.sh {role}' for role in roles)}\nset -eu\ncase ${{1:-{roles[0]}}} in\n"
    )
    for pool in plan.pools:
        lines = [f"{pool.role})  # {pool.workers}, {pool.gpus} GPU{'s' if pool.gpus > 1 else ''} each"]
        lines += [f"    export {name}={value}" for name, value in pool.command.environment.items()]
        words = documents.quoted(documents.serve(plan, pool)).replace(f"--port {PORT}", f'--port "${{PORT:-{PORT}}}"')
        lines += ["    exec " + words.replace("\n", "\n    "), "    ;;\n"]
        text += "\n".join(lines)
    return f'{text}*)\n    echo "want {" or ".join(roles)}" >&2\n    exit 2\n    ;;\nesac\n'
