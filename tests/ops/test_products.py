"""Matrix products: shapes, dtypes, edge cases and messages that the op samples do not reach."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError
from extempo.ops.products import bilinear, linear
from extempo.testing import assert_close, check_grad

from .helpers import normal


def test_bool_operands_are_refused_with_the_conversion_to_use():
    mask = ex.ones(2, 2, dtype=ex.bool)
    with pytest.raises(DtypeError, match=r"bool tensors; use x.float\(\)"):
        mask @ mask


def test_operands_of_two_dtypes_are_refused():
    with pytest.raises(DtypeError, match=r"float32 and extempo.float64"):
        ex.ones(2, 2) @ ex.ones(2, 2, dtype=ex.float64)


def test_a_forgotten_transpose_is_suggested():
    with pytest.raises(ShapeError, match=r"\(2, 3\) @ \(4, 3\); did you mean x @ w.T"):
        ex.ones(2, 3) @ ex.ones(4, 3)


def test_matmul_says_which_batch_dimensions_do_not_fit():
    with pytest.raises(ShapeError, match="batch dimensions"):
        ex.ones(2, 3, 4) @ ex.ones(5, 4, 3)


def test_numbers_are_no_matrices():
    with pytest.raises(ShapeError, match="0-dim"):
        ex.ones(2, 2) @ ex.tensor(2.0)
    with pytest.raises(DtypeError, match="use \\* for numbers"):
        ex.matmul(ex.ones(2, 2), 2.0)


def test_an_array_times_a_tensor_is_a_tensor():
    product = np.ones((2, 3)) @ ex.ones(3, dtype=ex.float64)
    assert isinstance(product, ex.Tensor)
    assert product.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("mm", ((2,), (2, 2)), "mm: input must have 2 dimensions"),
        ("bmm", ((2, 2, 2), (3, 2, 2)), "use matmul to broadcast"),
        ("mv", ((2, 2), (2, 2)), "mv: vec must have 1 dimension,"),
        ("dot", ((2, 2), (2,)), "dot: input must have 1 dimension,"),
        ("inner", ((2, 3), (2, 4)), "last sizes differ"),
        ("outer", ((2, 3), (2,)), "outer: input must have 1 dimension,"),
    ],
)
def test_wrong_dimensions_are_named(name, arguments, message):
    with pytest.raises(ShapeError, match=message):
        getattr(ex, name)(*(ex.ones(*shape) for shape in arguments))


def test_beta_zero_ignores_even_nan():
    nothing = ex.full((2, 2), float("nan"))
    assert_close(ex.addmm(nothing, ex.ones(2, 3), ex.ones(3, 2), beta=0, alpha=2), ex.full((2, 2), 6.0))
    assert_close(ex.baddbmm(nothing, ex.ones(1, 2, 3), ex.ones(1, 3, 2), beta=0), ex.full((1, 2, 2), 3.0))


def test_factors_of_integer_products_are_cut_to_integers_and_addr_refuses_them():
    m, v = ex.arange(4).reshape(2, 2), ex.arange(2)
    assert ex.addmm(m, m, m, beta=0.6).tolist() == (m @ m).tolist()
    with pytest.raises(DtypeError, match="integer factors"):
        ex.addr(m, v, v, alpha=1.5)


def test_the_added_tensor_broadcasts_to_the_product_but_never_enlarges_it():
    assert ex.addmm(ex.ones(3), ex.ones(2, 4), ex.ones(4, 3)).tolist() == [[5.0] * 3] * 2
    with pytest.raises(ShapeError, match="does not broadcast to the product's"):
        ex.addmm(ex.ones(2, 2, 3), ex.ones(2, 4), ex.ones(4, 3))


def test_addbmm_sums_over_the_batch_as_one_product():
    a, b, c = normal(3, 2, 4), normal(3, 4, 5, seed=1), normal(2, 5, seed=2)
    expected = c.numpy() + (a.numpy() @ b.numpy()).sum(0)
    np.testing.assert_allclose(ex.addbmm(c, a, b).numpy(), expected)
    check_grad(lambda c, a, b: ex.addbmm(c, a, b, beta=0.5, alpha=2.0), [c, a, b])


def test_in_place_products_write_into_the_tensor():
    x = ex.zeros(2, 2)
    assert x.addmm_(ex.ones(2, 3), ex.ones(3, 2)) is x
    assert x.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    x @= ex.eye(2) * 2
    assert x.tolist() == [[6.0, 6.0], [6.0, 6.0]]


def test_out_receives_the_product():
    out = ex.empty(2, 2)
    assert ex.mm(ex.ones(2, 3), ex.ones(3, 2), out=out) is out
    assert out.tolist() == [[3.0, 3.0], [3.0, 3.0]]


# ---- linear and bilinear


def test_bilinear_agrees_with_einsum_and_finite_differences():
    x, z, w, b = normal(4, 2), normal(4, 3, seed=1), normal(5, 2, 3, seed=2), normal(5, seed=3)
    expected = np.einsum("ni,oij,nj->no", x.numpy(), w.numpy(), z.numpy()) + b.numpy()
    np.testing.assert_allclose(bilinear(x, z, w, b).numpy(), expected)
    check_grad(bilinear, [x, z, w, b])


def test_bilinear_says_what_the_weight_expects():
    with pytest.raises(ShapeError, match="expects 2 and 3 features, the inputs have 2 and 4"):
        bilinear(ex.ones(4, 2), ex.ones(4, 4), ex.ones(5, 2, 3))


@pytest.mark.parametrize("number", [3, 2.5, True])
def test_a_number_is_no_matrix(number):
    x = normal(2, 2)
    for product in (lambda: x @ number, lambda: ex.matmul(number, x), lambda: linear(number, x)):
        with pytest.raises(DtypeError, match=f"expected tensors, got {type(number).__name__}; use \\* for numbers"):
            product()
