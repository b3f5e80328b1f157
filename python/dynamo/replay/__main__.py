"""``python -m dynamo.replay``."""

import os
import sys

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
        # What is left in the buffer must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader, `head` for one, has seen enough
            return 0
        return fail(f"cannot write to standard output: {error.strerror}", FAILED)
    return status


if __name__ == "__main__":
    status = run()
    if status == INTERRUPTED:
        os._exit(status)  # without freeing what a big run holds; everything printed is out
    sys.exit(status)
