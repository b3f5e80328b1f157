"""The printed table, character by character."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import termios
from fcntl import ioctl
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TINY, Cli, command, row, write_trace

from dynamo.replay.reporting import format_report_table

ENGINE = '{"block_size":4,"num_gpu_blocks":1000}'
THREE_REQUESTS = [row(1000, 10, 3, [1, 2, 3]), row(1005.5, 12, 1, [1, 2, 4]), row(1003, 8, 2, [7, 8])]
TABLE_OF_THREE = """\
dynosim | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━┳━━━━━━━┳━━━━━━━━┳━━━━━━━━┳━━━━━━━━┳━━━━━━━━┳━━━━━━━┓
┃ Metric                                             ┃    avg ┃   min ┃    max ┃    p99 ┃    p90 ┃    p75 ┃   std ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━╇━━━━━━━╇━━━━━━━━╇━━━━━━━━╇━━━━━━━━╇━━━━━━━━╇━━━━━━━┩
┃ Time to First Token (ms)                           ┃  34.89 ┃ 22.56 ┃  42.30 ┃  42.30 ┃  42.30 ┃  42.30 ┃  8.78 ┃
┃ Time to Second Token (ms)                          ┃  14.40 ┃  6.06 ┃  22.75 ┃  22.75 ┃  22.75 ┃  22.75 ┃  8.34 ┃
┃ Request Latency (ms)                               ┃  46.51 ┃ 39.80 ┃  51.37 ┃  51.37 ┃  51.37 ┃  51.37 ┃  4.90 ┃
┃ Time per Output Token (ms)                         ┃  10.23 ┃  6.06 ┃  14.40 ┃  14.40 ┃  14.40 ┃  14.40 ┃  4.17 ┃
┃ Token Gap (ms)                                     ┃  11.62 ┃  6.06 ┃  22.75 ┃  22.75 ┃  22.75 ┃  22.75 ┃  7.86 ┃
┃ Output Token Throughput Per User (tokens/sec/user) ┃ 124.61 ┃ 43.96 ┃ 164.93 ┃ 164.93 ┃ 164.93 ┃ 164.93 ┃ 57.03 ┃
┃ Output Token Throughput (tokens/sec)               ┃ 116.81 ┃   N/A ┃    N/A ┃    N/A ┃    N/A ┃    N/A ┃   N/A ┃
┃ Request Throughput (requests/sec)                  ┃  58.41 ┃   N/A ┃    N/A ┃    N/A ┃    N/A ┃    N/A ┃   N/A ┃
┃ Request Count (requests)                           ┃   3.00 ┃   N/A ┃    N/A ┃    N/A ┃    N/A ┃    N/A ┃   N/A ┃
└━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┴━━━━━━━━┴━━━━━━━┴━━━━━━━━┴━━━━━━━━┴━━━━━━━━┴━━━━━━━━┴━━━━━━━┘
Wall Time (ms): #
Prefix Cache Reused Ratio: 0.27
First Admission Prefix Cache Reused Ratio: 0.27
Durations: built-in polynomial, of no particular GPU
Saved full report to: sub/dir/out.json
"""
# What the reference prints for such a report.
PARTIAL = {"mean_ttft_ms": 1.5, "min_ttft_ms": 1, "wall_time_ms": 0.39, "prefix_cache_reused_ratio": 0.5}
PARTIAL_TABLE = """\
dynosim | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━┳━━━━━━┳━━━━━┳━━━━━┳━━━━━┳━━━━━┳━━━━━┓
┃ Metric                               ┃  avg ┃  min ┃ max ┃ p99 ┃ p90 ┃ p75 ┃ std ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━╇━━━━━━╇━━━━━╇━━━━━╇━━━━━╇━━━━━╇━━━━━┩
┃ Time to First Token (ms)             ┃ 1.50 ┃ 1.00 ┃ N/A ┃ N/A ┃ N/A ┃ N/A ┃ N/A ┃
┃ Output Token Throughput (tokens/sec) ┃  N/A ┃  N/A ┃ N/A ┃ N/A ┃ N/A ┃ N/A ┃ N/A ┃
┃ Request Throughput (requests/sec)    ┃  N/A ┃  N/A ┃ N/A ┃ N/A ┃ N/A ┃ N/A ┃ N/A ┃
┃ Request Count (requests)             ┃ 4.00 ┃  N/A ┃ N/A ┃ N/A ┃ N/A ┃ N/A ┃ N/A ┃
└━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┴━━━━━━┴━━━━━━┴━━━━━┴━━━━━┴━━━━━┴━━━━━┴━━━━━┘
Wall Time (ms): 0.39
Prefix Cache Reused Ratio: 0.50"""


def test_the_command_prints_the_whole_table_when_piped(cli: Cli, folder: Path) -> None:
    trace = write_trace(folder / "three.jsonl", THREE_REQUESTS)
    done = cli(trace, "--trace-block-size", "4", "--extra-engine-args", ENGINE, "--report-json", "sub/dir/out.json")
    assert re.sub(r"(Wall Time \(ms\): )[\d.,]+", r"\1#", done.stdout) == TABLE_OF_THREE
    assert (done.returncode, done.stderr) == (0, "")


def test_missing_values() -> None:
    assert format_report_table({**PARTIAL, "num_requests": 4}) == PARTIAL_TABLE


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2000, "2,000.00"), (1234567.891, "1,234,567.89"), ("many", "many"), (0, "0.00"), ("[red]", "[red]")],
)
def test_numbers_and_texts(value: Any, shown: str) -> None:
    count = next(line for line in format_report_table({"completed_requests": value}).splitlines() if "Count" in line)
    assert count.split("┃")[2].strip() == shown


@pytest.mark.parametrize(
    "value", [np.float32(2000), np.float64(2000), np.int64(2000), np.uint8(200), Fraction(4000, 2)]
)
def test_numbers_of_other_kinds(value: Any) -> None:
    wanted = format_report_table({"completed_requests": float(value), "wall_time_ms": float(value)})
    assert format_report_table({"completed_requests": value, "wall_time_ms": value}) == wanted


def test_closing_lines_need_numbers() -> None:
    assert "Wall Time" not in format_report_table({"wall_time_ms": "unknown"})


def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "20", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    assert format_report_table({**PARTIAL, "num_requests": 4}) == PARTIAL_TABLE


FULL = {f"{stat}_ttft_ms": 1234.5 for stat in ("mean", "min", "max", "p99", "p90", "p75", "std")}
FULL |= {"completed_requests": 3, "wall_time_ms": 1.0}


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_narrow_table_drops_columns_and_never_wraps(ascii_only: bool) -> None:
    widest = len(format_report_table(FULL).splitlines()[1])
    for width in range(28, widest + 3):
        lines = format_report_table(FULL, width=width, ascii_only=ascii_only).splitlines()[1:-1]
        assert len({len(line) for line in lines}) == 1
        assert len(lines[0]) <= width
        assert "avg" in lines[1]
        assert len(lines) == 8
    whole = format_report_table(FULL)
    assert format_report_table(FULL, width=widest) == whole
    dropped = format_report_table(FULL, width=widest - 1).splitlines()[2].replace("┃", "").split()
    assert dropped == ["Metric", "avg", "min", "max", "p99", "p90", "p75"]
    kept = format_report_table(FULL, width=66).splitlines()[2].replace("┃", "").split()
    assert kept == ["Metric", "avg", "p99"]
    short = format_report_table(FULL, width=30).splitlines()[4]
    assert short == "┃ Time to First…  ┃ 1,234.50 ┃"


def test_ascii() -> None:
    drawn = format_report_table({"completed_requests": 2}, ascii_only=True)
    assert (
        drawn
        == """\
