"""Numbers as native functions of rows read them: lists and arrays, all of them within the limit, or none."""

import ctypes

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.calls.cpython import LARGEST
from extempo.backends.llvm.calls.rows_call import write_numbers
from extempo.backends.llvm.ir.machine import CALLS
from extempo.backends.llvm.ir.types import i64, ptr
from extempo.backends.selection import native

from ..written import inner

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

ARGS = {"o": ptr, "array_type": ptr, "list_type": ptr, "limit": i64, "start": i64, "end": i64, "found": ptr}
read = inner(write_numbers, "numbers", i64, CALLS, **ARGS)


def numbers(o, limit=100, start=0, end=LARGEST):
    """The numbers, and whether memory of their own was taken for them; None where they are declined."""
    found = (ctypes.c_int64 * 3)()
    fits = read(id(o), id(np.ndarray), id(list), limit, start, end, ctypes.addressof(found))
    listed = list((ctypes.c_int64 * found[2]).from_address(found[0])) if fits and found[2] else []
    if found[1]:
        ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(found[1]))
    return (listed, bool(found[1])) if fits else None


def test_a_contiguous_array_is_read_in_place_and_others_are_copied():
    array = np.array([5, 0, 99, 7])
    assert numbers(array) == ([5, 0, 99, 7], False)
    assert numbers(array[::2]) == ([5, 99], True)
    assert numbers([5, 0, 99, 7]) == ([5, 0, 99, 7], True)
    assert numbers(np.empty(0, np.int64)) == ([], False)


def test_a_part_of_an_array_is_cut_at_its_end():
    array = np.arange(6)
    assert numbers(array, start=2, end=4)[0] == [2, 3]
    assert numbers(array, start=4, end=50)[0] == [4, 5]
    assert numbers(array, start=-1) is None
    assert numbers(array, start=7) is None


@pytest.mark.parametrize(
    "wrong", [[100], [-1], [2**70], ["x"], np.array([1], np.int32), np.zeros((1, 1), np.int64), (1,)]
)
def test_whatever_is_no_number_within_the_limit_is_declined(wrong):
    assert numbers(wrong) is None
