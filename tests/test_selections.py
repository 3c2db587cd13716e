"""What `pytest` runs by itself: the lists name what is there, and processes are used where they are worth it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import extempo

from . import selections
from .selections import QUICK, SLOW, TESTS, TINY, are_named_one_by_one, is_among, n_processes

ROOT = TESTS.parent
# Rooms that only lead on to others, or that `pytest -m tiny` cannot do without anyway.
WITHOUT_A_SMOKE_TEST = {"cpu", "cuda", "utils"}


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("entry", sorted(SLOW | TINY))
def test_every_entry_is_a_file_or_a_test_that_is_there(entry):
    name, _, function = entry.partition("::")
    path = ROOT / name
    assert path.is_file(), f"{name} is gone: take it out of tests/selections.py, or give its new name"
    found = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
    assert not function or function in found, (
        f"{entry} is gone: take it out of tests/selections.py, or give its new name"
    )


def test_no_test_is_slow_and_tiny():
    assert not SLOW & TINY
    assert not {entry.partition("::")[0] for entry in SLOW} & TINY


def test_every_room_is_among_the_tiny_tests():
    rooms = {path.parent.name for path in Path(extempo.__file__).parent.glob("*/__init__.py")}
    touched = {Path(entry).parts[1] for entry in TINY}
    assert rooms - touched - WITHOUT_A_SMOKE_TEST == set()


def test_an_entry_means_its_tests_with_all_parameters():
    chosen = frozenset({"tests/a.py", "tests/b.py::test_one"})
    assert is_among("tests/a.py::test_any[3-x]", chosen)
    assert is_among("tests/b.py::test_one[a::b]", chosen)
    assert not is_among("tests/b.py::test_one_more", chosen)


def test_the_default_of_dash_m_is_the_one_that_the_hooks_know():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    assert options[options.index("-m") + 1] == QUICK


def test_everything_and_large_directories_run_in_as_many_processes_as_there_are_cores():
    assert n_processes(["tests"], QUICK, 2) == 2
    assert n_processes(["tests/ops"], QUICK, 4) == 4
    assert n_processes(["tests"], QUICK, 64) == selections.MOST_PROCESSES
    assert n_processes(["tests"], QUICK, 1) == 0


@pytest.mark.parametrize(
    "arguments", [["tests/signal"], ["tests/test_tiny.py"], ["tests/test_tiny.py::test_a", "tests/amp"]]
)
def test_few_files_run_in_this_process(arguments):
    assert n_processes(arguments, QUICK, 2) == 0


@pytest.mark.parametrize("expression", ["", "alone", "tiny", "slow"])
def test_what_may_have_to_run_alone_runs_in_this_process(expression):
    assert n_processes(["tests"], expression, 2) == 0


def test_files_and_tests_that_are_named_run_as_they_are_and_directories_without_what_is_slow():
    assert are_named_one_by_one(["tests/test_tiny.py", "tests/cli/test_main.py::test_x"])
    assert not are_named_one_by_one(["tests/test_tiny.py", "tests/cli"])


def test_the_badge_says_no_more_tests_than_there_are(request):
    if request.config.args != request.config.getini("testpaths") or request.config.option.markexpr == "tiny":
        pytest.skip("tests are counted where all are collected")
    said = re.search(r"tests: ([\d,]+)\+", (ROOT / "docs" / "pictures" / "tests.svg").read_text())
    assert int(said[1].replace(",", "")) <= request.config.stash[selections.N_COLLECTED]
