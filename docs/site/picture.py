"""Makes the pictures of pages in README and docs/, as chromium shows them.

python docs/site/picture.py docs/sweep-page.png docs/recommend-page.png docs/run-page.png ...  # or `make picture`
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Picture(NamedTuple):
    """What a picture shows."""

    module: str
    arguments: str
    page: str
    """What the command writes."""
    part: str
    """The part of the page by its CSS selector; "" for the first screen."""
    height: int = 1146
    """Of that screen."""


PLAYGROUND = "playground.png"
# What its page is asked, and the size of the picture.
PLAYGROUND_ADDRESS, PLAYGROUND_WIDTH, PLAYGROUND_HEIGHT = "#workers=4&router=kv_router&sla_ttft=2000", 1200, 1620
PICTURES = {
    "sweep-page.png": Picture(
        "dynamo.sweep",
        "run examples/sweeps/design_question.yaml -o build/design",
        "build/design/report.html",
        "",
        1225,
    ),
    "recommend-page.png": Picture(
        "dynamo.sweep",
        "recommend examples/traces/conversation_400.jsonl.gz --gpus 5 --engine vllm --gpu-hour-price 3"
        """ --sla "p90_ttft_ms<=2000, p90_itl_ms<=40" -o build/recommended"""
        """ --engine-args '{"num_gpu_blocks": 4096, "block_size": 64, "kv_bytes_per_token": 131072}'""",
        "build/recommended/report.html",
        "#advice",
    ),
    "run-page.png": Picture(
        "dynamo.replay",
        "examples/traces/conversation_400.jsonl.gz --num-workers 4 --router-mode kv_router"
        """ --extra-engine-args '{"block_size": 64, "num_gpu_blocks": 2000}' --sla-ttft-ms 2000"""
        " --html build/run.html --report-json build/run.json",
        "build/run.html",
        "",
        2150,
    ),
    "faults-page.png": Picture(
        "dynamo.replay",
        "examples/traces/conversation_400.jsonl.gz --num-workers 4 --router-mode kv_router"
        """ --extra-engine-args '{"startup_time": 60}' --faults examples/faults/crash.jsonl --migration-limit 3"""
        " --html build/faults.html --report-json build/faults.json",
        "build/faults.html",
        "#series-section",
    ),
}


def main(*paths: str) -> None:
    """Runs the commands, or what is left of a sweep, and writes the pictures."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"error: want a browser on PATH: {', '.join(BROWSERS)}")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(color_scheme="light")
        for path in paths:
            if Path(path).name == PLAYGROUND:
                show_playground(page, path)
                continue
            picture = PICTURES[Path(path).name]
            page.set_viewport_size({"width": 1000, "height": picture.height})
            command = [sys.executable, "-m", picture.module, *shlex.split(picture.arguments)]
            subprocess.run(command, cwd=ROOT, check=True)
            page.goto((ROOT / picture.page).as_uri())
            page.wait_for_selector("svg")
            (page.locator(picture.part) if picture.part else page).screenshot(path=path)
        opened.close()


def show_playground(page: Page, path: str) -> None:
    """Writes the picture of build/playground after two runs, which it compares."""
    with served(ROOT / "build" / "playground") as address:
        page.set_viewport_size({"width": PLAYGROUND_WIDTH, "height": PLAYGROUND_HEIGHT})
        page.goto(f"{address}#workers=4&sla_ttft=2000")
        page.wait_for_function("() => shownRun !== null && !running")
        page.goto(f"{address}{PLAYGROUND_ADDRESS}")
        page.wait_for_function("() => earlier !== null && !running")
        page.screenshot(path=path)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on a plain file server."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
