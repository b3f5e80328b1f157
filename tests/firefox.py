"""Firefox without a window, driven by the protocol that it speaks itself, WebDriver BiDi."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from livetools import until

PROGRAMS = ("firefox", "firefox-esr")
PATIENCE_S = 300.0


class Firefox:
    """One page."""

    def __init__(self, address: str) -> None:
        websocket: Any = pytest.importorskip("tornado.websocket")
        self._loop = asyncio.new_event_loop()
        self._thread = ThreadPoolExecutor(1)  # another loop may run in that of the test
        self._number = 0
        self._socket = self._wait(lambda: websocket.websocket_connect(address, max_message_size=1 << 28))
        self.call("session.new", capabilities={})
        self.context = self.call("browsingContext.getTree")["contexts"][0]["context"]

    def _wait(self, make: Callable[[], Any]) -> Any:
        async def waited() -> Any:
            made = make()
            return None if made is None else await asyncio.wait_for(made, PATIENCE_S)

        return self._thread.submit(lambda: self._loop.run_until_complete(waited())).result()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What a command returns."""
        self._number += 1
        asked = json.dumps({"id": self._number, "method": method, "params": params})
        self._wait(lambda: self._socket.write_message(asked))
        while True:
            answer = json.loads(self._wait(self._socket.read_message))
            if answer.get("id") == self._number:
                assert answer["type"] == "success", answer
                return dict(answer["result"])

    def open(self, url: str, width: int = 1280) -> None:
        self.call("browsingContext.setViewport", context=self.context, viewport={"width": width, "height": 900})
        self.call("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, which JSON can hold; it is waited for if it is a promise."""
        wrapped = f"(async () => JSON.stringify(await ({expression}) ?? null))()"
        target = {"context": self.context}
        found = self.call("script.evaluate", expression=wrapped, target=target, awaitPromise=True)
        assert found["type"] == "success", found
        return json.loads(found["result"]["value"])

    def close(self) -> None:
        self._wait(self._socket.close)
        self._thread.submit(self._loop.close).result()
        self._thread.shutdown()


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """A browser with a profile of its own; the test is skipped without one."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"needs a browser on PATH: {', '.join(PROGRAMS)}")
    profile = folder / "profile"
    profile.mkdir()
    log = folder / "firefox.log"
    command = [program, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    with log.open("w") as output:
        process = subprocess.Popen([*command, "about:blank"], stdout=output, stderr=output, cwd=folder)
    said = "WebDriver BiDi listening on "
    opened = None
    try:
        until(lambda: said in log.read_text() or process.poll() is not None, PATIENCE_S)
        assert process.poll() is None, log.read_text()
        address = log.read_text().partition(said)[2].splitlines()[0].strip()
        opened = Firefox(f"{address}/session")
        yield opened
    finally:
        if opened is not None:
            opened.close()
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
