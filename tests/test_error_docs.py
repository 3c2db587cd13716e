"""The page of errors shows, for every exception, lines that raise it and lines that do not."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import extempo as ex

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture(scope="module")
def load() -> Any:
    """Imports a module of scripts/."""
    sys.path.insert(0, str(SCRIPTS))
    yield importlib.import_module
    sys.path.remove(str(SCRIPTS))


def test_every_exception_has_its_mistake(load):
    named = {cls.__name__ for cls in load("make_error_docs").exceptions()}
    assert ex.errors.ShapeError.__name__ in named
    assert named <= set(load("error_examples").MISTAKES)


def test_a_message_names_the_file_of_the_reader(load):
    raised = load("error_examples").run('import extempo as ex\n\nex.load("nothing.ex")\n')
    assert isinstance(raised.error, FileNotFoundError)
    assert "'nothing.ex'" in raised.message


def test_lines_that_work_raise_nothing(load):
    assert load("error_examples").run("x = 1\n") is None


def test_a_mistake_that_raises_something_else_is_noticed(load, monkeypatch):
    docs, examples = load("make_error_docs"), load("error_examples")
    monkeypatch.setitem(examples.MISTAKES, "ShapeError", examples.Mistake("1 / 0", "1 / 1"))
    with pytest.raises(TypeError, match=r"the lines for ShapeError give .*ZeroDivisionError"):
        docs.section(ex.errors.ShapeError)
