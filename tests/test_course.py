"""The course has a page for every lesson, with answers to open and the output of a run of that very lesson."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from extempo import learn

ROOT = Path(__file__).parents[1]
COURSE = ROOT / "docs" / "course"


@pytest.fixture(scope="module")
def pages() -> Any:
    sys.path.insert(0, str(ROOT))
    yield dict(importlib.import_module("scripts.site.course").pages())
    sys.path.remove(str(ROOT))


def test_every_lesson_has_a_page_and_stands_in_the_overview(pages):
    overview = pages.pop("course/index.md") if "course/index.md" in pages else ""
    names = [f"{lesson.number:02}_{lesson.name}.md" for lesson in learn.lessons()]
    assert list(pages) == [f"course/{name}" for name in names]
    for lesson, name in zip(learn.lessons(), names, strict=True):
        assert f"- [{lesson.number}. {lesson.title}]({name})" in overview


def test_a_page_has_the_code_the_answers_with_reasons_and_the_run(pages):
    page = pages["course/01_graph.md"]
    assert '```python linenums="1"\nimport extempo as ex\n' in page
    assert '??? question "b) Three: x, the sum, the product"\n\n    **Right.** A node for the leaf' in page
    assert '??? question "a) One: the whole formula"\n\n    **No.** A formula is no operation.' in page
    assert "    ['leaf', 'add', 'mul']\n" in page
    assert "    Decided by: `len(graph) == 3`" in page
    assert "](01_graph_3_0.svg)" in page


def test_outputs_are_those_of_the_lessons_as_they_are():
    command = [sys.executable, "scripts/make_course.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pictures_are_whole_and_all_of_them_are_shown(pages):
    text = "".join(pages.values())
    for picture in COURSE.glob("*.svg"):
        ElementTree.parse(picture)
        assert f"]({picture.name})" in text


def test_no_output_shows_where_it_was_made():
    for path in COURSE.glob("*.json"):
        assert str(ROOT) not in path.read_text()
        assert "/tmp/" not in path.read_text()
