"""A plan's callable: what its instructions get, what it returns, and that it lets go of everything."""

from __future__ import annotations

import ctypes
import gc
import struct
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.plans.clusters import ClusterKernel, cluster_kernel
from extempo.backends.llvm.plans.expressions import of_op
from extempo.backends.llvm.plans.geometry import elementwise_call
from extempo.backends.llvm.plans.runner import PlanCode
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, bool_, float32, float64, int64

from ..guarded import bind

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64))


class Probe:
    """An instruction in Python: notes what it gets."""

    def __init__(self, n_operands, n_meta, status=0):
        self.calls = []

        def note(buffers, meta):
            self.calls.append(([buffers[i] for i in range(n_operands)], [meta[i] for i in range(n_meta)]))
            return status

        self._function = _SIGNATURE(note)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value


def bits(number):
    return struct.unpack("<q", struct.pack("<d", number))[0]


def bytes_in_use():
    gc.collect()
    return native().memory.stats()["bytes_in_use"]


def test_operands_are_inputs_numbers_the_arena_outputs_and_null():
    code, probe = PlanCode(2, (float, int, bool)), Probe(7, 2)
    out = code.output(TensorType((2, 3), float64))
    places = [(0, 0), (1, 8), (code.numbers, 8), (code.arena, 0), (code.arena, 128), (out, 16), (code.null, 0)]
    code.call(probe.address, places, (5, -7))
    run = code.finish(256, [probe])
    x, y = np.zeros(3), np.zeros(3)
    (made,) = run([x, y], [1.5, 2, True])
    (((first, second, numbers, arena, later, there, null), meta),) = probe.calls
    assert (first, second, there, null) == (x.ctypes.data, y.ctypes.data + 8, made.ctypes.data + 16, None)
    assert later - arena == 128
    assert arena % 64 == 0
    assert numbers % 8 == 0
    assert meta == [5, -7]


def test_numbers_lie_side_by_side_as_doubles_integers_and_truths():
    code = PlanCode(0, (float, int, bool, float))
    out = code.output(TensorType((4,), float64))
    code.copy((out, 0), (code.numbers, 0), 32)
    (made,) = code.finish(0, [])([], [1.5, -3, True, 7])
    assert made[0] == 1.5
    assert made.view(np.int64)[1] == -3
    assert made.view(np.int8)[16] == 1
    assert made[3] == 7.0


def test_numbers_reach_the_meta_of_one_run_only():
    code, probe = PlanCode(0, (float, int, bool)), Probe(0, 6)
    code.call(probe.address, [], (1, 0, 0, 0, 0, 9), ((1, 0), (2, 1), (3, 2), (4, 1, "f")))
    code.call(probe.address, [], (1, 2, 3, 4, 5, 6))
    run = code.finish(0, [])
    for number in (0.25, -8.5):
        assert run([], [number, 41, False]) == []
        assert probe.calls.pop(0) == ([], [1, bits(number), 41, 0, bits(41.0), 9])
        assert probe.calls.pop(0) == ([], [1, 2, 3, 4, 5, 6])


def test_a_float_is_not_taken_for_an_integer():
    code = PlanCode(1, (float,))
    with pytest.raises(ValueError, match="expected an int"):
        code.call(1, [], (0,), ((0, 0, "i"),))
    with pytest.raises(ValueError, match="expected an int"):
        code.derived(0, 0, ((0, 4, 3),))


@pytest.mark.parametrize(("numbers", "offset"), [([0, 0], 4), ([2, 0], 2 * 16 + 4), ([1, 3], 16 + 3 * 8 + 4)])
def test_a_derived_base_lies_where_numbers_say(numbers, offset):
    code, probe = PlanCode(1, (int, int)), Probe(2, 0)
    rows = code.derived(0, 4, ((0, 16, 2),))
    both = code.derived(rows, 0, ((1, 8, 3),))
    code.call(probe.address, [(both, 0), (rows, 1)], ())
    x = np.zeros(64, np.uint8)
    assert code.finish(0, [])([x], numbers) == []
    assert probe.calls[0][0] == [x.ctypes.data + offset, x.ctypes.data + 5 + 16 * numbers[0]]


@pytest.mark.parametrize("number", [-1, 3, 2**62, -(2**63)])
def test_a_start_out_of_range_ends_the_run_with_its_step(number):
    code, probe = PlanCode(1, (int,)), Probe(0, 0)
    code.output(TensorType((100,), float32))
    code.derived(0, 0, ((0, 4, 2),), step=17)
    code.call(probe.address, [], ())
    before = bytes_in_use()
    assert code.finish(64, [])([np.zeros(3)], [number]) == 17
    assert not probe.calls
    assert bytes_in_use() == before


