"""``python -m dynamo.mocker``."""

if __name__ == "__main__":
    from dynamo._shell.console import run_process
    from dynamo.mocker.main import main

    run_process(main)
