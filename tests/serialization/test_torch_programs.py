"""Programs written for PyTorch that save and load whole objects print the same under `extempo run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import extempo

pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
pytestmark = pytest.mark.conformance

PROGRAMS = sorted((Path(__file__).parent / "torch_programs").glob("*.py"))


def printed(*command) -> str:
    paths = [str(Path(extempo.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_the_same_as_with_pytorch(program):
    ours = printed("-m", "extempo.run", program)
    assert ours == printed(program)
    assert ours


def test_whole_objects_that_pytorch_saved_go_on_in_extempo(tmp_path):
    program = next(path for path in PROGRAMS if path.stem == "across")
    theirs = printed(program, tmp_path / "model.pt")
    assert printed("-m", "extempo.run", program, tmp_path / "model.pt") == theirs
