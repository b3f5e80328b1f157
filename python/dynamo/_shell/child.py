"""``python -m dynamo._shell.child``: does work for another process, see ``processes``."""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from typing import Any


def main() -> None:
    """Reads work from standard input and writes what comes out to standard output, until the other side is gone."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the results
    pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pieces,), daemon=True).start()
    while True:
        work, piece = pickle.loads(pieces.get())
        output.write(_answer(work, piece))
        output.flush()


def _answer(work: Any, piece: Any) -> bytes:
    try:
        return pickle.dumps((False, work(piece)))
    except Exception as error:
        try:
            return pickle.dumps((True, error))
        except Exception:  # some exceptions cannot be sent
            return pickle.dumps((True, RuntimeError(f"{type(error).__name__}: {error}")))


def _receive(pieces: queue.SimpleQueue[Any]) -> None:
    """Passes work on. When the other side has closed its end, the process ends, even in the middle of some."""
    while size := sys.stdin.buffer.read(8):
        pieces.put(sys.stdin.buffer.read(int.from_bytes(size, "big")))
    os._exit(0)


if __name__ == "__main__":
    main()
