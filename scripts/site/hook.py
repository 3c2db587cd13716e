"""MkDocs runs this at every build of the site: it adds the pages that generators make to those in docs/.

It also turns links that leave docs/ into links of the site, and a folder in the navigation into the pages in it.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
GENERATORS = ["repository", "reference", "gallery", "torch_names", "plots", "notebooks", "course"]
LAST = "source"  # makes a page of every file that the others link to

_generated: dict[str, str | bytes] = {}


def generate() -> dict[str, str | bytes]:
    """What all generators make, by path."""
    pages: dict[str, str | bytes] = {}
    for name in [*GENERATORS, LAST]:
        if find_spec(f"scripts.site.{name}"):
            for path, content in importlib.import_module(f"scripts.site.{name}").pages():
                assert path not in pages, f"{path} is generated twice"
                pages[path] = content
    return pages


def unfold(nav: Any) -> Any:
    """The navigation with each folder replaced by the generated pages in it."""
    if isinstance(nav, list):
        return [unfold(entry) for entry in nav]
    if isinstance(nav, dict):
        return {title: unfold(entry) for title, entry in nav.items()}
    if nav.endswith("/"):
        return [path for path in _generated if path.startswith(nav) and path.endswith(".md")]
    return nav


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    if str(ROOT) not in sys.path:  # MkDocs takes back what a hook does to the path while it is imported
        sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    _generated.clear()
    _generated.update(generate())
    config.nav = unfold(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, content in _generated.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.src_uri in _generated:
        return markdown
    from scripts.site.repository import relink

    return relink(markdown, "docs", page.file.src_uri)
