"""A user's editor knows the types: mypy reads a program full of `assert_type`, and finds a wrong one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

mypy = pytest.importorskip("mypy.api", reason="mypy is not installed: it reads the types")

ROOT = Path(__file__).parents[1]
PROGRAM = Path(__file__).with_name("typed_program.py")


def read_by_mypy(path: Path) -> tuple[str, int]:
    """What mypy says of a file, and its exit status; it keeps what it knows of Extempo for the next time."""
    cache = os.environ.get("MYPY_CACHE_DIR", str(ROOT / ".mypy_cache"))
    told, errors, status = mypy.run([str(path), "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", cache])
    assert not errors
    return told, status


@pytest.mark.slow
def test_results_of_compiled_functions_and_of_methods_have_types(monkeypatch, tmp_path):
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    assert read_by_mypy(PROGRAM)[1] == 0, read_by_mypy(PROGRAM)[0]
    wrong = tmp_path / "wrong.py"
    wrong.write_text(PROGRAM.read_text() + '\nscaled(x, "2")\nassert_type(x.max(1), Tensor)\n')
    told, status = read_by_mypy(wrong)
    assert status == 1
    assert 'Argument 2 to "scaled" has incompatible type "str"; expected "float"' in told
    assert 'Expression is of type "ValuesIndices", not "Tensor"' in told
