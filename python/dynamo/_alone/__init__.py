"""Importing this refuses an environment that ai-dynamo shares: each brings the package ``dynamo``, and what is
installed last replaces files of the other.

``dynamo._core``, which both have, imports this first, and so does what can be imported without it: one clear error
comes up, whichever was installed last. Only names of folders are looked at: importlib.metadata takes long to load.
"""

import os
import sys

# Folders of metadata begin with these; a version follows.
_OTHERS = ("ai_dynamo-", "ai_dynamo_runtime-", "ai-dynamo-", "ai-dynamo-runtime-")
_METADATA = (".dist-info", ".egg-info")


def _refuse() -> None:
    for folder in _folders():
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.lower().startswith(_OTHERS) and entry.endswith(_METADATA):
                raise ImportError(_message(entry, folder), name="dynamo")


def _folders() -> list[str]:
    """Where metadata of packages that share ours may be: beside every part of it, and where packages are installed."""
    beside = [os.path.dirname(os.path.abspath(part)) for part in sys.modules["dynamo"].__path__]
    installed = [path for path in sys.path if path.endswith("-packages")]
    return list(dict.fromkeys(beside + installed))


def _message(entry: str, folder: str) -> str:
    name, _, version = entry.rpartition(".")[0].rpartition("-")
    return (
        f"dynosim and {name.replace('_', '-')} {version} are installed in one environment ({folder}): both bring the"
        " package dynamo and replace files of each other. Give each an environment of its own; to keep dynosim here:"
        " pip uninstall ai-dynamo ai-dynamo-runtime dynosim, then install dynosim again"
    )


_refuse()