def test_outputs_are_new_arrays_of_the_pool():
    types = [TensorType((2, 3), float32), TensorType((), float64), TensorType((0, 4), int64), TensorType((5,), bool_)]
    code = PlanCode(0, ())
    for t in types:
        code.zero((code.output(t), 0), t.numel() * t.dtype.itemsize)
    run = code.finish(0, [])
    before = bytes_in_use()
    first, second = run([], []), run([], [])
    for arrays in (first, second):
        assert [(a.shape, a.dtype, a.flags.c_contiguous, a.flags.writeable) for a in arrays] == [
            (t.shape, t.dtype.numpy, True, True) for t in types
        ]
        assert not any(a.any() for a in arrays)
    assert not any(np.shares_memory(a, b) for a, b in zip(first, second, strict=True))
    del first, second, arrays
    assert bytes_in_use() == before


def test_a_failed_instruction_ends_the_run_and_nothing_is_kept():
    good, bad = Probe(0, 0), Probe(0, 0, status=1)
    code = PlanCode(1, (float,))
    code.output(TensorType((1000,), float32))
    code.output(TensorType((10,), float32))
    code.call(good.address, [], (), step=3)
    code.call(bad.address, [], (), step=5)
    code.call(good.address, [], (), step=6)
    run = code.finish(5000, [good, bad])
    x, number = np.zeros(4), 0.125
    before, counts = bytes_in_use(), (sys.getrefcount(x), sys.getrefcount(number), sys.getrefcount(run.__self__))
    for _ in range(10):
        assert run([x], [number]) == 5
    assert (sys.getrefcount(x), sys.getrefcount(number), sys.getrefcount(run.__self__)) == counts
    assert bytes_in_use() == before
    assert len(good.calls) == 10


def test_a_run_lets_go_of_what_it_held():
    code = PlanCode(1, (int,))
    code.copy((code.output(TensorType((4,), float64)), 0), (0, 0), 32)
    kept = object()
    run = code.finish(100, [kept])
    x, number = np.arange(4.0), 1 << 40
    before, counts = bytes_in_use(), (sys.getrefcount(x), sys.getrefcount(number), sys.getrefcount(run.__self__))
    for _ in range(10):
        (made,) = run([x], [number])
        np.testing.assert_array_equal(made, x)
        assert sys.getrefcount(made) == 2
    del made
    assert (sys.getrefcount(x), sys.getrefcount(number), sys.getrefcount(run.__self__)) == counts
    assert bytes_in_use() == before
    references = sys.getrefcount(kept)
    del run, code
    assert sys.getrefcount(kept) == references - 1


class Refusing:
    def __float__(self):
        raise RuntimeError("not now")

    def __bool__(self):
        raise RuntimeError("not now")


class Emptying:
    """A number whose conversion makes the list of numbers shorter."""

    def __init__(self, numbers):
        self._numbers = numbers

    def __float__(self):
        self._numbers.clear()
        return 1.0


@pytest.mark.parametrize(
    "numbers",
    [
        *([10**400, 1, True], [1.0, 2**63, True], [1.0, "a", True], ["a", 1, True], [1.5, 1.5, 1]),
        *([1.0, 1], [1.0, 1, True, 1]),
    ],
)
def test_numbers_that_the_plan_was_not_built_for_are_left_to_others(numbers):
    run, probe = plan_of_three_numbers()
    before = bytes_in_use()
    assert run([np.zeros(3)], numbers) == -1
    assert not probe.calls
    assert bytes_in_use() == before


@pytest.mark.parametrize("numbers", [[Refusing(), 1, True], [1.0, 1, Refusing()]])
def test_what_a_number_raises_when_it_is_converted_is_raised(numbers):
    run, probe = plan_of_three_numbers()
    before = bytes_in_use()
    with pytest.raises(RuntimeError, match="not now"):
        run([np.zeros(3)], numbers)
    assert not probe.calls
    assert bytes_in_use() == before


def plan_of_three_numbers():
    code, probe = PlanCode(1, (float, int, bool)), Probe(0, 0)
    code.output(TensorType((100,), float32))
    code.call(probe.address, [], ())
    return code.finish(100, []), probe


def test_a_list_that_gets_shorter_while_it_is_read_does_no_harm():
    numbers = []
    numbers += [Emptying(numbers), 1, True]
    code = PlanCode(0, (float, bool, int))
    assert code.finish(0, [])([], numbers) == -1


@pytest.mark.parametrize("arrays", [[], [1.0], [np.zeros(2), np.zeros(2)], [None]])
def test_arrays_that_are_none_are_left_to_others(arrays):
    code = PlanCode(1, ())
    code.output(TensorType((100,), float32))
    assert code.finish(100, [])(arrays, []) == -1
    with pytest.raises(SystemError):
        code.finish(100, [])(None, [])


@pytest.mark.parametrize("too_large", ["arena", "output"])
def test_memory_that_runs_out_is_an_error_and_nothing_is_kept(too_large):
    code = PlanCode(1, ())
    code.output(TensorType((100,), float32))
    if too_large == "output":
        code.output(TensorType((1 << 47,), float32))
    run = code.finish(1 << 50 if too_large == "arena" else 100, [])
    x = np.zeros(3)
    before, count = bytes_in_use(), sys.getrefcount(x)
    with pytest.raises(MemoryError, match="no memory for"):
        run([x], [])
    assert (bytes_in_use(), sys.getrefcount(x)) == (before, count)


