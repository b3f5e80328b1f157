"""What decides the result of a run beside its input: the core itself, and the SDK that it asks."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from dynamo import _core

# The second package holds NVIDIA's measurements of engines and GPUs.
_AIC = ("aiconfigurator", "aiconfigurator-core")


@cache
def core() -> str:
    """The SHA-256 of the compiled core, in hexadecimal. A version number would stay the same from build to build."""
    path = _core.load().__spec__.origin  # type: ignore[union-attr]  # a module that has been loaded has one
    digest = hashlib.sha256()
    with open(str(path), "rb") as file:  # noqa: PTH123
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@cache
def aic() -> str:
    """The versions of the AIC SDK and its data, "" where it is missing."""
    found = []
    for package in _AIC:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def run_key(identity: str, *, asks_aic: bool) -> str:
    """The key of a run in a store. ``identity`` is what the core says of its arguments and input files."""
    parts = [identity, core(), aic() if asks_aic else ""]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
