"""The names of the package, each loaded when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from extempo import serialization


def test_every_public_name_is_there():
    for name in serialization.__all__:
        assert getattr(serialization, name) is not None


def test_a_misspelt_name_gets_the_nearest_one():
    with pytest.raises(AttributeError, match="safe_globals"):
        _ = serialization.safe_global


def test_a_file_of_plain_values_is_read_without_the_rooms_of_classes(tmp_path):
    code = f"""
import sys
import extempo as ex
file = {str(tmp_path / "m.extempo")!r}
if len(sys.argv) > 1:
    assert ex.load_program(file)(ex.ones(2)).tolist() == [2.0, 2.0]
    assert not [n for n in ("nn", "optim", "data") if f"extempo.{{n}}" in sys.modules]
else:
    ex.program(lambda x: x * ex.full((1,), 2.0), ex.ones(3), dynamic={{"x": {{0: "n"}}}}).save(file)
"""
    for more in ([], ["read"]):
        done = subprocess.run([sys.executable, "-c", code, *more], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
