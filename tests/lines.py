"""Fails if a line of Go in these folders has more than 120 characters; a tab counts as one. Ruff does it for Python."""

import sys
from pathlib import Path

LIMIT = 120


def main() -> int:
    """Prints the lines that are too long, and returns the exit code."""
    found = 0
    for path in sorted(path for folder in sys.argv[1:] for path in Path(folder).rglob("*.go")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > LIMIT:
                print(f"{path}:{number}: {len(line)} characters, want at most {LIMIT}")
                found += 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
