"""Runs client libraries of others against the server, each in an environment of its own: make test-clients.

usage: run.py [NAME ...]

A client is a file beside this one. Its first line names what pip installs for it; its function `checks` gets the URL of
a server and does what agents do with the library. Environments are kept in build/clients. Needs the network the first
time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from servetools import serving  # noqa: E402

ENVIRONMENTS = PROJECT / "build" / "clients"


def packages(client: Path) -> list[str]:
    """What a client needs, from its first line: # pip: PACKAGE ..."""
    first = client.read_text().splitlines()[0]
    assert first.startswith("# pip: "), client
    return first.removeprefix("# pip: ").split()


def interpreter(client: Path) -> Path:
    """The Python of a client's environment, which is made if it does not exist or is for other packages."""
    wanted = packages(client)
    folder = ENVIRONMENTS / client.stem
    python, made = folder / "bin" / "python", folder / "packages.txt"
    if not made.exists() or made.read_text().split() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted], check=True)
        made.write_text("\n".join(wanted))
    return python


def main(names: list[str]) -> int:
    clients = sorted(path for path in HERE.glob("*.py") if path.read_text().startswith("# pip: "))
    unknown = set(names) - {path.stem for path in clients}
    if unknown:
        print(f"error: no client {sorted(unknown)}, want some of {[path.stem for path in clients]}", file=sys.stderr)
        return 2
    failed = []
    for client in clients:
        if names and client.stem not in names:
            continue
        python = interpreter(client)
        folder = ENVIRONMENTS / client.stem
        with serving(folder, "--speedup-ratio", "100", "--tool-call-probability", "0") as server:
            done = subprocess.run([str(python), str(client), server.url], cwd=folder, timeout=600, check=False)
        print(f"{client.stem}: {'ok' if done.returncode == 0 else 'failed'}", flush=True)
        if done.returncode:
            failed.append(client.stem)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
