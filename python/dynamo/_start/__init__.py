"""While a command of this package is being imported: Ctrl-C means exit code 130 and no traceback, and no garbage is
collected.

The packages of the commands import this module before anything else, if ``python -m`` is about to run one of them.
``console.run_process`` ends this state.
"""

import gc
import os
import sys

_COMMANDS = ("dynamo.replay", "dynamo.mocker", "dynamo.validate", "dynamo.sweep", "dynamo.calibrate")
_INTERRUPTED = 130


def _named() -> str:
    """Returns the module that ``python -m`` is about to run. Until it begins, sys.argv has "-m" in place of its
    path.
    """
    return sys.orig_argv[-len(sys.argv)].removeprefix("-m")


def begin() -> None:
    """Ctrl-C raises KeyboardInterrupt again, as usual: the command handles it. Garbage is collected again."""
    import signal

    if _named_command:
        gc.freeze()  # what has been imported stays
        gc.enable()

    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(_number: int, _frame: object) -> None:
    os._exit(_INTERRUPTED)


def _leave_quietly() -> None:
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _leave)
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)
    except ValueError:  # not in the main thread
        pass


_named_command = sys.argv[:1] == ["-m"] and _named().startswith(_COMMANDS)
if _named_command:
    gc.disable()  # hardly any of what is imported is garbage, and looking for it takes a tenth of the start
    _leave_quietly()
