"""The playground in a browser, from a plain file server: its reports are those of the command line."""

from __future__ import annotations

import functools
import gzip
import http.server
import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from conftest import Cli
from firefox import firefox
from pagetools import faint

PROJECT = Path(__file__).parent.parent
BUILD = PROJECT / "docs" / "site" / "playground" / "build.py"
# What the clock decides, and the version, which a build of the page does not know.
CLOCK = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s", "version"}
CONFIGURATIONS: dict[str, dict[str, str]] = {
    "as it opens": {},
    "a router that sees caches": {"workers": "4", "router": "kv_router", "sla_ttft": "2000"},
    "two pools": {"pools": "two", "prefill": "2", "decode": "2", "router": "kv_router"},
    "SGLang, little room": {"engine": "sglang", "workers": "3", "blocks": "200000"},
    "vLLM by its own rules": {"rules": "vllm", "batched": "2048", "seqs": "32", "caching": "false"},
    "a public chat": {"workload": "azure", "workers": "6", "router": "least_requests", "speedup": "2"},
    "completions of code": {"workload": "code", "workers": "4", "router": "power_of_two", "sla_tpot": "30"},
    "shared prefixes": {"workload": "prefixes", "workers": "4", "router": "sglang_cache_aware"},
    "a crash": {"workers": "4", "faults": '{"kind": "crash", "at_ms": 60000, "target": "worker:0", "duration_ms": 0}'},
    "generated, scaled": {
        "workload": "generated",
        "requests": "300",
        "workers": "1",
        "more": '{"autoscaler": {"policy": "hpa", "target": 5, "max": 4}, "arrival_process": "poisson"}',
    },
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a page that was built anew."""
    if shutil.which("go") is None:
        pytest.skip("needs Go on PATH")
    folder = tmp_path_factory.mktemp("site") / "playground"
    subprocess.run([sys.executable, str(BUILD), str(folder)], check=True, capture_output=True, timeout=600)
    return folder


@pytest.fixture(scope="module")
def site(built: Path, browser: Any) -> Iterator[str]:
    """The address of that page."""
    served = functools.partial(Quiet, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), served) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def opened(site: str, browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens the page with a configuration. It must ask nobody else, and report no error until the test is over."""
    errors: list[str] = []
    asked: list[str] = []
    pages: list[Any] = []

    def open_page(wanted: dict[str, str], width: int = 1280, colours: str = "light") -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
        pages.append(page)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(f"{site}#{urlencode(wanted)}")
        return page

    yield open_page
    for page in pages:
        page.close()
    assert errors == []
    assert all(url.startswith((site, "blob:")) for url in asked), asked


def done(page: Any) -> str:
    """Waits for the end of a run; what the page says of it."""
    page.wait_for_function("() => !running && document.getElementById('status').textContent !== ''")
    return str(page.locator("#status").inner_text())


def fixed(value: Any) -> Any:
    """A report without what the clock decides."""
    if isinstance(value, dict):
        return {key: fixed(item) for key, item in value.items() if key not in CLOCK}
    return [fixed(item) for item in value] if isinstance(value, list) else value


def test_the_download_is_small(built: Path) -> None:
    """All files of the page, the core packed as it is sent, have no more than 6 MB."""
    assert 1e6 < sum(path.stat().st_size for path in built.rglob("*") if path.is_file()) <= 6e6


def test_reports_are_those_of_the_command_line(opened: Callable[..., Any], folder: Path) -> None:
    (folder / "examples").symlink_to(PROJECT / "examples")
    page = opened(CONFIGURATIONS["as it opens"])
    for name, wanted in CONFIGURATIONS.items():
        if wanted:
            page.evaluate("address => { globalThis.old = shownRun; location.hash = address; }", urlencode(wanted))
            page.wait_for_function("() => !running && (shownRun !== globalThis.old || statusLine.className === 'bad')")
        assert re.fullmatch(r"[\d,]+ requests in [\d.]+ s", done(page)), (name, page.locator("#status").inner_text())
        command = page.locator("#command").text_content()
        found = json.loads(page.locator("#report").text_content())
        script = command.replace("python -m", f"{shlex.quote(sys.executable)} -m") + " --report-json report.json"
        ran = subprocess.run(["sh", "-ec", script], cwd=folder, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, (name, command, ran.stderr)
        assert fixed(found) == fixed(json.loads((folder / "report.json").read_text())), name
        again: dict[str, Any] = {}
        exec(page.locator("#call").text_content(), again)  # in the folder of the traces
        assert fixed(json.loads(json.dumps(again["report"]))) == fixed(found), name
    assert len(CONFIGURATIONS) == 10


def test_firefox_runs_it(site: str, tmp_path: Path, folder: Path) -> None:
    """The same report as the command line's, in both widths, with the figures and charts of the page."""
    (folder / "examples").symlink_to(PROJECT / "examples")
    with firefox(tmp_path) as page:
        for width in (360, 1280):
            page.open(f"{site}?{width}#{urlencode({'workers': '4', 'router': 'kv_router', 'sla_ttft': '2000'})}", width)
            page.evaluate(
                """new Promise(over => { const look = () => !running && statusLine.textContent !== "" ? over()
                : setTimeout(look, 50); look(); })"""
            )
            status = page.evaluate("statusLine.textContent")
            assert re.fullmatch(r"[\d,]+ requests in [\d.]+ s", status), status
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("document.querySelectorAll('#cdfs svg').length") == 3
            assert page.evaluate("document.querySelector('#heat canvas').getBoundingClientRect().width") > 200
        found = json.loads(page.evaluate("document.getElementById('report').textContent"))
        command = page.evaluate("document.getElementById('command').textContent")
    script = command.replace("python -m", f"{shlex.quote(sys.executable)} -m") + " --report-json report.json"
    ran = subprocess.run(["sh", "-ec", script], cwd=folder, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, (command, ran.stderr)
    assert fixed(found) == fixed(json.loads((folder / "report.json").read_text()))


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_what_is_shown(opened: Callable[..., Any], width: int, colours: str) -> None:
    page = opened({"workers": "3", "sla_ttft": "2000"}, width, colours)
    done(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for section in ("parts-section", "cdf-section", "series-section"):
        assert page.locator(f"#{section}").is_visible()
    assert page.locator("#cdfs svg").count() == 3
    assert page.locator("#heat canvas").is_visible()
    assert faint(page) == []
    assert page.locator("#cdfs .before").count() == 0
    page.locator("input[name=workers]").fill("6")
    page.locator("input[name=workers]").press("Enter")  # without a mouse
    page.wait_for_function("() => earlier !== null")
    done(page)
    assert page.locator("#cdfs .before").count() == 3
    assert " %, before: " in page.locator("#cards").inner_text()
    assert page.evaluate("new URLSearchParams(location.hash.slice(1)).get('workers')") == "6"
    page.locator("#figure").select_option("busy")
    assert page.locator("#lines svg").get_attribute("aria-label") == "busy (part of the time) over time"


def test_files_and_mistakes(opened: Callable[..., Any], folder: Path, cli: Cli) -> None:
    row = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'
    (folder / "mine.jsonl.gz").write_bytes(gzip.compress(row.encode() * 30))
    page = opened({"workload": "file"})
    page.wait_for_function("() => document.getElementById('status').textContent.startsWith('Choose the file')")
    page.locator("#run").click()
    assert done(page) == "Workload: no file, choose one or drop it here"
    page.locator("input[name=file]").set_input_files(folder / "mine.jsonl.gz")
    page.wait_for_function("() => dropped !== null")
    page.locator("#run").click()
    page.wait_for_function("() => shownRun !== null")
    assert "30 requests in " in done(page)
    ran = cli("mine.jsonl.gz", "--num-workers", "2", "--explain", "--report-json", "report.json")
    assert ran.returncode == 0, ran
    found = json.loads(page.locator("#report").text_content())
    assert fixed(found) == fixed(json.loads((folder / "report.json").read_text()))
    for name, text, message in (
        ("workers", "0", "num_workers: got 0, want an integer"),
        ("workers", "x", 'Number of workers: got "x", want a number'),
        ("blocks", "-1", "num_gpu_blocks: got -1, want an integer from 1"),
        ("engine_more", "[1]", "More engine arguments, JSON: got [1], want a JSON object"),
        ("more", "{", "More arguments of the run, JSON: not JSON"),
        ("more", '{"report_jsonl_path": "x"}', "report_jsonl_path names a file"),
        ("faults", "x", "Faults: line 1 is not JSON"),
    ):
        box = page.locator(f"[name={name}]")
        kept = box.input_value()
        box.fill(text)
        page.locator("#run").click()
        assert message in done(page)
        assert "bad" in str(page.locator("#status").get_attribute("class"))
        box.fill(kept)
    page.locator("#run").click()
    page.wait_for_function("() => !document.getElementById('status').classList.contains('bad') && !running")


def test_a_run_can_be_stopped(opened: Callable[..., Any]) -> None:
    page = opened({})
    done(page)
    page.locator("select[name=workload]").select_option("generated")
    page.locator("input[name=requests]").fill("2000000")
    page.locator("#run").click()
    page.wait_for_function("() => running && document.getElementById('status').textContent === 'running …'")
    page.locator("#stop").click()
    assert done(page) == "stopped"
    page.locator("input[name=requests]").fill("20")
    page.locator("#run").click()
    page.wait_for_function("() => !running && shownRun.report.num_requests === 20")
