"""Builds the playground: a page, and the core in WebAssembly, which its worker runs. Any file server can serve them.

python docs/site/playground/build.py build/playground
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PACKAGE = ROOT / "python" / "dynamo"
sys.path.insert(0, str(ROOT / "python"))  # sources: nothing that is compiled is needed

MOST_BYTES = 6_000_000
"""What the page may be, packed."""
TRACES = [
    ("conversation", "Mooncake: 400 requests of conversations", "mooncake", "conversation_400.jsonl.gz"),
    (
        "azure",
        "Azure 2023: 5,000 requests of a chat",
        "azure",
        "public/azure/AzureLLMInferenceTrace_conv.head5000.csv.gz",
    ),
    ("code", "Azure 2023: 2,000 completions of code", "splitwise", "public/splitwise/splitwise_code.head2000.csv.gz"),
    ("prefixes", "generated: 3,200 requests with shared prefixes", "mooncake", "shared_prefix_3200.jsonl.gz"),
]
SCRIPTS = [
    *(PACKAGE / "_page" / name for name in ("elements.js", "charts.js")),
    *(PACKAGE / "replay" / "page" / name for name in ("parts.js", "overtime.js")),
    *(HERE / name for name in ("arguments.js", "figures.js", "start.js")),
]
STYLES = [PACKAGE / "_page" / "page.css", PACKAGE / "replay" / "page" / "page.css", HERE / "page.css"]
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}' 'wasm-unsafe-eval'; worker-src 'self'; "
    "connect-src 'self'; img-src data:"
)


def main() -> None:
    """Writes the folder, and says how large it is."""
    parser = argparse.ArgumentParser(description="Builds the playground of the documentation site.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", default="0.1.0.dev0", help="version that reports name")
    given = parser.parse_args()
    folder: Path = given.folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "traces").mkdir(parents=True)
    (folder / "dynosim.wasm.gz").write_bytes(core(given.version))
    (folder / "worker.js").write_text(worker(), encoding="utf-8")
    (folder / "index.html").write_text(page(), encoding="utf-8")
    for _, _, _, path in TRACES:
        shutil.copyfile(ROOT / "examples" / "traces" / path, folder / "traces" / Path(path).name)
    size = packed(folder / name for name in ("dynosim.wasm.gz", "worker.js", "index.html"))
    if size > MOST_BYTES:
        sys.exit(f"error: the playground has {size:,} bytes, packed, want at most {MOST_BYTES:,}")
    print(f"playground: {folder}, {size / 1e6:.1f} MB, packed")


def packed(files: Iterable[Path]) -> int:
    return sum(len(gzip.compress(file.read_bytes())) for file in files)


def core(version: str) -> bytes:
    """The command cmd/dynosim-playground, compiled to WebAssembly and packed, the same bytes at every build."""
    with tempfile.TemporaryDirectory() as made:
        output = Path(made) / "dynosim.wasm"
        command = ["go", "build", "-trimpath", "-buildvcs=false", f"-ldflags=-s -w -X main.version={version}"]
        environment = {**os.environ, "GOOS": "js", "GOARCH": "wasm", "CGO_ENABLED": "0", "GOFLAGS": ""}
        subprocess.run([*command, "-o", str(output), "./cmd/dynosim-playground"], cwd=ROOT, env=environment, check=True)
        return gzip.compress(output.read_bytes(), mtime=0)


def worker() -> str:
    """The script of the worker: files in memory, Go's support for browsers, and ours."""
    root = subprocess.run(["go", "env", "GOROOT"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    support = (Path(root) / "lib" / "wasm" / "wasm_exec.js").read_text(encoding="utf-8")
    texts = [(HERE / "files.js").read_text(encoding="utf-8"), support, (HERE / "worker.js").read_text(encoding="utf-8")]
    return '"use strict";\n' + "\n".join(texts)


def page() -> str:
    """The page, in the frame that all of ours have."""
    script = '"use strict";\n' + "".join(path.read_text(encoding="utf-8") for path in SCRIPTS)
    known = table("run_options")
    engine = table("engine_args")
    # Of rules by release, the newest stands for all; the command line has the others.
    rules = [rule for rule in engine["scheduler"]["choices"] if "-" not in rule]
    parts = {
        "TRACES": options([(name, title) for name, title, _, _ in TRACES]),
        "FORMATS": options([(name, name) for name in known["trace_format"]["choices"]]),
        "ROUTERS": options([(name, name) for name in known["router_mode"]["choices"]]),
        "ENGINES": options([(name, name) for name in engine["engine_type"]["choices"]]),
        "RULES": options([(rule, "Dynamo's mocker" if rule == "dynamo" else f"{rule} itself") for rule in rules]),
        "CHOICES": json.dumps(choices(known), separators=(",", ":")).replace("<", "\\u003c"),
    }
    every = {
        "TITLE": "dynosim in the browser",
        "HEAD": "<p>Replays requests through simulated LLM inference deployments. Everything runs in this window: "
        'nothing is installed, and nothing is sent anywhere. <a href="../">What this is</a></p>',
        "MAIN": filled((HERE / "page.html").read_text(encoding="utf-8"), parts),
        "POLICY": POLICY.format(hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()),
        "STYLE": "".join(path.read_text(encoding="utf-8") for path in STYLES),
        "DATA": '{"cdfs":[],"parts":null,"series":null}',
        "SCRIPT": script,
    }
    return filled((PACKAGE / "_page" / "frame.html").read_text(encoding="utf-8"), every)


def filled(template: str, parts: dict[str, str]) -> str:
    """A template with its parts, whose names stand between @@ and @@."""
    return "".join(parts[piece] if at % 2 else piece for at, piece in enumerate(template.split("@@")))


def table(name: str) -> dict[str, Any]:
    """A table that Go generates, by the names of its rows."""
    from dynamo._shell import tables

    return {row["name"]: row for row in tables.table(name)["fields"]}


def options(pairs: list[tuple[str, str]]) -> str:
    return "".join(f'<option value="{html.escape(value)}">{html.escape(text)}</option>' for value, text in pairs)


def choices(known: dict[str, Any]) -> dict[str, Any]:
    """What the scripts have to know of traces, options, and the names of figures."""
    from dynamo.replay import summary
    from dynamo.replay.page import data

    crash = (ROOT / "examples" / "faults" / "crash.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    return {
        "traces": [{"name": name, "format": form, "path": f"examples/traces/{path}"} for name, _, form, path in TRACES],
        "flags": {
            name: row["flag"].removeprefix("--") for name, row in known.items() if row.get("flag", "").startswith("--")
        },
        "files": [name for name, row in known.items() if row.get("reads") or row.get("writes")],
        "latencies": data.LATENCIES,
        "bounded": data.BOUNDED,
        "figures": data.FIGURES,
        "crash": crash,
        "summary": {
            "distributions": summary.DISTRIBUTIONS,
            "statistics": summary.STATISTICS,
            "scalars": summary.SCALARS,
            "footer": summary.FOOTER,
        },
    }


if __name__ == "__main__":
    main()
