"""Hooks of the documentation site: pages that mkdocs.yml does not list, links to files, the playground.

On GitHub they lead to the file. The site has no such file: with the repository in the environment, as in a workflow,
they lead there; without it the text stays, and the link goes.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

PLAYGROUND = Path(__file__).parents[2] / "build" / "playground"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_config(config: Any, **_: Any) -> None:
    """Puts pages that mkdocs.yml does not list after those of "How to"."""
    folder = Path(config.docs_dir)
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    (guides,) = [section["How to"] for section in config.nav if "How to" in section]
    guides += sorted(pages - listed(config.nav))


def on_post_build(config: Any, **_: Any) -> None:
    """Adds the playground below its page, if it has been built."""
    if PLAYGROUND.exists():
        shutil.copytree(PLAYGROUND, Path(config.site_dir) / "playground" / "app", dirs_exist_ok=True)


def listed(nav: Any) -> set[str]:
    """The files that a part of the navigation names."""
    if isinstance(nav, str):
        return {nav}
    parts = nav.values() if isinstance(nav, dict) else nav
    return set().union(*map(listed, parts))


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
