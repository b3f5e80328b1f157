"""Long calls in a kernel of Jupyter: their progress bar, and the interrupt button."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TRACE = Path(__file__).parents[1] / "examples" / "traces" / "conversation_400.jsonl.gz"
VIEW = "application/vnd.jupyter.widget-view+json"
# Minutes: a run in real time, and thousands of runs.
RUN = f"from dynamo.replay import run_trace_replay\nrun_trace_replay({str(TRACE)!r}, replay_mode='online')"
SWEEP = f"""
from dynamo import sweep
from dynamo.replay import run_trace_replay
sweep.run({{"run": {{"trace": {str(TRACE)!r}}}, "search": {{"engine.max_num_seqs": list(range(8, 5000))}}}})
"""
_SECONDS = 300


@pytest.fixture
def kernel(folder: Path) -> Iterator[Any]:
    client = pytest.importorskip("jupyter_client")
    for needed in ("ipykernel", "ipywidgets", "tqdm"):
        pytest.importorskip(needed)
    manager, connected = client.manager.start_new_kernel(
        startup_timeout=_SECONDS, kernel_name="python3", cwd=str(folder)
    )
    manager.client_of_test = connected
    try:
        yield manager
    finally:
        connected.stop_channels()
        manager.shutdown_kernel(now=True)


def follow(kernel: Any, code: str, seen: Callable[[str, Any], object]) -> list[tuple[str, Any]]:
    """Runs a cell and returns its messages; ``seen`` gets each as it comes."""
    client = kernel.client_of_test
    asked, every = client.execute(code), []
    while True:
        message = client.get_iopub_msg(timeout=_SECONDS)
        if message["parent_header"].get("msg_id") != asked:
            continue
        kind, content = message["msg_type"], message["content"]
        every.append((kind, content))
        seen(kind, content)
        if kind == "status" and content["execution_state"] == "idle":
            return every


def text_of(messages: list[tuple[str, Any]]) -> str:
    return "".join(content["data"]["text/plain"] for kind, content in messages if kind == "execute_result")


@pytest.mark.parametrize("code", [RUN, SWEEP], ids=["run", "sweep"])
def test_a_long_call_shows_a_bar_and_can_be_interrupted(kernel: Any, code: str) -> None:
    bars: list[str] = []

    def seen(kind: str, content: Any) -> None:
        if kind == "display_data" and VIEW in content["data"] and not bars:
            bars.append(content["data"]["text/plain"])
            kernel.interrupt_kernel()

    messages = follow(kernel, code, seen)
    assert len(bars) == 1
    assert [content["ename"] for kind, content in messages if kind == "error"] == ["KeyboardInterrupt"]
    short = f"run_trace_replay({str(TRACE)!r}, num_workers=4)['completed_requests']"
    assert text_of(follow(kernel, short, lambda *_: None)) == "400"


def test_a_call_that_ends_soon_shows_none(kernel: Any) -> None:
    soon = "from dynamo._shell import notebookbar\nnotebookbar._SECONDS = 3600.0"
    run = f"run_trace_replay({str(TRACE)!r}, num_workers=4)['completed_requests']"
    messages = follow(kernel, f"{soon}\nfrom dynamo.replay import run_trace_replay\n{run}", lambda *_: None)
    assert text_of(messages) == "400"
    assert not [content for kind, content in messages if kind == "display_data"]
