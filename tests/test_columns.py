"""report.requests as tables, files and notebook cells; reports in notebooks; progress of a run."""

from __future__ import annotations

import csv
import html.parser
import json
import math
import os
import pickle
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ENDLESS, row, script, write_trace

from dynamo import replay
from dynamo.replay import Progress, Report, Requests, run_synthetic_trace_replay, run_trace_replay

# The third request can never run, and its session has a name with markup in it.
ROWS = [row(0, 8, 3, [1, 2]), row(10, 8, 2, [3, 4]), {**row(60, 400, 1, [*range(10, 110)]), "session_id": "<b>&"}]


@pytest.fixture
def report(folder: Path) -> Report:
    trace = write_trace(folder / "trace.jsonl", ROWS)
    with pytest.warns(UserWarning, match="rejected"):
        return run_trace_replay(trace, trace_block_size=4, extra_engine_args={"block_size": 4, "num_gpu_blocks": 20})


def test_a_data_frame_has_the_columns_as_they_are(report: Report) -> None:
    frame = pd.DataFrame(report.requests)
    assert list(frame.columns) == list(report.requests)
    assert len(frame) == 3
    for name, column in report.requests.items():
        if isinstance(column, list):
            assert frame[name].tolist() == column
        else:
            assert frame[name].dtype == column.dtype
            np.testing.assert_array_equal(frame[name].to_numpy(), column)


def test_to_pandas_has_none_where_there_is_none(report: Report) -> None:
    frame = report.requests.to_pandas()
    assert list(frame.columns) == list(report.requests)
    assert frame["ttft_ms"].dtype == np.float64
    assert frame["decode_worker_idx"].dtype == pd.Int64Dtype()
    assert isinstance(frame["terminal_status"].dtype, pd.StringDtype)
    assert frame["ttft_ms"].isna().tolist() == [False, False, True]
    assert frame["ttft_ms"].tolist()[:2] == report.requests["ttft_ms"].tolist()[:2]
    assert frame["prefill_worker_idx"].isna().all()
    assert frame["rejection_reason"].isna().tolist() == [True, True, False]
    assert frame["input_length"].tolist() == [8, 8, 400]
    assert frame["session_id"].tolist() == report.requests["session_id"]


def test_to_arrow(report: Report) -> None:
    table = report.requests.to_arrow()
    assert table.column_names == list(report.requests)
    assert (table.schema.field("ttft_ms").type, table.schema.field("input_length").type) == (pa.float64(), pa.int64())
    assert table.schema.field("session_id").type == pa.string()
    assert table["ttft_ms"].to_pylist() == [*report.requests["ttft_ms"].tolist()[:2], None]
    assert table["prefill_worker_idx"].to_pylist() == [None] * 3
    assert table["terminal_status"].to_pylist() == ["completed", "completed", "rejected"]
    assert table["rejection_reason"].null_count == 2


def test_parquet(report: Report, folder: Path) -> None:
    path = report.requests.to_parquet(folder / "deep" / "rows.parquet")
    assert path == folder / "deep" / "rows.parquet"
    assert pq.read_table(path).equals(report.requests.to_arrow())
    assert [found.name for found in path.parent.iterdir()] == ["rows.parquet"]


def test_csv(report: Report, folder: Path) -> None:
    path = report.requests.to_csv("deep/rows.csv")
    assert path == Path("deep/rows.csv")
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == list(report.requests)
    for index, cells in enumerate(rows):
        for name, cell in zip(header, cells, strict=True):
            value = report.requests[name][index]
            if isinstance(value, str):
                assert cell == value
            elif math.isnan(value) or value == -1:
                assert cell == ""
            else:
                assert float(cell) == value  # to the last bit


def test_files_are_replaced_whole(report: Report, folder: Path) -> None:
    path = folder / "rows.csv"
    path.write_text("before")
    path.chmod(0o640)
    report.requests.to_csv(path)
    assert path.stat().st_mode & 0o777 == 0o640
    for write in (report.requests.to_csv, report.requests.to_parquet):
        with pytest.raises(OSError, match="/proc"):
            write("/proc/rows")
        with pytest.raises(TypeError, match="path: got 3, want a path"):
            write(3)  # type: ignore[arg-type]
    assert not list(folder.glob(".dynamo-*"))


