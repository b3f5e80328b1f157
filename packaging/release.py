"""Says whether the tag of a release, the version in the sources and CHANGELOG.md agree.

python packaging/release.py v1.2.3
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# https://semver.org, without build metadata
TAG = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")


def version() -> str:
    """The version in the sources."""
    found: str = runpy.run_path(str(ROOT / "python/dynamo/_core/version.py"))["VERSION"]
    return found


def fault(tag: str, version: str, changelog: str) -> str:
    """What does not agree; "" if all does."""
    if not TAG.fullmatch(tag):
        return f"TAG: got {tag!r}, want v and a version such as v1.2.3"
    if tag != f"v{version}":
        return f"TAG: got {tag!r}, want v{version}, the version in python/dynamo/_core/version.py"
    if not re.search(rf"^## \[?{re.escape(version)}\]? - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        return f"CHANGELOG.md: want a section '## {version} - YYYY-MM-DD'"
    return ""


def main(tag: str) -> int:
    found = fault(tag, version(), (ROOT / "CHANGELOG.md").read_text())
    print(f"error: {found}" if found else f"{tag} agrees with version.py and CHANGELOG.md", file=sys.stderr)
    return 2 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or [""]))
