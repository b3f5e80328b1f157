"""``python -m dynamo.replay.diff``."""

from dynamo._shell.console import run_process
from dynamo.replay.diff.main import main

if __name__ == "__main__":
    run_process(main)
