"""The gallery has a page for every example, with the picture and the output that running it gave."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def load() -> Any:
    """Imports a module of scripts/."""
    paths = [str(ROOT), str(ROOT / "scripts")]
    sys.path[:0] = paths
    yield importlib.import_module
    for path in paths:
        sys.path.remove(path)


def test_every_example_has_a_page_and_stands_in_the_overview(load):
    pages = dict(load("scripts.site.gallery").pages())
    assert set(pages) == {"gallery/index.md", *(f"gallery/{name}.md" for name in NAMES)}
    for name in NAMES:
        assert f"]({name}.md)" in pages["gallery/index.md"]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_picture_output_code_and_guides(load, name):
    page = dict(load("scripts.site.gallery").pages())[f"gallery/{name}.md"]
    assert f"]({name}.svg)" in page
    assert (ROOT / "docs" / "gallery" / f"{name}.txt").read_text() in page
    assert "\ndef main(" in page
    assert "What it uses: [" in page


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_a_small_svg_that_has_a_title(name):
    path = ROOT / "docs" / "gallery" / f"{name}.svg"
    assert path.stat().st_size < 50_000
    root = ElementTree.fromstring(path.read_text())
    assert root.find("{http://www.w3.org/2000/svg}title").text


def test_there_is_a_picture_for_every_example(load):
    assert set(load("gallery_pictures").DRAWN_BY) == set(NAMES)


def test_an_example_that_has_changed_is_noticed(load, tmp_path, monkeypatch):
    script = load("make_gallery")
    assert script.stale() == []
    changed = tmp_path / "vae.py"
    changed.write_text("# other code")
    monkeypatch.setitem(script.EXAMPLES, "vae", changed)
    assert script.stale() == ["vae"]


def test_runs_are_stretches_of_equal_values(load):
    assert list(load("gallery_pictures").runs([0, 0, 1, 0])) == [(0, 0, 2), (1, 2, 1), (0, 3, 1)]


def test_a_picture_is_drawn_from_the_model_that_the_example_trained(load):
    printed, picture = load("make_gallery").run("shift_reduce")
    assert "200 held-out expressions are parsed right in the end" in printed
    assert "trained: right" in picture
