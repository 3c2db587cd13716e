"""python -m scripts.site.check_links site/    exit with 1 if a built page links to nothing, or loads from another host

Reads the HTML as it is served: links, anchors, pictures, scripts and styles. MkDocs checks the links of its own pages;
this also sees what themes and generators write.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}
LOADING = {"img", "script", "link", "source", "iframe"}
NO_LOAD = {"canonical", "prev", "next"}  # links of the head that only say something


class Link(NamedTuple):
    tag: str
    target: str
    loads: bool


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[Link] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.update(value for key in ("id", "name") if (value := given.get(key)))
        target = given.get(LINKS.get(tag, ""))
        if target:
            self.links.append(Link(tag, target, tag in LOADING and given.get("rel") not in NO_LOAD))


def _read(path: Path) -> _Reader:
    reader = _Reader()
    reader.feed(path.read_text())
    return reader


def problems(folder: Path) -> list[str]:
    """What is wrong with the links of the site in that folder."""
    read = {path.resolve(): _read(path) for path in sorted(folder.rglob("*.html"))}
    found = [] if read else [f"{folder} has no pages"]
    for path, reader in read.items():
        if path.name == "404.html":  # its links are absolute: a server shows it at any address
            continue
        for link in reader.links:
            wrong = _wrong(path, link, read)
            if wrong:
                found.append(f"{path.relative_to(folder.resolve())}: <{link.tag}> {link.target}: {wrong}")
    return found


def _wrong(path: Path, link: Link, read: dict[Path, _Reader]) -> str:
    parts = urlsplit(link.target)
    if parts.scheme or parts.netloc:
        return "is loaded from another host" if link.loads and parts.scheme != "data" else ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return "leads to no file"
    if parts.fragment and target in read and unquote(parts.fragment) not in read[target].anchors:
        return "leads to no such place on the page"
    return ""


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print("\n".join(dict.fromkeys(wrong)) or "all links lead somewhere")
    sys.exit(bool(wrong))
