"""``python -m dynamo.calibrate``."""

if __name__ == "__main__":
    from dynamo._shell.console import run_process
    from dynamo.calibrate.main import main

    run_process(main)
