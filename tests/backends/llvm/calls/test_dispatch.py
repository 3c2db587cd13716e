"""Native calls survive allocations that fail: they raise MemoryError and leave nothing half done.

Allocations fail only while native code runs, which is loaded before: CPython's own code does not survive it in all
places (a function with a closure that finds no memory for its cells ends the process on 3.12 and 3.13).
"""

import operator
from functools import partial

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import extempo as ex
from extempo.backends.selection import native
from extempo.dispatch.dispatcher import apply

from .no_memory import N_MOMENTS, draw, fails, testcapi

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def again(made):
    """The op that made a tensor as a native call, on other inputs of the same types."""
    return partial(apply, made.grad_fn.op), made.grad_fn.attrs


def of_one_input(fn):
    def program():
        w = draw(4, 4)
        call, attrs = again(fn(w))
        return call, ((w,), attrs)

    return program


def product():
    return operator.mul, (draw(4, 4), draw(4, seed=1))


def matrix_product():
    return operator.matmul, (draw(4, 4), draw(4, 4, seed=1, grad=False))


def row():
    w = draw(4, 4)
    call, attrs = again(w[1])
    return call, ((w, 1), attrs)


def stack_of_twelve():
    rows = tuple(draw(4, seed=k) for k in range(12))  # inputs that need a gradient: a number that is no small one
    call, attrs = again(ex.stack(rows))
    return call, (rows, attrs)


PROGRAMS = {
    "product": product,
    "matrix product": matrix_product,
    "row": row,
    "stack of twelve": stack_of_twelve,
    "softmax": of_one_input(lambda w: w.softmax(1)),
    "sum": of_one_input(lambda w: w.sum(0)),
}


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_op_without_memory_says_so_and_runs_when_there_is_some(name, lasting):
    call, args = PROGRAMS[name]()
    expected = [call(*args) for _ in range(3)][-1].numpy(force=True)
    made = [fails(k, lasting, call, *args) for k in range(N_MOMENTS)]
    assert None in made
    assert made[-1] is not None
    for result in made:
        if result is not None:
            np.testing.assert_array_equal(result.numpy(force=True), expected)
            assert result.grad_fn.line  # can be read
    np.testing.assert_array_equal(call(*args).numpy(force=True), expected)


FAR_DOWN = f"""
def far_down(moment, x):
    {"moment = moment + 0; " * 200}
    set_nomemory(moment, moment + 1)
    try:
        return x * 2.0
    except MemoryError:
        return None
    finally:
        remove_mem_hooks()
"""


def test_a_line_far_down_a_function_needs_memory_for_its_place():
    x, names = draw(4), vars(testcapi).copy()
    exec(FAR_DOWN, names)
    expected = [names["far_down"](1_000_000, x) for _ in range(3)][-1].grad_fn.line
    made = [names["far_down"](k, x) for k in range(N_MOMENTS)]
    assert None in made
    assert {t.grad_fn.line for t in made if t is not None} == {expected}


@pytest.mark.parametrize("n", [16, 32, 48, 49, 64, 65, 130])
@pytest.mark.parametrize("join", [ex.stack, ex.cat])
def test_as_many_inputs_as_there_may_be_are_joined_and_get_their_gradients(n, join):
    rows = [draw(2, 3, seed=k, grad=k % 3 != 1) for k in range(n)]
    joined = join(rows)
    expected = (np.stack if join is ex.stack else np.concatenate)([r.detach().numpy() for r in rows])
    np.testing.assert_array_equal(joined.detach().numpy(), expected)
    (joined * ex.arange(float(joined.numel())).view(joined.shape)).sum().backward()
    for k, row in enumerate(rows):
        if k % 3 == 1:
            assert row.grad is None
        else:
            np.testing.assert_array_equal(row.grad.numpy(), np.arange(6.0).reshape(2, 3) + 6 * k)
