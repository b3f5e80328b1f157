"""``python -m dynamo.validate``."""

if __name__ == "__main__":
    from dynamo._shell.console import run_process
    from dynamo.validate.main import main

    run_process(main)
