"""Elementwise kernels on arrays of any layout: against NumPy, and without touching a byte that is not theirs."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import extempo as ex
from extempo.backends.llvm.elementwise import kernels, loops
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32, from_numpy_dtype

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

SENTINEL = 0xA5


def refuse(*arrays):
    raise AssertionError("the kernel declined")


def kernel(name, *arrays):
    types = tuple(
        TensorType(a.shape, from_numpy_dtype(a.dtype)) if isinstance(a, np.ndarray) else type(a) for a in arrays
    )
    made = kernels.of_op(REGISTRY[name], types, {})
    assert made is not None
    return made


def call(name, *arrays):
    return kernel(name, *arrays).callable(refuse)(*arrays)


@st.composite
def layouts(draw, n_arrays=2, dtype=np.float32):
    """Arrays that broadcast together, each with strides of its own: permuted, stepped, reversed, expanded."""
    ndim = draw(st.integers(0, 4))
    shape = [draw(st.sampled_from([0, 1, 2, 3, 5, 8, 9, 17])) for _ in range(ndim)]
    made = []
    for k in range(n_arrays):
        lead = draw(st.integers(0, ndim)) if k else 0
        own = [size if draw(st.integers(0, 3)) else 1 for size in shape[lead:]]
        order = draw(st.permutations(range(len(own))))
        steps = [draw(st.sampled_from([1, 1, 2, -1])) for _ in own]
        base = np.random.default_rng(draw(st.integers(0, 99))).normal(size=[own[i] * abs(steps[i]) for i in order])
        array = base.astype(dtype).transpose(np.argsort(order)) if own else base.astype(dtype)
        made.append(array[tuple(slice(None, None, step) for step in steps)] if own else array)
    return made


@settings(max_examples=150, deadline=None)
@given(layouts())
def test_any_layout_gives_what_numpy_gives(arrays):
    a, b = arrays
    np.testing.assert_array_equal(call("mul", a, b), a * b)


@settings(max_examples=60, deadline=None)
@given(layouts(3, np.float64))
def test_three_operands_and_a_condition(arrays):
    a, b, c = arrays
    np.testing.assert_array_equal(call("where", np.asarray(a > 0), b, c), np.where(a > 0, b, c))


@settings(max_examples=60, deadline=None)
@given(layouts(2, np.int64))
def test_integers(arrays):
    a, b = arrays
    np.testing.assert_array_equal(call("add", a, b), a + b)


def test_numbers_take_the_dtype_of_the_array():
    x = np.arange(5, dtype=np.float32)
    assert call("add", x, 0.1).dtype == np.float32
    np.testing.assert_array_equal(call("add", x, 0.1), x + np.float32(0.1))
    np.testing.assert_array_equal(call("sub", 3, x), 3 - x)


@pytest.mark.parametrize("name", ["add", "exp", "gt"])
@pytest.mark.parametrize("n", [0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 64, 65])
def test_a_fresh_result_is_not_written_beyond_its_end(name, n):
    x = np.linspace(-1, 1, n, dtype=np.float32)
    arrays = (x, x) if name != "exp" else (x,)
    run = kernel(name, *arrays).callable(refuse)
    probe = run(*arrays)
    block = block_of(probe)
    ctypes.memset(block[0], SENTINEL, block[1])
    del probe
    out = run(*arrays)  # the pool hands out the block that was just freed
    assert block_of(out)[0] == block[0]
    rest = (ctypes.c_uint8 * (block[1] - out.nbytes)).from_address(block[0] + out.nbytes)
    assert bytes(rest) == bytes([SENTINEL]) * len(rest)


def parts(n):
    """Of an array of (40, 48): rows, a row, a column, every other element, nothing."""
    return (np.s_[:, :n], np.s_[5, :n], np.s_[:n, 3], np.s_[::2, : 2 * n : 2], np.s_[3, :0])


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "erfc", "atan2"])
@pytest.mark.parametrize("d", [np.float32, np.float64])
def test_the_last_elements_of_a_row_have_the_bits_of_all_others(name, d):
    """Long code is written once, and elements that do not fill all lanes take a way of their own through it."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(40, 48)).astype(d) for _ in range(2 if name == "atan2" else 1)]
    run = kernel(name, *arrays).callable(refuse)
    whole = run(*arrays)
    for n in range(1, 26):
        for part in parts(n):
            assert np.array_equal(run(*(a[part] for a in arrays)), whole[part])


def test_long_code_has_bools_and_single_values_among_its_operands():
    def body(e, values):
        x, y, chosen = values
        bounded = e.tanh(e.sigmoid(x))
        return [e.gt(bounded, y), e.where(chosen, bounded, y)]

    inputs = [float32, float32, from_numpy_dtype(np.dtype(bool))]
    assert loops.probed(body, inputs).is_long
    run = kernels.ElementwiseKernel("long", body, inputs, [inputs[2], float32]).callable(refuse, as_tuple=True)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(40, 48)).astype(np.float32) for _ in range(2))
    chosen = x > y
    whole = run(x, y, chosen)
    with_one = run(x, y[:, 2:3], chosen)
    for n in range(1, 26):
        for part in parts(n):
            for got, wanted in zip(run(x[part], y[part], chosen[part]), whole, strict=True):
                assert np.array_equal(got, wanted[part])
        for got, wanted in zip(run(x[:, :n], y[:, 2:3], chosen[:, :n]), with_one, strict=True):
            assert np.array_equal(got, wanted[:, :n])


def block_of(array):
    """Address and size of the block of the pool that an array lies in."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    data = ctypes.c_int64.from_address(id(base) + 16).value
    size = ctypes.c_int64.from_address(id(base) + 40).value
    return data, size


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 9), st.integers(0, 19), st.integers(1, 4), st.integers(0, 3))
def test_adding_in_place_leaves_the_surroundings_alone(rows, columns, gap, lead):
    """What backward does with a part of a gradient: the rows of a part lie apart, and between them is not ours."""
    whole = np.full((rows + 2, lead + columns + gap), 7.0, np.float32)
    x = ex.tensor(whole.copy(), requires_grad=True)
    part = x[1 : rows + 1, lead : lead + columns]
    weight = np.random.default_rng(rows).normal(size=part.shape).astype(np.float32)
    ((part * ex.tensor(weight)).sum() + (part * 2.0).sum()).backward()
    expected = np.zeros_like(whole)
    expected[1 : rows + 1, lead : lead + columns] = weight + 2.0
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@pytest.mark.parametrize("shape", [(1 << 18,), (1000, 301), (3, 500, 301), (200_000, 2)])
def test_work_that_is_split_gives_the_same_bits(shape):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=shape).astype(np.float32), rng.normal(size=shape[-1:]).astype(np.float32)
    threads = ex.get_num_threads()
    try:
        results = []
        for n in (1, 2, 3):
            ex.set_num_threads(n)
            results.append((ex.tensor(a) * ex.tensor(b)).numpy())
    finally:
        ex.set_num_threads(threads)
    for result in results:
        np.testing.assert_array_equal(result, a * b)
