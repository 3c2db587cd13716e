"""Inline caches in native code: what a function made of such arguments it makes again, and of no others."""

import pytest

pytest.importorskip("llvmlite")

import numpy as np

import extempo as ex
import extempo.nn.functional as F
from extempo.backends.llvm.calls.entries import ALL, CONSTANT, LATELY, Entry
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.dispatch.fast_path import launcher

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

X = ex.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.fixture
def front():
    """A function of native code, what it knows, and what it asked Python."""
    lately, entries, asked = [None] * LATELY, {}, []

    def slow(*args):
        asked.append(args)
        return "slow"

    def itself(*args):
        return "itself"

    return launcher().front(itself, slow, lately, entries), lately, entries, asked


def softmax_entry(*expected):
    """An entry for fn(x, dim): softmax along the last dimension, whatever dim says."""
    return Entry(expected, (0,), (None,), REGISTRY["softmax"], {"dim": 1}, ALL)


def test_an_entry_runs_its_op_on_the_arguments_that_it_names(front):
    call, lately, _, asked = front
    lately[1] = softmax_entry(X._type, -1)
    np.testing.assert_array_equal(call(X, -1).numpy(), F.softmax(X, -1).numpy())
    assert not asked


@pytest.mark.parametrize(
    "args", [(X, -2), (X, -1.0), (X,), (X, -1, None), (X[:1], -1), (X.double(), -1), (X, [1]), (1.0, -1)]
)
def test_arguments_that_differ_in_anything_go_to_python(front, args):
    call, lately, _, asked = front
    lately[0] = softmax_entry(X._type, -1)
    assert call(*args) == "slow"
    assert len(asked) == 1


def test_equal_numbers_of_other_classes_and_zeros_of_other_signs_are_told_apart(front):
    call, lately, entries, _ = front
    entry = softmax_entry(X._type, 1)
    lately[0] = entry
    entries[entry.expected] = entry
    assert call(X, 1) is not None
    assert call(X, True) == call(X, 1.0) == "slow"
    zero = softmax_entry(X._type, 0.0)
    lately[1], entries[zero.expected] = zero, zero
    assert not isinstance(call(X, 0.0), str)
    assert call(X, -0.0) == "slow"


def test_tuples_are_compared_by_their_items(front):
    call, lately, _, _ = front
    lately[0] = softmax_entry(X._type, (2, 3))
    assert not isinstance(call(X, (2, *(3,))), str)
    assert call(X, (2, 4)) == call(X, (2,)) == call(X, (2.0, 3)) == "slow"


def test_what_is_not_lately_is_found_in_the_dict(front):
    call, lately, entries, asked = front
    entries[X._type, 1000] = softmax_entry(X._type, 1000)
    assert lately == [None] * LATELY
    assert not isinstance(call(X, 1000), str)
    assert not asked


def test_constants_and_picks_of_several_results(front):
    call, lately, _, _ = front
    maxima = Entry((X._type,), (0,), (None,), REGISTRY["max_with_index"], {"dim": (1,), "keepdim": False}, 1)
    lately[0] = maxima
    assert call(X).tolist() == [2, 2]
    lately[0] = Entry((X._type,), (0, CONSTANT), (None, 10.0), REGISTRY["mul"], {}, ALL)
    assert call(X).tolist() == (X * 10.0).tolist()


def test_an_entry_without_an_op_calls_the_function_itself(front):
    call, lately, _, asked = front
    lately[0] = Entry((X._type,), (), (), None, {}, ALL)
    assert call(X) == "itself"
    assert not asked


def test_what_an_argument_raises_while_it_is_compared_is_raised(front):
    class Odd:
        def __hash__(self):
            raise ZeroDivisionError

    call, _, _, _ = front
    with pytest.raises(ZeroDivisionError):
        call(X, Odd())
