"""Runs the Python blocks of a page one after the other, as one session: each line of the input is the path of a block.

What a block prints goes to files beside it. The answer is a line "done" for each; the first error ends the session.
"""

import os
import sys
import types
from pathlib import Path


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    # A module of its own, so that blocks see nothing of this file, and processes that they spawn do not run it again.
    session = types.ModuleType("__main__")
    sys.modules["__main__"] = session
    for line in sys.stdin:
        path = line.strip()
        for number, ending in ((1, "out"), (2, "err")):
            file = os.open(f"{path}.{ending}", os.O_WRONLY | os.O_CREAT)
            os.dup2(file, number)
            os.close(file)
        exec(compile(Path(path).read_text(), path, "exec"), session.__dict__)
        sys.stdout.flush()
        sys.stderr.flush()
        print("done", file=answers, flush=True)


if __name__ == "__main__":
    main()
