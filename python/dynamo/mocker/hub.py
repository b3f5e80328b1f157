"""Models with names of the Hugging Face hub that are not in its cache yet."""

from __future__ import annotations

import importlib
import json
from typing import Any

from dynamo._shell.console import say

_PACKAGE = "huggingface_hub"
# The files of a model that frontends read; not its weights.
_FILES = ("*.json", "*.jinja", "tokenizer.model")


def download(model_path: str, missing: FileNotFoundError) -> bool:
    """Fetches a model that live workers did not find into the cache; False if they did not find something else.

    Raises ValueError, with what the user can do about it, if the model cannot be had.
    """
    organisation, slash, name = model_path.partition("/")
    if not str(missing).startswith("model_path:") or not (organisation and slash and name) or "/" in name:
        return False
    if organisation in (".", "..", "~"):
        return False
    shown = json.dumps(model_path)
    try:
        hub: Any = importlib.import_module(_PACKAGE)
    except ImportError:
        advice = f"pip install {_PACKAGE} to have it downloaded, or give the folder of the model"
        raise ValueError(f"{str(missing).rpartition(': ')[0]}; {advice}") from None
    say(f"model_path: downloading {shown} from the Hugging Face hub")
    try:
        hub.snapshot_download(model_path, allow_patterns=list(_FILES))
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ValueError(f"model_path: {shown} cannot be downloaded: {type(error).__name__}: {reason}") from None
    return True
