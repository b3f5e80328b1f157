"""``python -m dynamo.replay``."""

import os
import sys
from typing import TextIO

INTERRUPTED = 130


def run() -> int:
    try:
        from dynamo.replay.main import FAILED, fail, main

        status = main()
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:  # of standard output; the report file has been written before it
        _discard(sys.stdout)
        if isinstance(error, BrokenPipeError):  # the reader, `head` for one, has seen enough
            return 0
        return fail(f"cannot write to standard output: {error.strerror}", FAILED)
    return status


def _discard(stream: TextIO) -> None:
    """What is left in the buffer of a stream that cannot be written must not fail once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _flush_errors() -> None:
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except OSError:
            _discard(sys.stderr)


if __name__ == "__main__":
    status = run()
    _flush_errors()
    if status == INTERRUPTED:
        os._exit(status)  # without freeing what a big run holds; everything printed is out
    sys.exit(status)
