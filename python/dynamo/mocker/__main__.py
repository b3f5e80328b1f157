"""``python -m dynamo.mocker``."""

if __name__ == "__main__":
    from dynamo.mocker.main import main
    from dynamo.replay.console import run_process

    run_process(main)
