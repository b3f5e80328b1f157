"""The tables of docs/export.md, from those that exports are made by. As a program it writes them anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dynamo._core
from dynamo.sweep.exports.table import ASSUMED, ENGINE, FILES, FLAG, MODES, REFUSED, ROUTER, RUN, SCALING, Row

PAGE = Path(__file__).parents[1] / "docs" / "export.md"
_WORDS = {FILES: "in the files", ASSUMED: "without counterpart", REFUSED: "refused"}


def known(file: str) -> dict[str, Any]:
    """A table that the package ships, generated from the Go core."""
    found: dict[str, Any] = json.loads((Path(dynamo._core.__file__).parent / file).read_text())
    return found


def engine_arguments() -> list[str]:
    """All engine arguments; members of those that are objects after a dot."""
    table = known("engine_args_generated.json")
    names = []
    for field in table["fields"]:
        names.append(field["name"])
        names += [f"{field['name']}.{member['name']}" for member in table["nested"].get(field["name"], ())]
    return names


def names_of(file: str) -> list[str]:
    """The names of a table without objects."""
    return [field["name"] for field in known(file)["fields"]]


def _rows(names: list[str], table: Mapping[str, Row]) -> Iterator[str]:
    for name in names:
        row = table[name]
        flags = [flag.shown() if flag else "" for flag in (row.vllm, row.sglang)]
        text = row.text if row.kind == FLAG else f"{_WORDS[row.kind]}: {row.text}"
        if row.harmless:
            text = f"{text}, but {' or '.join(json.dumps(value) for value in row.harmless)}".removeprefix(", ")
        yield f"| `{name}` | {flags[0]} | {flags[1]} | {text} |"


def _runs(names: list[str], table: Mapping[str, Row], title: str) -> Iterator[str]:
    yield f"| {title} | becomes |"
    yield "|---|---|"
    for name in names:
        row = table[name]
        text = f"`{row.vllm.shown().strip('`')}`" if row.vllm else f"{_WORDS[row.kind]}: {row.text}"
        yield f"| `{name}` | {text.replace('``', '`')} |"


def markdown() -> str:
    """The part of the page between its marks."""
    lines = ["### Engine arguments", "", "| engine argument | vLLM | SGLang | |", "|---|---|---|---|"]
    lines += _rows(engine_arguments(), ENGINE)
    lines += ["", "### Options of a run", "", *_runs(names_of("run_options_generated.json"), RUN, "option")]
    lines += ["", "### Settings of `kv_router`", "", *_runs(names_of("router_config_generated.json"), ROUTER, "key")]
    lines += ["", "### Keys of an autoscaler", "", *_runs(names_of("autoscaler_generated.json"), SCALING, "key")]
    lines += [
        "",
        "### Routing modes",
        "",
        "| mode | nginx before plain workers | `--router-mode` of Dynamo |",
        "|---|---|---|",
    ]
    for mode, balancer in MODES.items():
        nginx = "left out" if balancer.nginx is None else f"`{balancer.nginx}`" if balancer.nginx else "its default"
        lines.append(f"| `{mode}` | {nginx} | {f'`{balancer.dynamo}`' if balancer.dynamo else 'left out'} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the tables as they are now."""
    marks = re.compile(r"(<!-- tables -->\n).*(\n<!-- end of tables -->)", re.DOTALL)
    return marks.sub(lambda found: f"{found[1]}\n{markdown()}\n{found[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
