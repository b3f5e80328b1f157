"""Runs client libraries of others against the server, each in an environment of its own: make test-clients.

usage: run.py [--vllm COMMAND] [NAME ...]

A client is a file beside this one: Python, or JavaScript for Node. Its first line names what pip or npm installs for
it; it gets the URL of a server and does what agents do with the library. Environments are kept in build/clients. Needs
the network the first time. Without Node, clients in JavaScript are left out, which is said; so are those that run
``vllm bench serve`` without the command of an environment that has it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from servetools import serving  # noqa: E402

ENVIRONMENTS = PROJECT / "build" / "clients"
HEADS = {".py": "# pip: ", ".mjs": "// npm: "}


def packages(client: Path) -> list[str]:
    """What a client needs, from its first line."""
    return client.read_text().splitlines()[0].removeprefix(HEADS[client.suffix]).split()


def command(client: Path) -> list[str]:
    """How a client is started. Its environment is made if it does not exist or is for other packages."""
    wanted = packages(client)
    folder = ENVIRONMENTS / client.stem
    made = folder / "packages.txt"
    kept = made.exists() and made.read_text().split() == wanted
    if client.suffix == ".py":
        python = folder / "bin" / "python"
        if not kept:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            subprocess.run(
                [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted], check=True
            )
        started = [str(python), str(client)]
    else:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            quiet = ["--silent", "--no-audit", "--no-fund"]
            subprocess.run(["npm", "install", *quiet, "--prefix", str(folder), *wanted], check=True)
        script = folder / client.name  # packages are looked for beside the script
        shutil.copyfile(client, script)
        started = ["node", str(script)]
    made.write_text("\n".join(wanted))
    return started


BENCH = HERE / "vllm_bench.py"
# Starts servers itself.
VERIFY = HERE / "vllm_verify.py"


def passes(name: str, started: list[str]) -> bool:
    """Runs a client before a server of its own, and says how it ended."""
    folder = ENVIRONMENTS / name
    with serving(folder, "--speedup-ratio", "100", "--enable-tokenizer-info-endpoint") as server:
        return succeeds(name, [*started[:2], server.url, *started[2:]], folder)


def succeeds(name: str, started: list[str], folder: Path) -> bool:
    """Runs a client, and says how it ended."""
    done = subprocess.run(started, cwd=folder, timeout=900, check=False)
    print(f"{name}: {'ok' if done.returncode == 0 else 'failed'}", flush=True)
    return done.returncode == 0


def main(names: list[str], vllm: str | None) -> int:
    files = sorted(path for path in HERE.iterdir() if path.suffix in HEADS)
    clients = [path for path in files if path.read_text().startswith(HEADS[path.suffix])]
    known = [*(path.stem for path in clients), BENCH.stem, VERIFY.stem]
    unknown = set(names) - set(known)
    if unknown:
        print(f"error: no client {sorted(unknown)}, want some of {known}", file=sys.stderr)
        return 2
    failed = []
    for client in clients:
        if names and client.stem not in names:
            continue
        if client.suffix == ".mjs" and not (shutil.which("node") and shutil.which("npm")):
            print(f"{client.stem}: left out, as there is no node or npm", flush=True)
            continue
        if not passes(client.stem, command(client)):
            failed.append(client.stem)
    for bench in (BENCH, VERIFY):
        if names and bench.stem not in names:
            continue
        if not vllm:
            print(f"{bench.stem}: left out, as there is no VLLM=COMMAND", flush=True)
            continue
        started = [sys.executable, str(bench), vllm]
        if not (passes(bench.stem, started) if bench is BENCH else succeeds(bench.stem, started, HERE)):
            failed.append(bench.stem)
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", help="the command vllm of an environment that has it")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    sys.exit(main(options.names, options.vllm))
