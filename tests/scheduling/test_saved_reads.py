"""What gradients read, and so what has to be kept."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import extempo as ex
from extempo.backends.selection import native
from extempo.scheduling.request import reads

from .taping import base_of, draw, record

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

F = ex.nn.functional


def test_reads_are_what_gradients_need():
    tape, _ = record(lambda x, w: F.layer_norm(x.tanh() @ w, (3,)), [draw(5, 4), draw(4, 3)])
    tanh, matmul, norm = tape.steps
    assert reads(tanh) == (0,)
    assert set(reads(matmul)) == {0, -2}
    assert base_of(tape, matmul.refs[0]) == 0
    assert set(reads(norm)) == {matmul.place, norm.place + 1, norm.place + 2}
