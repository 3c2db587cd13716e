"""The room of programs loads what is asked for: branches and loops do without files and layers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import extempo as ex
from extempo import exporting


def test_importing_extempo_loads_nothing_of_it_and_cond_little():
    code = (
        "import sys, extempo as ex; print([m for m in sys.modules if 'exporting' in m]); ex.cond\n"
        "print([m for m in ('extempo.nn', 'extempo.serialization', 'extempo.exporting.tracer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"


def test_it_has_the_classes_that_users_name():
    assert isinstance(ex.program(lambda x: x * 2, ex.ones(2)), exporting.Program)
    assert exporting.Dim("n").min == 0
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        exporting.nothing  # noqa: B018 - asking is the test
