"""A C compiler for wheels: that of the package ziglang, without run paths of this machine.

    CC="python packaging/zigcc.py -target x86_64-linux-gnu.2.28"

The Python of this machine asks for a run path to its own library, which is nowhere else.
"""

import os
import sys

# Paths of this machine, and a flag of Debian's Pythons that zig does not know; it makes calls faster, and no more.
_DROPPED = ("-Wl,-rpath", "-L/", "-Wl,-Bsymbolic-functions")


def main(arguments: list[str]) -> None:
    """Becomes the compiler."""
    kept = [argument for argument in arguments if not argument.startswith(_DROPPED)]
    # Debian's pyconfig.h includes one that is there; all else comes from headers of the target, which are found first.
    kept += ["-idirafter", "/usr/include"]
    os.execv(sys.executable, [sys.executable, "-m", "ziglang", "cc", *kept])


if __name__ == "__main__":
    main(sys.argv[1:])
