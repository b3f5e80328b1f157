"""``python -m dynamo.replay``."""

import os
import sys


def run() -> int:
    try:
        from dynamo.replay.main import FAILED, main

        status = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # of standard output; the report file has been written before it
        # What is left in the buffer must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader, `head` for one, has seen enough
            return 0
        print(f"error: cannot write to standard output: {error.strerror}", file=sys.stderr)
        return FAILED
    return status


if __name__ == "__main__":
    sys.exit(run())
