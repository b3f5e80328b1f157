"""Importing this refuses an environment with ai-dynamo: both bring the package ``dynamo``, and the one that was
installed last has replaced files of the other.

``dynamo._core``, which both have, imports this first, and so do modules that can be imported without it. So there is
one clear error, whichever was installed last. Only names of folders are looked at, because importlib.metadata takes
long to load.
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
    """Returns where the metadata of another package ``dynamo`` may be: beside every part of ours, and where packages
    go.
    """
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
