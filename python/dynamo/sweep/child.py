"""``python -m dynamo.sweep.child``: carries out runs for another process, see ``processes``."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading

from dynamo._start import begin
from dynamo.sweep.simulate import Traces, simulate


def main() -> None:
    """Reads runs from standard input and writes their results to standard output, until the other side is gone."""
    begin()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the results
    runs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(runs,), daemon=True).start()
    traces = Traces()
    while True:
        config, limit_s = json.loads(runs.get())
        output.write(json.dumps(simulate(config, traces, limit_s)).encode() + b"\n")
        output.flush()


def _receive(runs: queue.SimpleQueue[bytes]) -> None:
    """Passes runs on. When the other side has closed its end, the process ends, even in the middle of a run."""
    for line in sys.stdin.buffer:
        runs.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
