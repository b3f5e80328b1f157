"""Hooks of the documentation site: links from a page to files of the repository that are not pages.

On GitHub they lead to the file. The site has no such file: with the repository in the environment, as in a workflow,
they lead there; without it the text stays, and the link goes.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Any

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replaces links that leave the folder of the pages."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def replaced(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[3].partition("#")[0]))
        if re.match(r"[a-z]+:|#", found[3]) or target.startswith("docs/"):
            return found[0]
        repository = os.environ.get("GITHUB_REPOSITORY")
        if repository is None:
            return found[2]
        return f"[{found[2]}]({os.environ['GITHUB_SERVER_URL']}/{repository}/blob/main/{target})"

    return LINK.sub(replaced, markdown)
