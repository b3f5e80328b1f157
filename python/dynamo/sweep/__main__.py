"""``python -m dynamo.sweep``."""

from dynamo._shell.console import run_process
from dynamo.sweep.main import main

if __name__ == "__main__":
    run_process(main)
