"""From a bound routine to a Python callable: what it reads, copies and allocates, and when NumPy runs instead."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.calls.glue import MAX_BUFFERS, MAX_META, callable_of, words_of
from extempo.backends.llvm.ir.types import f64, i64, ptr
from extempo.backends.llvm.routines.routine import Bound, build
from extempo.backends.selection import native
from extempo.core.types import TensorType, float32, float64, int64

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

ROW = TensorType((3,), float64)


def note_meta(n_buffers, n_meta, name):
    """A routine that writes its meta to its last result, and declines if the first number of meta is negative."""

    def write(module, name):
        with module.function(name, i64, buffers=ptr, meta=ptr) as b:
            out, meta = b.pointer(b.pointer(b.arg("buffers"), ptr)[n_buffers - 1], i64), b.pointer(b.arg("meta"), i64)
            for i in range(n_meta):
                out[i] = meta[i]
            with b.if_(meta[0] < 0):
                b.ret(1)
            b.ret(0)

    return build(name, write)


def calling(reads, inputs, meta=(), name="glue_note", zeroed=False, fallback=lambda *args: "numpy"):
    n_meta = len(meta) + sum(len(t.shape) if k in "ms" else k in "fi" for t, k in zip(inputs, reads, strict=True))
    address = note_meta(len(inputs) + 1, n_meta, f"{name}_{len(inputs)}_{n_meta}")
    result = TensorType((n_meta,), int64)
    return callable_of("noted", Bound(address, reads, (result,), meta, zeroed=zeroed), inputs, fallback)


def test_bound_numbers_come_first_then_strides_and_numbers_in_the_order_of_inputs():
    matrix = TensorType((2, 3), float32)
    run = calling("sfi", (matrix, float, int), (10, 11))
    noted = run(np.zeros((4, 6), np.float32)[::2, ::2], 0.5, -7)
    assert noted[[0, 1, 2, 3, 5]].tolist() == [10, 11, 12, 2, -7]
    assert noted[4:5].view(np.float64)[0] == 0.5


def test_a_strided_input_is_read_in_place_and_an_odd_one_is_copied():
    run = calling("m", (TensorType((2, 3), float64),), (1,))
    assert run(np.zeros((2, 3)))[1:].tolist() == [3, 1]
    assert run(np.zeros((3, 2)).T)[1:].tolist() == [1, 2]
    assert run(np.zeros((4, 6))[::2, ::2])[1:].tolist() == [3, 1]  # neither rows nor columns: a copy


@pytest.mark.parametrize(
    "wrong", [np.zeros(3, np.float32), [0.0, 0.0, 0.0], np.zeros(3).view(type("Sub", (np.ndarray,), {}))]
)
def test_an_input_that_is_not_what_was_bound_goes_to_numpy(wrong):
    assert calling("c", (ROW,), (1,))(wrong) == "numpy"


def test_a_routine_that_declines_and_a_wrong_number_of_inputs_go_to_numpy():
    run = calling("ci", (ROW, int), ())
    assert run(np.zeros(3), 5).tolist() == [5]
    assert run(np.zeros(3), -5) == "numpy"
    assert run(np.zeros(3)) == "numpy"
    assert run(np.zeros(3), 2**70) == "numpy"


def test_what_a_number_or_the_fallback_raises_is_raised():
    class Interrupting:
        def __index__(self):
            raise KeyboardInterrupt

    def fails(*args):
        raise ZeroDivisionError

    run = calling("ci", (ROW, int), (), fallback=fails)
    with pytest.raises(KeyboardInterrupt):
        run(np.zeros(3), Interrupting())
    with pytest.raises(ZeroDivisionError):
        run(np.zeros(3), -1)


def test_results_are_new_arrays_several_as_a_tuple_and_zeroed_on_demand():
    def write(module, name):
        with module.function(name, i64, buffers=ptr, meta=ptr) as b:
            b.ret(0)

    bound = Bound(build("glue_nothing", write), "c", (ROW, TensorType((2, 0), float32)), zeroed=True)
    first, second = callable_of("nothing", bound, (ROW,), print)(np.ones(3))
    assert first.tolist() == [0.0] * 3
    assert (second.shape, second.dtype) == ((2, 0), np.float32)


def test_scratch_memory_is_given_to_the_routine():
    def write(module, name):
        with module.function(name, i64, buffers=ptr, meta=ptr) as b:
            buffers = b.pointer(b.arg("buffers"), ptr)
            scratch = b.pointer(buffers[2], f64)
            scratch[99] = b.pointer(buffers[0], f64)[0]
            b.pointer(buffers[1], f64)[0] = scratch[99] * 2.0
            b.ret(0)

    bound = Bound(build("glue_scratch", write), "c", (TensorType((1,), float64),), scratch=800)
    assert callable_of("scratch", bound, (ROW,), print)(np.full(3, 21.0)).tolist() == [42.0]


def test_what_does_not_fit_a_record_is_not_native():
    assert words_of(Bound(1, "c" * MAX_BUFFERS, ()), (ROW,) * MAX_BUFFERS) is None
    assert words_of(Bound(1, "", (), (0,) * (MAX_META + 1)), ()) is None
    assert words_of(Bound(1, "c", ()), (TensorType((1,) * 9, float64),)) is None
    assert callable_of("large", Bound(1, "", (), (2**70,)), (), print) is None
