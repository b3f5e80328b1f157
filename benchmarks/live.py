"""Load on live workers: latency, CPU and memory of one process with many workers, ours and, if given, the reference's.

The client speaks the request plane itself (benchmarks/live), because a frontend would need the processor too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from livetools import make_model

STATUS_PORT = 18999


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", required=True, help="the compiled benchmarks/live")
    parser.add_argument("--reference", help="Python of an environment with ai-dynamo 1.3.1")
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--decode-speedup-ratio", type=float, default=0.12, help="chooses the tokens per second")
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    for name, python in (("dynosim", sys.executable), ("reference", options.reference)):
        if python:
            measure(name, python, options)


def measure(name: str, python: str, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = make_model(folder / "tiny")
        environment = {"DYN_FILE_KV": str(folder / "kv"), "DYN_TCP_RPC_HOST": "127.0.0.1", "DYN_LOG": "error"}
        environment |= {"DYN_SYSTEM_PORT": str(STATUS_PORT), "DYN_SYSTEM_HOST": "127.0.0.1"}
        command = [python, "-m", "dynamo.mocker", "--model-path", str(model), "--discovery-backend", "file"]
        command += ["--num-workers", str(options.workers), "--stagger-delay", "0"]
        command += ["--decode-speedup-ratio", str(options.decode_speedup_ratio)]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
        try:
            client = [options.client, "-discovery", str(folder / "kv"), "-workers", str(options.workers)]
            client += ["-streams", str(options.streams), "-duration", f"{options.seconds}s"]
            run = subprocess.Popen(client, stdout=subprocess.PIPE, text=True)
            time.sleep(1)
            before, began = cpu_seconds(process.pid), time.monotonic()
            output, _ = run.communicate()
            cores = (cpu_seconds(process.pid) - before) / (time.monotonic() - began)
            print_result(name, json.loads(output), cores, memory_mb(process.pid))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def print_result(name: str, seen: dict[str, float], cores: float, memory: float) -> None:
    delay = token_delay_ms()
    shown = "" if delay is None else f"  added latency median <= {delay[0]:g} ms, 99 % <= {delay[1]:g} ms"
    print(
        f"{name:10} {seen['tokens_per_s']:8,.0f} tokens/s  ITL {seen['itl_p50_ms']:.2f} / {seen['itl_p99_ms']:.2f} ms"
        f"  TTFT {seen['ttft_p50_ms']:.1f} / {seen['ttft_p99_ms']:.1f} ms (median / 99 %)"
        f"  {cores:.2f} cores  {memory:.0f} MB{shown}",
        flush=True,
    )


def token_delay_ms() -> tuple[float, float] | None:
    """From the simulated time of a token to the socket, as the workers measure it: upper bounds of median and 99 %."""
    with urllib.request.urlopen(f"http://127.0.0.1:{STATUS_PORT}/metrics", timeout=10) as response:
        text = response.read().decode()
    found = re.findall(r'dynosim_token_delay_seconds_bucket\{le="([^"]+)"\} (\S+)', text)
    if not found:
        return None
    buckets = [(float(le) * 1000, float(count)) for le, count in found]
    total = buckets[-1][1]
    return next(le for le, n in buckets if n >= total / 2), next(le for le, n in buckets if n >= total * 0.99)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


if __name__ == "__main__":
    main()
