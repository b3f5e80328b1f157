"""A shell script that starts a point on one host."""

from __future__ import annotations

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


def start(plan: Plan) -> str:
    """The script. Raises ValueError for what no process of one host does."""
    if plan.scalers:
        raise ValueError("autoscaler: a script does not scale")
    gpus = sum(pool.workers * pool.gpus for pool in plan.pools)
    text = _HEAD.format(point=plan.point, gpus=gpus, port=PORT)
    if plan.one_pool and plan.router is None:
        return text + _alone(plan) + _TAIL
    return text + _behind_dynamo(plan) + _TAIL


def _alone(plan: Plan) -> str:
    """One worker, whose own server answers."""
    pool = plan.pools[0]
    variables = "".join(f"export {name}={value}\n" for name, value in pool.command.environment.items())
    return f"{variables}{documents.quoted(documents.serve(plan, pool))} &\nstarted {pool.role}\n"


def _behind_dynamo(plan: Plan) -> str:
    """Several workers: Dynamo's frontend routes, and finds them in a folder."""
    mode = MODES["round_robin" if plan.router is None else plan.router].dynamo
    if mode is None:
        raise ValueError(f"router_mode {plan.router}: Dynamo's frontend has none like it")
    frontend = ["python3", "-m", "dynamo.frontend", "--http-port", str(PORT), "--router-mode", mode]
    if limit := plan.arguments.get("migration_limit"):
        frontend += ["--migration-limit", str(limit)]
    text = "export DYN_DISCOVERY_BACKEND=file  # workers and frontend meet in a folder, DYN_FILE_KV\n\n"
    text += f"{documents.quoted([*frontend, *plan.router_words])} &\nstarted frontend\n"
    number = first = 0
    for pool in plan.pools:
        for at in range(pool.workers):
            devices = ",".join(str(device) for device in range(first, first + pool.gpus))
            words = documents.worker(plan, pool, EVENTS_PORT + number)
            # Ports at which workers wait for each other's KV and processes of one worker meet are a host's, too.
            own = {"CUDA_VISIBLE_DEVICES": devices, **pool.command.environment}
            if pool.role != "worker" and plan.engine == "vllm":
                own["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(side_channel(number))
            environment = " ".join(f"{name}={value}" for name, value in own.items())
            text += f"\n{environment} \\\n{documents.quoted(words)} &\nstarted {pool.role}-{at}\n"
            number, first = number + 1, first + pool.gpus
    return text


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
