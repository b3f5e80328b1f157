"""All options of the OpenAI-compatible server in one file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import refused
from livetools import get, mocker
from servetools import serving

CONFIG = """
speedup-ratio: 1000
page: false
num_workers: 3
lora_modules: [sql, chat]
models:
  - {model_name: small}
  - {model_name: large, num_workers: 2, lora_modules: "", router_mode: kv, router_config: {}}
"""


def test_one_file(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text(CONFIG.replace(', lora_modules: ""', ", lora_modules: sql-large"))
    with serving(tmp_path, "--config", str(path), "--num-workers", "4") as s:
        models = [m["id"] for m in json.loads(get(s.url + "/v1/models")[1])["data"]]
        assert models == ["small", "sql", "chat", "large", "sql-large"]
        workers = json.loads(get(s.url + "/dashboard/state")[1])["workers"]
        assert [w["model"] for w in workers] == ["small"] * 4 + ["large"] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("num_workers: many", "num_workers: got 'many', want"),
        ("workers: 3", "--config: server.yaml: got 'workers', want the name of an option"),
        ("config: other.yaml", "got 'config', want the name of an option"),
        ("[1]", "--config: server.yaml"),
    ],
)
def test_refused(folder: Path, content: str, message: str) -> None:
    (folder / "server.yaml").write_text(content)
    command = mocker("--standalone", "--http-port", "0", "--config", "server.yaml")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert message in refused(done).replace('"', "'")