def test_instructions_write_only_to_their_place_in_the_arena():
    t = TensorType((3, 5), float32)
    expression = of_op(REGISTRY["exp"], (t,), {})
    kernel = cluster_kernel(ClusterKernel(((expression, (0,)),), (float32,), (0,), "1"))
    address, meta = elementwise_call(kernel, (3, 5), (4, 4), ((20, 4), (20, 4)), 1)
    code, arena_bytes = PlanCode(2, ()), 64 + 60 + 64
    out = code.output(TensorType((arena_bytes,), bool_))
    code.copy((code.arena, 0), (1, 0), arena_bytes)
    code.call(address, [(0, 0), (code.arena, 64)], meta)
    code.copy((out, 0), (code.arena, 0), arena_bytes)
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    (seen,) = code.finish(arena_bytes, [])([x, np.full(arena_bytes, 0xAB, np.uint8)], [])
    seen = seen.view(np.uint8)
    assert (seen[:64] == 0xAB).all()
    assert (seen[124:] == 0xAB).all()
    np.testing.assert_array_equal(seen[64:124].view(np.float32), ex.exp(ex.from_numpy(x)).numpy().reshape(-1))


def test_routines_and_clusters_run_one_after_the_other():
    x = np.random.default_rng(0).normal(size=(6, 10)).astype(np.float32)
    t = TensorType(x.shape, float32)
    bound = bind("softmax", (x,), {"dim": 1})
    expressions = [of_op(REGISTRY["mul"], (t, float), {}), of_op(REGISTRY["tanh"], (t,), {})]
    kernel = cluster_kernel(
        ClusterKernel(((expressions[0], (0, 1)), (expressions[1], (-1,))), (float32, float64), (1,), "10")
    )
    strides = ((40, 4), (0, 0), (40, 4))
    address, meta = elementwise_call(kernel, x.shape, (4, 8, 4), strides, 2)
    code = PlanCode(1, (float,))
    out = code.output(t)
    scratch = [(code.arena, 256)] if bound.scratch else []
    strides_meta = (10, 1) if bound.reads in "ms" else ()
    code.call(bound.address, [(0, 0), (code.arena, 0), *scratch], (*bound.meta, *strides_meta), step=0)
    code.call(address, [(code.arena, 0), (code.numbers, 0), (out, 0)], meta, step=1)
    run = code.finish(256 + bound.scratch, [bound])
    for number in (0.5, -3.0):
        (got,) = run([x], [number])
        want = ex.tanh(ex.softmax(ex.from_numpy(x), 1) * number).numpy()
        assert got.tobytes() == want.tobytes()


@pytest.mark.alone
def test_threads_can_be_within_one_plan():
    n = 1 << 18
    t = TensorType((n,), float32)
    expression = of_op(REGISTRY["mul"], (t, float), {})
    kernel = cluster_kernel(ClusterKernel(((expression, (0, 1)),), (float32, float64), (0,), "10"))
    address, meta = elementwise_call(kernel, (n,), (4, 8, 4), ((4,), (0,), (4,)), 2)
    code = PlanCode(1, (float,))
    out = code.output(t)
    for source, destination in (((0, 0), (code.arena, 0)), ((code.arena, 0), (out, 0))):
        code.call(address, [source, (code.numbers, 0), destination], meta)
    run, failures = code.finish(4 * n, []), []

    def work(number):
        for i in range(20):
            (got,) = run([np.full(n, i, np.float32)], [number])
            if not (got == i * number * number).all():
                failures.append((number, i))

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_rows_of_larger_arrays_are_read_and_written_where_they_lie():
    code, probe = PlanCode(2, ()), Probe(4, 0)
    outs = [code.output(TensorType((2, 3), float32)) for _ in range(2)]
    code.call(probe.address, [(0, 0), (1, 0), *[(out, 0) for out in outs]], ())
    run = code.finish(0, [probe])
    rows, whole, place = np.zeros((9, 5), np.float32), np.zeros((9, 5), np.float32), np.zeros((9, 3), np.float32)
    references = [sys.getrefcount(x) for x in (rows, whole, place)]
    first, second = run([rows, whole], [], [place, None], 4, b"\1\0")
    (((at_row, at_whole, at_place, at_new), _),) = probe.calls
    assert (at_row, at_whole) == (rows.ctypes.data + 4 * 20, whole.ctypes.data)
    assert (at_place, at_new) == (place.ctypes.data + 4 * 12, second.ctypes.data)
    assert first is place
    assert second.shape == (2, 3)
    del first
    assert [sys.getrefcount(x) for x in (rows, whole, place)] == references
    assert run([rows, whole], [], [None], 4, b"\1\0") == -1  # a place for each output