dynosim | LLM Metrics
+--------------------------------------+------+-----+-----+-----+-----+-----+-----+
| Metric                               |  avg | min | max | p99 | p90 | p75 | std |
+======================================+======+=====+=====+=====+=====+=====+=====+
| Output Token Throughput (tokens/sec) |  N/A | N/A | N/A | N/A | N/A | N/A | N/A |
| Request Throughput (requests/sec)    |  N/A | N/A | N/A | N/A | N/A | N/A | N/A |
| Request Count (requests)             | 2.00 | N/A | N/A | N/A | N/A | N/A | N/A |
+--------------------------------------+------+-----+-----+-----+-----+-----+-----+"""
    )


def on_a_terminal(folder: Path, columns: int, **environment: str) -> list[str]:
    """The lines of the table that the command prints on a terminal of that width."""
    terminal, end = pty.openpty()
    ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name != "TERM"} | environment
    run = subprocess.Popen(command(*TINY), cwd=folder, stdout=end, stderr=subprocess.DEVNULL, env=variables)
    os.close(end)
    printed = b""
    try:
        while chunk := os.read(terminal, 1 << 16):
            printed += chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(terminal)
    assert run.wait(timeout=300) == 0
    return [line for line in printed.decode().splitlines() if line[0] in "┏┃┡└+|"]


def test_the_command_asks_the_terminal(folder: Path, cli: Cli) -> None:
    xterm = {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    assert {len(line) for line in on_a_terminal(folder, 80, **xterm)} <= set(range(60, 81))
    assert on_a_terminal(folder, 80, **xterm)[0][0] == "┏"
    assert len(on_a_terminal(folder, 80, COLUMNS="300", **xterm)[0]) > 80
    assert on_a_terminal(folder, 80, TERM="dumb")[0][0] == "+"
    full = len(cli(*TINY).stdout.splitlines()[1])
    assert full > 100
    assert len(cli(*TINY, env={**os.environ, "COLUMNS": "90"}).stdout.splitlines()[1]) <= 90
    readline = {**os.environ, "COLUMNS": "80", "LINES": "24"}
    assert len(cli(*TINY, env=readline).stdout.splitlines()[1]) == full
    for nonsense in ("0", "-5", "wide"):
        assert len(cli(*TINY, env={**os.environ, "COLUMNS": nonsense}).stdout.splitlines()[1]) == full