def test_json_does_not_take_columns_for_nothing(report: Report) -> None:
    with pytest.raises(TypeError, match="ndarray is not JSON serializable"):
        json.dumps({"requests": report.requests})
    assert list(json.loads(json.dumps(report.requests, default=repr))) == list(report.requests)


@pytest.mark.parametrize("method", ["to_csv", "to_parquet"])
def test_a_pipe_whose_reader_leaves_is_named_and_stays(folder: Path, method: str) -> None:
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    done = threading.Thread(target=_close_when_opened, args=(reader,))
    times = np.random.default_rng(0).random(1_000_000)  # more than a pipe holds, compressed, too
    many = Requests(None, {"ttft_ms": times})
    done.start()
    with pytest.raises(OSError, match="Broken pipe: 'pipe'"):
        getattr(many, method)("pipe")
    done.join()
    assert Path("pipe").is_fifo()


def _close_when_opened(reader: int) -> None:
    """Reads until something has arrived, and leaves."""
    while not _arrived(reader):
        select.select([reader], [], [])
    os.close(reader)


def _arrived(reader: int) -> bool:
    try:
        return bool(os.read(reader, 1))
    except BlockingIOError:
        return False


@pytest.mark.parametrize(
    ("library", "method"), [("pandas", "to_pandas()"), ("pyarrow", "to_arrow()"), ("pyarrow", "to_csv('rows')")]
)
def test_a_library_that_is_missing(folder: Path, library: str, method: str) -> None:
    text = f"""
import sys
sys.modules[{library!r}] = None
from dynamo.replay import run_synthetic_trace_replay
requests = run_synthetic_trace_replay(20, 3, 5).requests
try:
    requests.{method}
except ImportError as error:
    print(error)
"""
    done = script(text, cwd=folder)
    assert done.stdout.startswith(f"{method.partition('(')[0]} needs {library} ("), done
    assert done.stdout.endswith("pip install 'dynosim[data]'\n")


def test_neither_library_is_loaded_unasked(folder: Path) -> None:
    text = """
import sys
from dynamo.replay import run_synthetic_trace_replay
report = run_synthetic_trace_replay(20, 3, 5)
dict(report.requests), report._repr_html_(), report.requests._repr_html_()
print(sorted({"pandas", "pyarrow"} & set(sys.modules)))
"""
    assert script(text, cwd=folder).stdout == "[]\n"


def test_a_mapping_that_cannot_be_changed(report: Report) -> None:
    requests: Any = report.requests
    assert isinstance(requests, dict)
    assert requests.keys() == set(dict(requests)) == set({**requests}) == set(requests.copy()) == set(requests | {})
    assert len(requests) == len(list(requests.items())) == len({} | requests)
    assert "ttft_ms" in requests
    assert requests.get("nonsense", 3) == 3
    changes: list[tuple[str, tuple[Any, ...]]] = [
        ("__setitem__", ("a", 1)), ("__delitem__", ("ttft_ms",)), ("update", ({"a": 1},)), ("pop", ("ttft_ms",)),
        ("popitem", ()), ("clear", ()), ("setdefault", ("a", 1)), ("__ior__", ({"a": 1},)),
    ]  # fmt: skip
    for method, arguments in changes:
        with pytest.raises(TypeError, match="cannot be changed"):
            getattr(requests, method)(*arguments)


def test_equality_is_of_values(report: Report) -> None:
    assert report.requests == pickle.loads(pickle.dumps(report.requests))
    assert report.requests == dict(report.requests)
    assert dict(report.requests) == report.requests
    for strange in ({}, {**report.requests, "ttft_ms": [1.0]}, {**report.requests, "uuid": np.zeros(3)}, None):
        assert report.requests != strange
        assert strange != report.requests
    first, same, other = (run_synthetic_trace_replay(20, tokens, 5).requests for tokens in (3, 3, 4))
    assert first == same
    assert first != other


def test_keys_complete(report: Report) -> None:
    assert report._ipython_key_completions_() == list(report)
    assert report.requests._ipython_key_completions_() == list(report.requests.keys())


