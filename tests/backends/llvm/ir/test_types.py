"""The types of LLVM values, and how constants of them are written."""

import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.ir import types
from extempo.backends.selection import native

from ..at_once import at_once

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


@pytest.mark.alone
def test_a_vector_type_asked_for_by_two_threads_at_once_is_one_object(monkeypatch):
    meeting = threading.Barrier(2, timeout=10)

    def make(*fields, plain=types.Type):
        meeting.wait()
        return plain(*fields)

    monkeypatch.setattr(types, "Type", make)
    first, second = at_once(lambda: types.vector(types.f64, 37))
    assert first is second


def test_a_type_knows_the_bytes_of_a_lane_its_lanes_and_a_name_for_symbols():
    pair = types.vector(types.f32, 4)
    assert (pair.nbytes, pair.lanes, pair.lane, pair.text) == (4, 4, types.f32, "<4 x float>")
    assert types.vector(types.f32, 4) is pair
    assert types.with_lanes(types.i32, 1) is types.i32
    assert types.with_lanes(types.i32, 4) is types.vector(types.i32, 4)
    assert [t.suffix for t in (types.f32, types.f64, types.i8, types.i64)] == ["f32", "f64", "i8", "i64"]


@pytest.mark.parametrize("value", [2.0**128, -(2.0**200), 1e39])
def test_a_float_constant_beyond_float32_is_an_infinity(value):
    assert types.literal(types.f32, value) == types.literal(types.f32, np.copysign(np.inf, value))


def test_integers_of_any_size_are_written_as_they_are():
    assert types.literal(types.i64, -(2**63)) == str(-(2**63))
    assert types.literal(types.i1, 0) == "false"
    assert types.literal(types.ptr, 0) == "null"
