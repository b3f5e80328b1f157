"""Loads the AIC SDK, the package ``aiconfigurator``, whose import takes most of the time of a first run."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

PACKAGE = "aiconfigurator"
# The SDK imports this when it estimates a KV pool, which takes a tenth of a first run.
_NEEDED_LATER = "pandas"


def load() -> None:
    """Imports the part of the SDK that predictions begin with. Raises what that import raises."""
    # Otherwise its warnings about data that it takes from elsewhere go to standard error of programs without a log.
    for name in (PACKAGE, f"{PACKAGE}_core"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    importlib.import_module(PACKAGE)
    module("perf_database")


def module(name: str) -> Any:
    """Returns a module of the SDK."""
    return importlib.import_module(f"{PACKAGE}.sdk.{name}")


def release() -> str:
    """Returns the installed release of the SDK."""
    from importlib import metadata

    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "of an unknown release"


@contextlib.contextmanager
def quickly() -> Iterator[None]:
    """Has YAML read by libyaml, and no garbage collected, while the SDK is loaded."""
    with _without_collection(), quick_yaml():
        yield


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Hardly anything of what is imported is garbage, and looking for it takes a fifth of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def quick_yaml() -> Iterator[None]:
    """Has YAML read by libyaml meanwhile, where PyYAML was built with it.

    The SDK reads hundreds of files for its list of versions. PyYAML's parser in Python, which it takes, needs ten times
    as long for the same content.
    """
    yaml = _yaml()
    loader = getattr(yaml, "CSafeLoader", None)
    if loader is None:
        yield
        return
    slow = yaml.safe_load
    yaml.safe_load = lambda stream: yaml.load(stream, Loader=loader)
    try:
        yield
    finally:
        yaml.safe_load = slow


def _yaml() -> Any:
    """Returns PyYAML, which the SDK needs; None where it does without."""
    try:
        return importlib.import_module("yaml")
    except ImportError:
        return None


@contextlib.contextmanager
def importing_pandas() -> Iterator[None]:
    """Imports pandas on another thread meanwhile.

    The compiled predictions read their tables without Python's lock, so that both go on at the same time.
    """
    thread = threading.Thread(target=_import_pandas, name="import pandas", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _import_pandas() -> None:
    with contextlib.suppress(Exception):  # if the SDK needs it, its own import says what is wrong
        importlib.import_module(_NEEDED_LATER)