class Cells(html.parser.HTMLParser):
    """The texts of the cells of a page, row by row, and the tags that were left open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_a_report_in_a_notebook(report: Report) -> None:
    page = Cells(report._repr_html_())
    assert page.open == []
    assert page.rows[0] == ["Metric", "avg", "min", "max", "p99", "p90", "p75", "std"]
    first = next(cells for cells in page.rows if cells[0] == "Time to First Token (ms)")
    assert first[1] == f"{report['mean_ttft_ms']:,.2f}"
    assert "Prefix Cache Reused Ratio" in report._repr_html_()


def test_requests_in_a_notebook(report: Report) -> None:
    page = Cells(report.requests._repr_html_())
    assert page.open == []
    heading, *rows = page.rows
    assert heading[:3] == ["", "session_id", "arrival_time_ms"]
    assert "prefill_worker_idx" not in heading  # nothing to show
    assert [cells[0] for cells in rows] == ["0", "1", "2"]
    assert rows[2][1] == "<b>&"
    assert rows[2][heading.index("ttft_ms")] == ""
    assert "rejection_reason" in heading


def test_long_runs_in_a_notebook_show_both_ends() -> None:
    text = run_synthetic_trace_replay(8, 2, 100)
    rows = Cells(text.requests._repr_html_()).rows[1:]
    assert [cells[0] for cells in rows] == ["0", "1", "2", "3", "4", "…", "95", "96", "97", "98", "99"]
    assert "100 requests" in text.requests._repr_html_()


def test_no_requests_at_all(folder: Path) -> None:
    nothing = {"ttft_ms": np.zeros(0), "trace_row": np.zeros(0, dtype=np.int64), "uuid": []}
    for requests in (Requests(None, dict(nothing)), Requests(None, {})):
        names = list(requests)
        assert requests.to_pandas().shape == pd.DataFrame(requests).shape == (0, len(names))
        assert requests.to_arrow().shape == (0, len(names))
        assert pq.read_table(requests.to_parquet("rows.parquet")).column_names == names
        assert Path(requests.to_csv("rows.csv")).read_text().strip() == ",".join(f'"{name}"' for name in names)
        assert "0 requests" in requests._repr_html_()
        assert requests == pickle.loads(pickle.dumps(requests))


def test_what_the_module_offers() -> None:
    functions = ["load_trace", "run_synthetic_trace_replay", "run_trace_replay"]
    assert replay.__all__ == ["Progress", "Report", "Requests", "TelemetryOptions", "Workload", *functions]
    assert type(run_synthetic_trace_replay(20, 3, 5)) is Report is replay.Report
    assert type(run_synthetic_trace_replay(20, 3, 5).requests) is Requests


def test_every_column_is_described(report: Report) -> None:
    described = Requests.__doc__ or ""
    assert [name for name in report.requests if f"{name}:" not in described and f"{name}," not in described] == []


def test_progress_ends_with_the_run(folder: Path) -> None:
    trace = write_trace(folder / "trace.jsonl", ROWS[:2])
    for run in (
        lambda show: run_synthetic_trace_replay(8, 2, 5, on_progress=show),
        lambda show: run_trace_replay(trace, trace_block_size=4, on_progress=show),
    ):
        seen: list[Progress] = []
        run(seen.append)
        assert seen[-1].phase == "reporting"
        assert seen[-1].done == seen[-1].total > 0
        assert [now.done for now in seen] == sorted(now.done for now in seen)


ENDLESS_RUN = f"""
from dynamo.replay import run_synthetic_trace_replay
def stop(now):
    if now.phase == "running":
        raise LookupError(f"seen enough of {{now.total}}")
run_synthetic_trace_replay({ENDLESS[1]}, {ENDLESS[3]}, {ENDLESS[5]}, extra_engine_args={ENDLESS[7]}, on_progress=stop)
"""


def test_progress_can_stop_a_run(folder: Path) -> None:
    done = script(ENDLESS_RUN, cwd=folder)
    assert done.returncode == 1
    assert done.stderr.endswith(f"LookupError: seen enough of {ENDLESS[5]}\n")


def test_progress_wants_a_function() -> None:
    with pytest.raises(TypeError, match="on_progress: got 3, want a function"):
        run_synthetic_trace_replay(20, 3, 5, on_progress=3)  # type: ignore[arg-type]


def test_tables_are_typed_for_users(folder: Path) -> None:
    (folder / "user.py").write_text(
        "from dynamo.replay import Report, run_trace_replay\n"
        "report: Report = run_trace_replay('t', router_mode='kv_router', extra_engine_args={'engine_type': 'vllm'})\n"
        "report.requests['x'] = 3\n"
        "run_trace_replay('t', router_mode='never')\n"
    )
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "user.py"], capture_output=True, text=True)
    errors = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    assert errors == ["3", "4"], done.stdout
