"""Says whether the tag of a release, the version that it gives, CHANGELOG.md and CITATION.cff agree.

python packaging/release.py v1.2.3 1.2.3
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]
# https://semver.org, without build metadata
TAG = re.compile(r"v((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?)")


def fault(tag: str, found: str, changelog: str, citation: str) -> str:
    """What does not agree; "" if all does. ``found`` is the version that a build of this commit gets."""
    match = TAG.fullmatch(tag)
    try:
        wanted = Version(match[1]) if match else None
    except InvalidVersion:  # a pre-release that packages for Python cannot have
        wanted = None
    if match is None or wanted is None:
        return f"TAG: got {tag!r}, want v and a version such as v1.2.3 or v1.2.3-rc.1"
    if Version(found) != wanted:
        return f"TAG: got {tag!r}, but this commit is version {found}; commit everything, then git tag {tag}"
    version = match[1]
    if not re.search(rf"^## \[?{re.escape(version)}\]? - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        return f"CHANGELOG.md: want a section '## {version} - YYYY-MM-DD'"
    if f"\nversion: {version}\n" not in citation:
        return f"CITATION.cff: want 'version: {version}'"
    return ""


def main(tag: str = "", found: str = "0.0.0+unknown") -> int:
    said = fault(tag, found, (ROOT / "CHANGELOG.md").read_text(), (ROOT / "CITATION.cff").read_text())
    print(f"error: {said}" if said else f"{tag} agrees with CHANGELOG.md and CITATION.cff", file=sys.stderr)
    return 2 if said else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
