"""A few hundred lines of random programs, the same ones each time, agree with PyTorch and with themselves."""

from __future__ import annotations

import os

import pytest

from .apart import texts_of

torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")

N_PROGRAMS, N_GROUPS = 40, 2

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each program gets a fork")


@pytest.mark.parametrize("group", range(N_GROUPS))
def test_random_programs_mean_what_they_mean_in_pytorch(group):
    assert texts_of("programs", "failures_in", 0, list(range(group, N_PROGRAMS, N_GROUPS))) == ""


def test_a_wrong_value_is_told():
    from . import programs

    program = programs.Program((programs.Leaf("float32", (2,), "plain", True, (0, 0, 0)),), ("v1 = v0 * 2.0",), ("v1",))
    theirs = programs.observe(torch, program, program.function(torch))
    double = [(dtype, 2 * array, strides) for dtype, array, strides in theirs.values]
    assert list(programs._apart("value", theirs.values, theirs.values, theirs.values, 1e-7)) == []
    (text,) = programs._apart("value", double, theirs.values, theirs.values, 1e-7)
    assert text.startswith("value 0: float32[2]")
