"""ex.testing: what it lets pass and what it finds, on ops that are right and on ops that are not."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.backends.entry_points import FAST_OP
from extempo.core.op import ASPECTS, REGISTRY, Elementwise, Op, Refuse
from extempo.core.strides import row_major_strides
from extempo.core.types import TensorType
from extempo.testing import Sample, assert_close, check_batch, check_gradient, check_kernel, check_op, check_strides

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.fixture(autouse=True)
def forget_ops():
    """Ops that a test defines are gone afterwards."""
    known, n_bound = set(REGISTRY), len(FAST_OP.bindings)
    yield
    for name in set(REGISTRY) - known:
        del REGISTRY[name]
    del FAST_OP.bindings[n_bound:]


def define(**aspects):
    """The square of x, as it should be but for these aspects."""
    right = {
        "name": "square_of_a_test",
        "numpy": staticmethod(lambda x: x * x),
        "vjp": staticmethod(lambda g, y, x: (g * 2.0 * x,)),
        "lower": Refuse("a test"),
        "samples": staticmethod(lambda rng: iter([Sample(rng.normal(size=(2, 3)))])),
    }
    return type("SquareOfATest", (Elementwise,), right | aspects)


def define_plain(**aspects):
    """A copy of x, of no family, as it should be but for these aspects."""
    right = dict.fromkeys(ASPECTS, Refuse("a test"))
    right |= {"name": "copy_of_a_test", "infer": staticmethod(lambda x: x), "numpy": staticmethod(np.copy)}
    return type("CopyOfATest", (Op,), right | aspects)


def test_a_right_op_passes_all_checks_on_each_sample():
    assert check_op(define()) == 1
    assert check_op(REGISTRY["square_of_a_test"], [Sample(X), Sample(np.empty((0, 2))), Sample(np.array(3.0))]) == 3


def test_an_op_without_samples_is_not_checked():
    assert check_op(define(samples=Refuse("a test"))) == 0


def test_a_wrong_gradient_is_found_and_the_sample_named():
    op = define(vjp=staticmethod(lambda g, y, x: (g * 3.0 * x,)))
    with pytest.raises(ex.errors.ExtempoError, match="gradcheck"):
        check_gradient(op, Sample(X))
    with pytest.raises(ex.errors.ExtempoError) as error:
        check_op(op)
    assert any("while checking square_of_a_test on Sample(float64[2, 3])" in note for note in error.value.__notes__)


def test_a_kernel_that_changes_its_input_is_found():
    def changing(x):
        x += 1
        return x.copy()

    op = define_plain(numpy=staticmethod(changing))
    with pytest.raises(AssertionError, match="an input was changed"):
        check_kernel(op, Sample(X))


def test_a_result_that_shares_memory_with_its_input_is_found():
    with pytest.raises(AssertionError, match="shares memory with input"):
        check_kernel(define(numpy=staticmethod(lambda x: x)), Sample(X))


def test_a_shape_rule_that_disagrees_with_the_kernel_is_found():
    longer = define_plain(infer=staticmethod(lambda x: TensorType((x.shape[0] + 1, *x.shape[1:]), x.dtype)))
    with pytest.raises(AssertionError, match="the shape rule says"):
        check_kernel(longer, Sample(X))


def test_a_kernel_that_looks_at_memory_instead_of_elements_is_found():
    def by_memory(x):
        return np.lib.stride_tricks.as_strided(x, x.shape, row_major_strides(x.shape, x.itemsize)) ** 2

    with pytest.raises(AssertionError, match="elements differ"):
        check_strides(define(numpy=staticmethod(by_memory)), Sample(X))


def test_a_batching_rule_that_mixes_samples_is_found():
    whole = define(numpy=staticmethod(lambda x: x * x.reshape(-1)[0]), vjp=Refuse("a test"))
    with pytest.raises(AssertionError, match="differ"):
        check_batch(whole, Sample(X))


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        ([1.0, 2.0], [1.0, 2.1], r"1 of 2 elements differ; first at \(1,\)"),
        ([1.0], [1.0, 2.0], "shapes differ"),
        ([1, 2], [1.0, 2.0], "dtypes differ"),
        ([float("nan")], [float("nan")], "1 of 1 elements differ"),
        ([2**53], [2**53 + 1], "1 of 1 elements differ"),
        ([True], [False], "1 of 1"),
    ],
)
def test_differences_are_told_and_where_they_are(actual, expected, message):
    with pytest.raises(AssertionError, match=message):
        assert_close(ex.tensor(actual), ex.tensor(expected))


def test_what_is_close_enough_passes():
    assert_close(ex.tensor([1.0]), ex.tensor([1.0 + 5e-7]))
    assert_close(ex.tensor([1]), ex.tensor([1.0]), check_dtype=False)
    assert_close(ex.tensor([float("nan"), 1.0]), ex.tensor([float("nan"), 1.0]), equal_nan=True)
    assert_close(ex.tensor([float("inf")]), ex.tensor([float("inf")]))
    assert_close(ex.empty(0, 3), ex.empty(0, 3))
    assert_close([ex.ones(2), 1.0], (ex.ones(2), 1.0))
    assert_close(ex.ragged([[1.0], [2.0, 3.0]]), ex.ragged([[1.0], [2.0, 3.0]]))


def test_sequences_and_ragged_tensors_of_other_lengths_differ():
    with pytest.raises(AssertionError, match="lengths differ: 2 and 1"):
        assert_close([ex.ones(1), ex.ones(1)], [ex.ones(1)])
    with pytest.raises(AssertionError, match="rows differ"):
        assert_close(ex.ragged([[1.0], [2.0, 3.0]]), ex.ragged([[1.0, 2.0], [3.0]]))
    with pytest.raises(AssertionError, match="mine"):
        assert_close(ex.ones(1), ex.zeros(1), msg="mine")
