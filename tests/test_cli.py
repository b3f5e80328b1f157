"""The command line: its rules, exit codes, and the files it writes."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, WALL_CLOCK, Cli, command, refused, row, write_trace

from dynamo import _core

PROJECT = Path(__file__).parents[1]

NAME = re.compile(r"dynamo_replay_report_\d{8}_\d{6}\.json")


@pytest.fixture
def trace(folder: Path) -> str:
    return write_trace(folder / "trace.jsonl", [row(0, 8, 2, [1, 2]), row(3, 8, 2, [1, 3])])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "--input-tokens"),
        (["--num-workers", "2"], "a trace file"),
        (["--bad-flag"], "--bad-flag"),
        (["--num-workers", "x"], "--num-workers"),
        (["--num-workers", "1.5"], "--num-workers"),
        (["--arrival-speedup-ratio", "fast"], "--arrival-speedup-ratio"),
        (["--trace-format", "dynamo"], "needs at least one trace file"),
        (["a", "b"], "trace_files: got 2 files, want exactly one for trace_format mooncake"),
        (
            ["a", "b", "--trace-format", "mooncake-delta"],
            "trace_files: got 2 files, want exactly one for trace_format mooncake-delta",
        ),
        (["a", "--input-tokens", "3"], "--input-tokens cannot be combined with a trace file"),
        (["a", "--turns-per-session", "2"], "--turns-per-session"),
        (
            ["a", "--shared-prefix-ratio", "0.5"],
            "--shared-prefix-ratio cannot be combined with a trace file, which takes --trace-shared-prefix-ratio",
        ),
        (["a", "--num-prefix-groups", "2"], "--num-prefix-groups"),
        (["a", "--inter-turn-delay-ms", "1"], "--inter-turn-delay-ms"),
        (["a", "--arrival-interval-ms", "1"], "--arrival-interval-ms"),
        (["--input-tokens", "3"], "missing: --output-tokens, --request-count"),
        (["--turns-per-session", "2"], "missing: --input-tokens, --output-tokens, --request-count"),
        ([*TINY, "--trace-block-size", "512"], "--trace-block-size needs a trace file"),
        ([*TINY, "--trace-num-prefix-groups", "2"], "--trace-num-prefix-groups needs a trace file"),
    ],
)
def test_rules_of_the_command_line(cli: Cli, arguments: list[str], named: str) -> None:
    assert named in refused(cli(*arguments))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--num-workers", "0"], "num_workers"),
        (["--num-workers", "-3"], "num_workers"),
        (["--num-workers", "two"], '--num-workers: got "two", want an integer from 0 to 65536'),
        (["--arrival-interval-ms", "x"], '--arrival-interval-ms: got "x", want a finite number'),
        (["--replay-concurrency", "0"], "replay_concurrency"),
        (["--arrival-speedup-ratio", "nan"], "arrival_speedup_ratio: got nan"),
        (["--arrival-interval-ms", "-1"], "arrival_interval_ms"),
        (["--max-sim-time-seconds", "inf"], "max_sim_time_seconds: got inf"),
        (["--router-mode", "fastest"], "router_mode"),
        (["--replay-mode", "dreaming"], "replay_mode"),
        (["--sla-ttft-ms", "-1"], "sla_ttft_ms"),
        (["--model-name", ""], "model_name"),
        (["--extra-engine-args", '{"blok_size": 64}'], 'did you mean "block_size"?'),
        (["--extra-engine-args", '{"block_size": 64, "block_size": 64}'], "duplicate"),
        (["--extra-engine-args", "[]"], "object"),
        (["--extra-engine-args", ""], "extra_engine_args: line 1 column 1"),
        (["--extra-engine-args", '{"max_num_seqs": 0}'], "max_num_seqs: got 0, want an integer >= 1"),
    ],
)
def test_bad_values(cli: Cli, arguments: list[str], named: str) -> None:
    assert named in refused(cli(*TINY, *arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--router-policy-config", "policy.yaml"],
        ["--router-config", '{"router_policy_config": "policy.yaml"}'],
    ],
)
def test_what_is_not_built_yet_says_so(cli: Cli, arguments: list[str]) -> None:
    assert "not built yet" in refused(cli(*TINY, *arguments))


def test_options_that_change_nothing_pass_with_either_workload(cli: Cli, trace: str) -> None:
    neutral = ["--turns-per-session", "1", "--shared-prefix-ratio", "0", "--num-prefix-groups", "0"]
    assert cli(trace, *neutral, "--inter-turn-delay-ms", "0.0").returncode == 0
    assert cli(*TINY, "--trace-format", "mooncake", "--trace-num-prefix-groups", "0").returncode == 0


def test_a_missing_trace_is_bad_input(cli: Cli, folder: Path) -> None:
    assert "nowhere.jsonl" in refused(cli("nowhere.jsonl"))
    assert list(folder.iterdir()) == []


def test_a_bad_row_is_named_by_file_and_line(cli: Cli, folder: Path, trace: str) -> None:
    with Path(trace).open("a") as file:
        file.write('{"timestamp": 4}\n')
    message = refused(cli(trace))
    assert "trace.jsonl line 3" in message


def test_help(cli: Cli) -> None:
    done = cli("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--report-jsonl" in done.stdout


def test_the_report_file(cli: Cli, folder: Path) -> None:
    done = cli(*TINY, "--report-json", "deep/er/report.json")
    assert done.returncode == 0
    assert done.stdout.endswith("\nSaved full report to: deep/er/report.json\n")
    text = (folder / "deep/er/report.json").read_text()
    report = json.loads(text)
    assert text == json.dumps(report, indent=2, sort_keys=True) + "\n"
    assert report["num_requests"] == report["completed_requests"] == 5
    assert report["total_input_tokens"] == 100
    assert os.listdir(folder / "deep/er") == ["report.json"]


def test_the_report_goes_to_the_current_folder_by_default(cli: Cli, folder: Path) -> None:
    done = cli(*TINY)
    (path,) = folder.iterdir()
    assert NAME.fullmatch(path.name)
    assert done.stdout.endswith(f"\nSaved full report to: {path}\n")


def test_a_folder_gets_a_report_of_the_default_name(cli: Cli, folder: Path) -> None:
    (folder / "reports").mkdir()
    done = cli(*TINY, "--report-json", "reports")
    (path,) = (folder / "reports").iterdir()
    assert NAME.fullmatch(path.name)
    assert done.stdout.endswith(f"\nSaved full report to: reports/{path.name}\n")


@pytest.mark.parametrize("option", [[], ["--report-json", "."]])
def test_a_default_name_never_replaces_a_report(folder: Path, option: list[str]) -> None:
    """Four processes at once, and a clock that stands still, so that all of them make up the same name."""
    (folder / "run.py").write_text(
        "import sys, time\n"
        "from dynamo.replay.main import main\n"
        "time.strftime = lambda form: 'dynamo_replay_report_20260101_000000.json'\n"
        "sys.exit(main())\n"
    )
    counts = ["5", "6", "7", "8"]
    runs = [
        subprocess.Popen(
            [sys.executable, "run.py", *TINY[:-1], count, *option], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        for count in counts
    ]
    saved = [Path(run.communicate(timeout=300)[0].splitlines()[-1].partition(": ")[2]) for run in runs]
    assert [json.loads((folder / path).read_text())["num_requests"] for path in saved] == [5, 6, 7, 8]
    ends = ["000000.json", "000000_2.json", "000000_3.json", "000000_4.json"]
    assert sorted(os.listdir(folder)) == sorted(["run.py", *(f"dynamo_replay_report_20260101_{end}" for end in ends)])


def test_an_existing_report_is_replaced(cli: Cli, folder: Path) -> None:
    path = folder / "report.json"
    path.write_text("old")
    assert cli(*TINY, "--report-json", "report.json").returncode == 0
    assert json.loads(path.read_text())["num_requests"] == 5
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_link_is_followed(cli: Cli, folder: Path) -> None:
    (folder / "link.json").symlink_to("real.json")
    assert cli(*TINY, "--report-json", "link.json").returncode == 0
    assert (folder / "link.json").is_symlink()
    assert json.loads((folder / "real.json").read_text())["num_requests"] == 5


@pytest.mark.parametrize("flag", ["--report-json", "--report-jsonl"])
def test_pipes_are_written_not_replaced(cli: Cli, folder: Path, flag: str) -> None:
    """As are devices: a rename would put a file in the place of /dev/null."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    try:
        assert cli(*TINY, "--report-json", "report.json", flag, str(pipe)).returncode == 0
        assert pipe.is_fifo()
        assert "ttft_ms" in reader.communicate(timeout=300)[0]
    finally:
        reader.kill()


