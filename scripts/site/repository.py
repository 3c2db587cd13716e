"""Pages of the site that are files at the root of the repository: the readme is its home page.

Links are mended here, those of pages in docs/ too: what is a page of the site is linked as such, any other file of the
repository as a view of its source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from scripts.site import source

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}


def _address(target: str) -> str:
    """Where the site has a file of the repository."""
    if target in PAGES:
        return PAGES[target]
    return target.removeprefix("docs/") if target.startswith("docs/") else source.link(target)


def relink(text: str, folder: str, page: str) -> str:
    """A page's text with links relative to that folder of the repository made links from that page of the site."""

    def mended(found: re.Match[str]) -> str:
        path, anchor = found[1], found[2] or ""
        target = os.path.normpath(PurePosixPath(folder, path)).replace(os.sep, "/")
        if not (ROOT / target).exists():  # code that looks like a link; MkDocs finds links that lead nowhere
            return found[0]
        return f"]({os.path.relpath(_address(target), PurePosixPath(page).parent)}{anchor})"

    return re.sub(r"\]\(([^()#:\s]+)(#[^()\s]*)?\)", mended, text)


def pages() -> Iterator[tuple[str, str]]:
    for name, page in PAGES.items():
        yield page, relink((ROOT / name).read_text(), ".", page)
    for path in (ROOT / "docs").rglob("*.md"):
        relink(path.read_text(), "docs", path.name)  # notes the files that need a view
