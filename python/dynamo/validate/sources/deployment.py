"""What a load generator does not record: which engine, model and GPUs answered it.

A file ``deployment.json`` in the folder of a result says so:

    {"engine": "vllm", "version": "0.24.0", "model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h100_sxm",
     "precision": "bf16", "tp": 1, "engine_args": {"max_num_seqs": 256}}

The engine is vllm, sglang or trtllm. Other keys: attention_dp, moe_tp, moe_ep, concurrency, request_rate and mode
("agg" or "disagg").
"""

from __future__ import annotations

from typing import Any

from dynamo._core import spelling, values
from dynamo.validate.measurement import Parallelism
from dynamo.validate.sources.checks import BadSource, count, mapping, number, text
from dynamo.validate.sources.file import SourceFile, open_source
from dynamo.validate.sources.gpus import aic_system

NAME = "deployment.json"
ENGINES = ("vllm", "sglang", "trtllm")
_MODES = ("agg", "disagg")
_TEXTS = ("engine", "version", "model", "precision", "mode")
_SIZES = ("tp", "attention_dp", "moe_tp", "moe_ep")
_KEYS = (*_TEXTS, *_SIZES, "system", "concurrency", "request_rate", "engine_args")


def deployment(file: SourceFile) -> dict[str, Any]:
    """Returns the fields of a Measurement that the file beside a result gives; none without such a file. Raises
    BadSource.
    """
    path = file.path.with_name(NAME)
    if not path.is_file():
        return {}
    where = str(path)
    given = open_source(path).whole
    for name in given:
        if name not in _KEYS:
            near = spelling.nearest(name, list(_KEYS))
            hint = f"did you mean {near}?" if near else f"want one of {', '.join(_KEYS)}"
            raise BadSource(f"{where}: unknown key {name!r}, {hint}")
    fields: dict[str, Any] = {name: text(given, name, where) for name in _TEXTS if name in given}
    for name, known in (("engine", ENGINES), ("mode", _MODES)):
        if name in given and given[name] not in known:
            raise BadSource(f"{where}: {name}: got {values.show(given[name])}, want one of {', '.join(known)}")
    if "system" in given:
        fields["system"] = aic_system(text(given, "system", where))
    fields["parallelism"] = Parallelism(
        **{name: count(given[name], f"{where}: {name}") for name in _SIZES if name in given}
    )
    if "concurrency" in given:
        fields["concurrency"] = count(given["concurrency"], f"{where}: concurrency")
    if "request_rate" in given:
        fields["request_rate"] = number(given["request_rate"], f"{where}: request_rate", least=1e-9)
    if "engine_args" in given:
        fields["engine_args"] = mapping(given["engine_args"], f"{where}: engine_args")
    return fields


def configuration(fields: dict[str, Any]) -> str:
    """Returns what splits of the data keep together, of a deployment described by these fields."""
    names = ("model", "system", "precision", "mode", "parallelism")
    return "|".join(str(fields.get(name, "")) for name in names)
