"""``python -m dynamo.replay``."""

if __name__ == "__main__":
    from dynamo._shell.console import run_process
    from dynamo.replay.main import main

    run_process(main)
