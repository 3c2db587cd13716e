"""The source of the library as pages of the site, so that "source" leads somewhere without a network.

Only files that something links to get a page: `link` notes them, and `pages`, which comes after all who link, makes
them: plain HTML, each line with an anchor.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

ROOT = Path(__file__).parents[2]

_linked: set[str] = set()


def link(path: str, line: int | None = None) -> str:
    """The address under docs/ of the page of a file or folder of the repository, at that line."""
    path = path.strip("/")
    _linked.add(path)
    name = f"source/{path}/index.html" if (ROOT / path).is_dir() else f"source/{path}.html"
    return f"{name}#L-{line}" if line else name


def _files(folder: str) -> list[str]:
    names = sorted(p.name for p in (ROOT / folder).iterdir() if p.is_file() and not p.name.startswith("."))
    return [f"{folder}/{name}" for name in names]


def _page(path: str, content: str) -> str:
    up = "../" * (path.count("/") + 1 + (ROOT / path).is_dir())
    return (
        f"<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>{html.escape(path)}</title>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f'<link rel=stylesheet href="{up}source/style.css"></head>\n'
        f'<body><p><a href="{up}index.html">Extempo</a> / {html.escape(path)}</p>\n{content}</body></html>\n'
    )


def view(path: str) -> str:
    """The page of a file."""
    text = (ROOT / path).read_text()
    try:
        lexer = get_lexer_for_filename(path)
    except ClassNotFound:  # LICENSE, py.typed
        lexer = TextLexer()
    return _page(path, highlight(text, lexer, HtmlFormatter(linenos="inline", linespans="L")))


def _listing(path: str) -> str:
    names = [Path(name).name for name in _files(path)]
    return _page(path, "<ul>" + "".join(f'<li><a href="{name}.html">{name}</a>' for name in names) + "</ul>\n")


def _style() -> str:
    light, dark = (HtmlFormatter(style=name).get_style_defs(".highlight") for name in ("default", "monokai"))
    return (
        "body { font: 15px sans-serif; max-width: 70em; margin: 1em auto; padding: 0 1em; color-scheme: light dark }\n"
        ".highlight pre { font-size: 13px; overflow-x: auto; padding: 1em }\n"
        ".linenos { user-select: none; margin-right: 1em }\n"
        f"{light}\n@media (prefers-color-scheme: dark) {{\nbody {{ background: #1e2129; color: #ddd }}\n{dark}\n}}\n"
        "pre span:target { background: rgba(255, 190, 0, 0.25); scroll-margin-top: 6em }\n"
    )


def pages() -> Iterator[tuple[str, str]]:
    folders = {path for path in _linked if (ROOT / path).is_dir()}
    for folder in sorted(folders):
        yield link(folder), _listing(folder)
    files = (_linked - folders).union(*(_files(folder) for folder in folders))
    for path in sorted(files):
        yield link(path), view(path)
    yield "source/style.css", _style()
