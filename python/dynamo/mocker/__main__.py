"""``python -m dynamo.mocker``."""

import os

INTERRUPTED = 130


def main() -> int:
    from dynamo.mocker.main import main

    return main()


if __name__ == "__main__":
    try:
        from dynamo.replay.console import run_process
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    run_process(main)
