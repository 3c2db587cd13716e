"""Routines by name: registered once, built once, and what is large only by expansion."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir.types import f32, f64, i64, ptr
from extempo.backends.llvm.routines import routine as module
from extempo.backends.llvm.routines.routine import (
    ROUTINES,
    SPREAD_FROM,
    build,
    element_of,
    is_spread,
    rounded_up,
    routine,
)
from extempo.core.types import TensorType, float16, float32, float64

from ..guarded import run_address


def test_a_name_is_for_one_routine(monkeypatch):
    monkeypatch.setattr(module, "ROUTINES", {})

    @routine("imagined")
    def bind(types, attrs):
        return None

    assert {"imagined": bind} == module.ROUTINES
    with pytest.raises(TypeError, match="imagined is defined twice"):
        routine("imagined")(bind)


def test_a_function_is_written_when_it_is_first_asked_for(monkeypatch):
    monkeypatch.setattr(module, "_BUILT", {})
    written = []

    def write(m, name):
        written.append(m)
        with m.function(name, i64, buffers=ptr, meta=ptr) as b:
            b.pointer(b.pointer(b.arg("buffers"), ptr)[0], i64)[0] = b.pointer(b.arg("meta"), i64)[1]
            b.ret(7)

    address, out = build("give_seven", write), np.zeros(1, np.int64)
    assert build("give_seven", write) == address
    assert len(written) == 1
    assert run_address(address, [out], (5, 6)) == 7
    assert out[0] == 6


def test_every_op_that_names_a_routine_has_one():
    import extempo.nn.functional  # noqa: F401 - loads the ops that it is made of
    from extempo.core.op import REGISTRY, Routine

    named = {op.lower.name for op in REGISTRY.values() if isinstance(op.lower, Routine)}
    assert named
    assert named <= set(ROUTINES)


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((SPREAD_FROM // 4,), (0,), True),
        ((SPREAD_FROM // 4 - 1,), (0,), False),
        ((SPREAD_FROM,), (4,), False),
        ((2, SPREAD_FROM // 4), (0, 4), True),
        ((1, SPREAD_FROM // 4), (0, 4), False),
        ((0, 5), (0, 0), False),
    ],
)
def test_what_was_expanded_to_a_large_size_is_spread(shape, strides, expected):
    assert is_spread(shape, strides, 4) is expected


def test_elements_are_those_of_floating_tensors():
    assert [element_of(TensorType((2,), d)) for d in (float32, float64, float16)] == [f32, f64, None]
    assert element_of(float) is None


def test_sizes_are_rounded_up_to_a_multiple():
    assert [rounded_up(n, 8) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]
