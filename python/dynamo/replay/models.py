"""``python -m dynamo.replay models``: what there are predictions for, and the models whose KV cache is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamo import _core
from dynamo._core import aic, aic_sdk
from dynamo._shell import console

_ENGINES = ("vllm", "sglang", "trtllm")
_LEVELS = {"model": "m", "kin": "k", "gpu": "g", "engine": "e", "": "-"}
_LEGEND = (
    "Shipped calibration for vLLM, SGLang and TensorRT-LLM, a letter each: m of this model there, k of its kin (this\n"
    "model elsewhere), g of this GPU, e of the engine, - none, . not in the SDK. --calibration auto uses it."
)


def main(argv: Sequence[str]) -> int:
    """Runs the command with these arguments, without its name, and returns the exit code."""
    return console.exit_code(lambda: _models(vars(_parser().parse_args(argv))))


def _models(options: Mapping[str, Any]) -> int:
    try:
        systems = aic.supported()
    except aic.Refusal as refusal:
        console.say(f"warning: {refusal}")
        return _without(options)
    chosen = options["system"]
    if chosen is not None and chosen not in systems:
        raise console.UsageError(f"--system: got {json.dumps(chosen)}, want one of {', '.join(systems)}")
    systems = {name: engines for name, engines in systems.items() if chosen in (None, name)}
    models = aic.known_models()
    levels = _levels(models, systems)
    if options["json"]:
        rows = [
            {"model": model, "system": system, "engine": engine, "calibration": level or None}
            for (model, system, engine), level in levels.items()
        ]
        found = {"aiconfigurator": aic_sdk.release(), "systems": systems, "models": rows, "kv_caches": _kv_caches()}
        console.print_text(json.dumps(found, indent=2))
        return 0
    lines = [f"aiconfigurator {aic_sdk.release()}", "", "System and versions of engines"]
    width = max(map(len, systems))
    for system, engines in systems.items():
        known = "; ".join(f"{engine} {', '.join(versions)}" for engine, versions in engines.items())
        lines.append(f"  {system:{width}}  {known}")
    lines += ["", *_table(models, systems, levels), "", _LEGEND, "", *_kv_cache_lines()]
    console.print_text("\n".join(lines))
    return 0


def _table(
    models: Sequence[str],
    systems: Mapping[str, Mapping[str, Sequence[str]]],
    levels: Mapping[tuple[str, str, str], str],
) -> list[str]:
    width = max(len("Model"), *map(len, models))
    lines = [f"{'Model':{width}}  " + "  ".join(systems)]
    for model in models:
        cells = []
        for system, engines in systems.items():
            cell = "".join(_LEVELS[levels[model, system, e]] if e in engines else "." for e in _ENGINES)
            cells.append(f"{cell:{len(system)}}")
        lines.append(f"{model:{width}}  {'  '.join(cells)}".rstrip())
    return lines


def _levels(
    models: Sequence[str], systems: Mapping[str, Mapping[str, Sequence[str]]]
) -> dict[tuple[str, str, str], str]:
    """Returns the level of the entry that the shipped calibration has for a model, system and engine, "" for none."""
    places = [(m, s, e) for m in models for s, engines in systems.items() for e in _ENGINES if e in engines]
    asked = [
        {"engine_type": engine, "aic_backend": engine, "aic_system": system, "aic_model_path": model}
        for model, system, engine in places
    ]
    found = _core.calibrations(asked, "auto")
    return {place: view["level"] for place, view in zip(places, found, strict=True)}


def _without(options: Mapping[str, Any]) -> int:
    """Returns what is known without the SDK: the measurements of the shipped calibration."""
    entries = _core.shipped_calibrations("model", "aic")
    systems = sorted({entry["system"] for entry in entries})
    chosen = options["system"]
    if chosen is not None and chosen not in systems:
        raise console.UsageError(f"--system: got {json.dumps(chosen)}, want one of {', '.join(systems)}")
    entries = [entry for entry in entries if chosen in (None, entry["system"])]
    if options["json"]:
        found = {"aiconfigurator": None, "calibration": entries, "kv_caches": _kv_caches()}
        console.print_text(json.dumps(found, indent=2))
        return 0
    width = max(len(entry["model"]) for entry in entries)
    lines = ["What the shipped calibration was fitted to"]
    for e in sorted(entries, key=lambda e: (e["model"], e["system"], e["engine"])):
        lines.append(
            f"  {e['model']:{width}}  {e['system']:20}  {e['engine']:7}  {e['precision']:5}  {e['measurements']:4}"
        )
    lines += ["", *_kv_cache_lines()]
    console.print_text("\n".join(line.rstrip() for line in lines))
    return 0


def _kv_caches() -> list[dict[str, Any]]:
    """Returns the models whose KV cache is known, as vLLM lays it out on one GPU."""
    text = Path(_core.__file__).with_name("models_generated.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)
    return found


def _kv_cache_lines() -> list[str]:
    models = _kv_caches()
    width = max(len(model["model"]) for model in models)
    lines = [
        "Models whose KV cache is known, for --model: layers, and what vLLM makes of them on one GPU (--json: sources)",
        f"  {'Model':{width}}  {'Layers':24}  Groups  Block size  MB of a block  Longest request",
    ]
    for m in models:
        layers = f"{m['full_layers']} full"
        if m["window_layers"]:
            layers += f", {m['window_layers']} window {m['window']:,}"
        if m["linear_layers"]:
            layers += f", {m['linear_layers']} linear"
        megabytes = m["block_bytes"] / 1e6
        lines.append(
            f"  {m['model']:{width}}  {layers:24}  {m['groups']:6}  {m['block_size']:10}  {megabytes:13.2f}"
            f"  {m['max_model_len']:15,}"
        )
    return lines


def _parser() -> console.Parser:
    parser = console.Parser(
        prog="python -m dynamo.replay models",
        description="List the models, GPUs and engine versions for which the AIC SDK has predictions, with the level "
        "of the shipped calibration for each; and the models whose KV cache is known. "
        "(To replay a trace with the name of this command, write ./models.)",
    )
    parser.add_argument("--system", metavar="TEXT", help="list one GPU system only, such as h100_sxm")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    return parser
