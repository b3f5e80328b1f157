"""Makes the picture of README: the page of examples/sweeps/design_question.yaml, as chromium shows it.

python docs/site/picture.py docs/sweep-page.png
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FOLDER = "build/design"


def main(picture: str) -> None:
    """Runs the sweep, or what is left of it, and writes the first screen of its page."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"error: want a browser on PATH: {', '.join(BROWSERS)}")
    sweep = [sys.executable, "-m", "dynamo.sweep", "run", "examples/sweeps/design_question.yaml", "-o", FOLDER]
    subprocess.run(sweep, cwd=ROOT, check=True)
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(viewport={"width": 1000, "height": 1146}, color_scheme="light")
        page.goto((ROOT / FOLDER / "report.html").as_uri())
        page.wait_for_selector("svg")
        page.screenshot(path=picture)
        opened.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