@pytest.mark.parametrize("flag", ["--report-json", "--report-jsonl"])
@pytest.mark.parametrize("path", ["/proc/report", "file/report", "file/deep/report", "x" * 300, ""])
def test_unwritable_paths_are_refused_before_the_run(cli: Cli, folder: Path, flag: str, path: str) -> None:
    (folder / "file").write_text("in the way")
    assert flag in refused(cli(*TINY, flag, path))
    assert [found.name for found in folder.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(cli: Cli, folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o555)
    assert "Permission denied" in refused(cli(*TINY, "--report-json", "closed/report.json"))


@pytest.mark.parametrize(
    ("outputs", "named"),
    [
        (["--report-json", "trace.jsonl"], ["--report-json", "trace_files"]),
        (["--report-jsonl", "./trace.jsonl"], ["--report-jsonl", "trace_files"]),
        (["--report-json", "link.jsonl"], ["--report-json", "trace_files"]),
        (["--report-json", "new/a", "--report-jsonl", "new/../new/a"], ["--report-json", "--report-jsonl"]),
    ],
)
def test_files_that_coincide_are_refused(
    cli: Cli, folder: Path, trace: str, outputs: list[str], named: list[str]
) -> None:
    (folder / "link.jsonl").symlink_to("trace.jsonl")
    before = Path(trace).read_text()
    message = refused(cli("trace.jsonl", *outputs))
    assert all(name in message for name in named)
    with Path(trace).open() as file:
        if "trace_files" in named:
            assert "trace_files" in refused(cli("-", *outputs, stdin=file))
    assert Path(trace).read_text() == before


def test_a_device_may_serve_twice(cli: Cli) -> None:
    assert cli(*TINY, "--report-json", "/dev/null", "--report-jsonl", "/dev/null").returncode == 0


def test_standard_output_goes_by_its_device_name(cli: Cli, folder: Path) -> None:
    done = cli(*TINY, "--report-json", "/dev/stdout", "--report-jsonl", "/dev/stdout")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count('"uuid"') == 5
    assert '\n  "num_requests": 5,\n' in done.stdout
    for flag in ("--report-json", "--report-jsonl"):
        assert f"{flag}: cannot write '-': for standard output use /dev/stdout" in refused(cli(*TINY, flag, "-"))
    assert list(folder.iterdir()) == []


def test_rows_cannot_go_to_a_folder(cli: Cli, folder: Path) -> None:
    assert "Is a directory" in refused(cli(*TINY, "--report-jsonl", str(folder)))


def test_the_check_of_a_path_leaves_nothing_behind(cli: Cli, folder: Path) -> None:
    refused(cli(*TINY, "--num-workers", "0", "--report-json", "new/report.json", "--report-jsonl", "other/rows.jsonl"))
    assert list(folder.iterdir()) == []


def test_rows_of_a_synthetic_run(cli: Cli, folder: Path) -> None:
    assert cli(*TINY, "--report-jsonl", "rows/out.jsonl").returncode == 0
    rows = [json.loads(line) for line in (folder / "rows/out.jsonl").read_text().splitlines()]
    assert [row["trace_row"] for row in rows] == [0, 1, 2, 3, 4]
    assert {row["terminal_status"] for row in rows} == {"completed"}
    assert os.listdir(folder / "rows") == ["out.jsonl"]


def test_a_warning_goes_to_standard_error(cli: Cli) -> None:
    done = cli(*TINY, "--extra-engine-args", '{"startup_time": 5}')
    assert done.returncode == 0
    assert re.fullmatch(r"warning: .*startup_time.*\n", done.stderr)


def test_two_runs_write_the_same_file_but_for_wall_clock_keys(cli: Cli, folder: Path) -> None:
    reports = []
    for name in ("a.json", "b.json"):
        assert cli(*TINY, "--num-workers", "2", "--report-json", name).returncode == 0
        reports.append(json.loads((folder / name).read_text()))
    assert {key: reports[0][key] for key in reports[0].keys() - WALL_CLOCK} == {
        key: reports[1][key] for key in reports[1].keys() - WALL_CLOCK
    }


def test_standard_input_is_a_trace(cli: Cli, trace: str) -> None:
    text = Path(trace).read_text()
    done = cli("-", "--trace-block-size", "4", input=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert "┃   2.00 ┃" in done.stdout or "┃  2.00 ┃" in done.stdout


# Four requests whose numbers are known.
ROWS = [row(0, 8, 3, [1, 2]), row(10, 8, 2, [3, 4]), row(60, 8, 1, [5, 6]), row(120, 8, 4, [1, 2])]
ROWS_TEXT = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
ROWS_OPTIONS = ["--trace-block-size", "4", "--extra-engine-args", '{"block_size": 4, "num_gpu_blocks": 1000}']
ROWS_DURATION_MS = 143.55331099999995


def report_of(cli: Cli, *arguments: str) -> dict[str, Any]:
    """The report of a run that must succeed without a message."""
    done = cli(*arguments, "--report-json", "report.json")
    assert (done.returncode, done.stderr) == (0, "")
    report: dict[str, Any] = json.loads(Path("report.json").read_text())
    return report


def test_a_limit_of_simulated_time(cli: Cli, folder: Path) -> None:
    Path("rows.jsonl").write_bytes(ROWS_TEXT)
    assert report_of(cli, "rows.jsonl", *ROWS_OPTIONS)["duration_ms"] == ROWS_DURATION_MS
    assert report_of(cli, "rows.jsonl", *ROWS_OPTIONS, "--max-sim-time-seconds", "143")["num_requests"] == 4
    report = report_of(cli, "rows.jsonl", *ROWS_OPTIONS, "--max-sim-time-seconds", "0.07")
    assert (report["duration_ms"], report["completed_requests"]) == (82.47083099999999, 3)


def test_goodput(cli: Cli, folder: Path) -> None:
    Path("rows.jsonl").write_bytes(ROWS_TEXT)
    bounds = ["--sla-ttft-ms", "22.47083099999999", "--sla-itl-ms", "6.0"]
    report = report_of(cli, "rows.jsonl", *ROWS_OPTIONS, *bounds)
    assert report["goodput_completed_requests"] == 2
    assert report["goodput_output_throughput_tok_s"] == pytest.approx(34.8302659490731, rel=1e-12)
    report = report_of(cli, "rows.jsonl", *ROWS_OPTIONS, *bounds, "--sla-e2e-ms", "22.48")
    assert report["goodput_completed_requests"] == 1


def zstd_frame(content: bytes) -> bytes:
    """A zstd file of one uncompressed block: magic number, flags, size; last block of that size."""
    size = len(content)
    return b"\x28\xb5\x2f\xfd\xa0" + size.to_bytes(4, "little") + (size << 3 | 1).to_bytes(3, "little") + content


@pytest.mark.parametrize("compress", [gzip.compress, zstd_frame])
def test_compressed_traces(cli: Cli, folder: Path, compress: Callable[[bytes], bytes]) -> None:
    """They are told by what they hold, so that the name and standard input do not matter."""
    compressed = compress(ROWS_TEXT)
    for name in ("rows.jsonl.gz", "rows.jsonl.zst", "rows"):
        Path(name).write_bytes(compressed)
        assert report_of(cli, name, *ROWS_OPTIONS)["duration_ms"] == ROWS_DURATION_MS
    with Path("rows").open() as file:
        assert cli("-", *ROWS_OPTIONS, stdin=file).returncode == 0
    Path("cut").write_bytes(compressed[:-20])
    assert "cut line" in refused(cli("cut", *ROWS_OPTIONS))


def test_a_line_of_100_megabytes(cli: Cli, folder: Path) -> None:
    Path("long").write_bytes(b'{"a": "' + b"x" * 100_000_000)
    assert "long line 1: longer than" in refused(cli("long"))


PRESSED = ["--input-tokens", "200", "--output-tokens", "40", "--request-count", "20"]


@pytest.mark.parametrize(
    ("options", "engine", "same"),
    [
        ([], {"watermark": 0.0}, True),
        ([], {"watermark": 0.3}, False),
        ([], {"eviction_backend": "lineage"}, True),
        ([], {"eviction_backend": "multi_lru"}, False),
        (["--num-prefix-groups", "3"], {}, True),
        (["--num-prefix-groups", "1"], {}, False),
        (["--num-prefix-groups", "2"], {}, False),
    ],
)
def test_what_matters_when_the_pool_is_small(
    cli: Cli, folder: Path, options: list[str], engine: dict[str, Any], same: bool
) -> None:
    sessions = ["--shared-prefix-ratio", "0.5", "--num-prefix-groups", "3", "--turns-per-session", "3"]
    small = {"num_gpu_blocks": 40, "block_size": 16}
    plain = report_of(cli, *PRESSED, *sessions, "--extra-engine-args", json.dumps(small))
    other = report_of(cli, *PRESSED, *sessions, *options, "--extra-engine-args", json.dumps({**small, **engine}))
    assert (plain["duration_ms"] == other["duration_ms"]) is same


def test_different_numbers_of_prefix_groups_differ(cli: Cli, folder: Path) -> None:
    shared = [*PRESSED, "--shared-prefix-ratio", "0.5", "--extra-engine-args", '{"block_size": 16}']
    one, two = (report_of(cli, *shared, "--num-prefix-groups", groups) for groups in ("1", "2"))
    assert 0 < two["prefix_cache_reused_ratio"] < one["prefix_cache_reused_ratio"]


def test_two_runs_write_the_same_rows(cli: Cli, folder: Path) -> None:
    Path("rows.jsonl").write_bytes(ROWS_TEXT)
    for workload in (["rows.jsonl", *ROWS_OPTIONS], PRESSED):
        for name in ("a.jsonl", "b.jsonl"):
            assert cli(*workload, "--num-workers", "2", "--report-jsonl", name).returncode == 0
        assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()


def test_a_reader_that_stops_early(folder: Path) -> None:
    shell = f'{" ".join(command(*TINY, "--report-json", "report.json"))} | head -n 1; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", shell], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.stdout == "dynosim | LLM Metrics\n0\n"
    assert done.stderr == ""
    assert (folder / "report.json").exists()


def test_a_full_standard_output_is_a_failure(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command(*TINY), cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr == "error: cannot write to standard output: No space left on device\n"


def shell(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Runs text in bash, where $REPLAY is the command."""
    environment = {**os.environ, "REPLAY": " ".join(command())}
    return subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_closed_standard_input_is_no_trace(folder: Path, closed: str) -> None:
    done = shell(folder, f"$REPLAY - --report-json r.json {closed}")
    wanted = "" if "2>" in closed else "error: trace_files: standard input is closed\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", wanted)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_swallow_what_goes_to_them(folder: Path, closed: str) -> None:
    engine = """--extra-engine-args '{"startup_time": 5}'"""
    done = shell(folder, f"$REPLAY {' '.join(TINY)} {engine} --report-json r.json --report-jsonl rows.jsonl {closed}")
    assert done.returncode == 0
    assert ("Metric" in done.stdout) == (closed == "2>&-")
    assert "warning" not in done.stdout
    assert ("warning" in done.stderr) == (closed == ">&-")
    assert json.loads((folder / "r.json").read_text())["num_requests"] == 5
    assert (folder / "rows.jsonl").read_text().count("\n") == 5


@pytest.mark.parametrize("full", ["2>&-", "2>/dev/full"])
def test_a_message_that_nobody_can_read(folder: Path, full: str) -> None:
    done = shell(folder, f"$REPLAY --bad {full}")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_a_deleted_working_directory(folder: Path) -> None:
    gone = f"mkdir gone; cd gone; rmdir ../gone; $REPLAY {' '.join(TINY)}"
    message = refused(shell(folder, gone))
    assert message == "error: --report-json: cannot write to the current folder: No such file or directory\n"
    assert "--report-json" in refused(shell(folder, f"{gone} --report-json here.json"))
    assert shell(folder, f"{gone} --report-json {folder}/there.json").returncode == 0


@pytest.mark.parametrize("option", ["--model-name", "--extra-engine-args", "--report-jsonl", "--trace-format"])
def test_text_that_is_not_utf_8(cli: Cli, option: str) -> None:
    name = "report_jsonl_path" if option == "--report-jsonl" else option[2:].replace("-", "_")
    assert f"{name}: got" in refused(cli(*TINY, option, os.fsdecode(b"\xff")))
    assert "trace_files: got" in refused(cli(os.fsdecode(b"\xff")))


def test_a_message_stays_one_line(cli: Cli) -> None:
    assert "a\\nb\\x1b[31m" in refused(cli("--a\nb\x1b[31m"))


def test_a_missing_core_says_what_to_do(folder: Path) -> None:
    sources = Path(__file__).parents[1] / "python"
    done = subprocess.run(
        command(*TINY, "--report-json", str(folder / "r.json")), cwd=sources, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"error: the compiled core is missing \(.*\); .*outside the source folder\n", done.stderr)


def test_an_environment_for_replays_only(tmp_path: Path) -> None:
    """What `make demo` leaves before `make build`: workers say in one line what is missing, replays run."""
    shutil.copytree(Path(_core.__file__).parents[1], tmp_path / "dynamo", ignore=shutil.ignore_patterns("_live*.so"))
    model = PROJECT / "examples/models/tiny"
    workers = command("--model-path", str(model), "--discovery-backend", "mem", module="dynamo.mocker")
    done = subprocess.run(workers, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(r"^error: [^\n]*built for replays only[^\n]*run make build[^\n]*\n\Z", done.stderr, re.MULTILINE)
    assert "Traceback" not in done.stderr
    assert subprocess.run(command(*TINY), cwd=tmp_path, capture_output=True, timeout=300).returncode == 0


def test_an_encoding_without_box_characters(folder: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command(*TINY), cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "| Metric" in done.stdout
    assert "?" not in done.stdout


def test_what_takes_time_to_load_is_not_imported(folder: Path) -> None:
    check = (
        "import sys; from dynamo.replay.main import main; code = main(sys.argv[1:]);"
        "slow = {'csv', 'dataclasses', 'inspect', 'numpy', 'rich', 'shutil', 'subprocess', 'tempfile'};"
        "print(slow & set(sys.modules), file=sys.stderr)"
    )
    Path("rows.jsonl").write_bytes(ROWS_TEXT)
    for workload in (TINY, ["rows.jsonl", *ROWS_OPTIONS]):
        arguments = [*workload, "--report-jsonl", "out.jsonl"]
        run = [sys.executable, "-c", check, *arguments]
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "set()\n")


def test_the_process_ends_as_python_ends(folder: Path) -> None:
    """It does not take the interpreter apart, but whatever waits for its end hears of it."""
    module = "import runpy; runpy.run_module('dynamo.replay', run_name='__main__', alter_sys=True)"
    after_main = (
        "import threading; main = threading.main_thread();"
        "threading.Thread(target=lambda: (main.join(), print('a thread'))).start()"
    )
    for code, said in (
        (f"import atexit; atexit.register(print, 'at exit'); {module}", "at exit\n"),
        (f"{after_main}; {module}", "a thread\n"),
    ):
        run = [sys.executable, "-c", code, *TINY]
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith(said)
    profiled = [sys.executable, "-m", "cProfile", "-m", "dynamo.replay", *TINY]
    done = subprocess.run(profiled, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0
    assert "function calls" in done.stdout


def test_garbage_is_collected_once_everything_is_imported(folder: Path) -> None:
    look = "import atexit, gc; atexit.register(lambda: print('collects', gc.isenabled(), gc.get_freeze_count() > 0))"
    Path("sitecustomize.py").write_text(look, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command(*TINY), cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("collects True True\n")
