"""einsum, tensordot, chains, Kronecker and cross products: notation, edge cases, messages."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import linalg
from extempo.errors import DtypeError, IndexRangeError, ShapeError
from extempo.testing import check_grad

from .helpers import normal


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba", [(2, 3)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iji->j", [(3, 2, 3)]),
        ("iii->i", [(3, 3, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("bi,bi->b", [(4, 3), (4, 3)]),
        ("ij->", [(2, 3)]),
        ("ij->j", [(2, 3)]),
        ("...ij,...jk->...ik", [(2, 1, 2, 3), (4, 3, 2)]),
        ("...i,i->...", [(2, 4, 3), (3,)]),
        ("i...,i...->...", [(3, 2), (3, 1)]),
        ("ab,bc,cd,de->ae", [(2, 3), (3, 4), (4, 5), (5, 2)]),
        ("ai,bi,ci->abc", [(2, 5), (3, 5), (4, 5)]),
        ("ij,kj->", [(2, 3), (4, 3)]),
        ("->", [()]),
        (",i->i", [(), (3,)]),
        ("ij,jk->ik", [(2, 0), (0, 4)]),
        ("Ab,bA->A", [(2, 3), (3, 2)]),
    ],
)
def test_einsum_agrees_with_numpy(equation, shapes):
    tensors = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    expected = np.einsum(equation, *(t.numpy() for t in tensors))
    np.testing.assert_allclose(ex.einsum(equation, *tensors).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("equation", ["iji,jk->k", "...a,...a->...", "ab,bc,ca->"])
def test_einsum_has_gradients_to_second_order(equation):
    shapes = {
        "iji,jk->k": [(2, 3, 2), (3, 2)],
        "...a,...a->...": [(2, 3), (1, 3)],
        "ab,bc,ca->": [(2, 3), (3, 2), (2, 2)],
    }
    tensors = [normal(*shape, seed=i) for i, shape in enumerate(shapes[equation])]
    check_grad(lambda *x: ex.einsum(equation, *x), tensors)


def test_einsum_broadcasts_sizes_of_one_under_a_shared_label():
    a, b = normal(2, 1), normal(3, 4, seed=1)
    np.testing.assert_allclose(ex.einsum("ij,jk->ik", a, b).numpy(), a.numpy() * b.numpy().sum(0))


def test_einsum_takes_sublists_and_a_list_of_operands():
    a, b = normal(2, 3), normal(3, 4, seed=1)
    expected = (a @ b).numpy()
    np.testing.assert_allclose(ex.einsum(a, [0, 1], b, [1, 2], [0, 2]).numpy(), expected)
    np.testing.assert_allclose(ex.einsum(a, [..., 1], b, [1, 2]).numpy(), expected)
    np.testing.assert_allclose(ex.einsum("ij,jk->ik", [a, b]).numpy(), expected)


def test_einsum_multiplies_integers():
    a = ex.arange(6, dtype=ex.int32).reshape(2, 3)
    assert ex.einsum("ij,kj->ik", a, a).tolist() == [[5, 14], [14, 50]]


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", [(2, 3)], "has 2 terms, but 1 tensor"),
        ("ijk->i", [(2, 3)], "names 3 dimensions, its tensor has 2"),
        ("ij->iz", [(2, 3)], "'z' .* occurs in no operand"),
        ("ij->ii", [(2, 2)], "'i' .* occurs twice in the result"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "label 'j' has size 3 in one operand and 4 in another"),
        ("ii->i", [(2, 3)], "a diagonal needs equal sizes"),
        ("i1->i", [(2, 3)], "'1' .* is not a label"),
    ],
)
def test_einsum_explains_what_is_wrong_with_an_equation(equation, shapes, message):
    with pytest.raises(ShapeError, match=message):
        ex.einsum(equation, *(ex.ones(*shape) for shape in shapes))


def test_einsum_refuses_what_is_no_tensor_or_label():
    with pytest.raises(DtypeError, match="operands must be tensors"):
        ex.einsum("i->i", [1, 2])
    with pytest.raises(IndexRangeError, match="ints from 0 to 51"):
        ex.einsum(ex.ones(2), [99])


def test_tensordot_agrees_with_numpy():
    a, b = normal(2, 3, 4), normal(4, 3, 5, seed=1)
    np.testing.assert_allclose(
        ex.tensordot(a, b, ([1, 2], [1, 0])).numpy(), np.tensordot(a.numpy(), b.numpy(), ([1, 2], [1, 0]))
    )
    assert ex.tensordot(a, b, 0).shape == (2, 3, 4, 4, 3, 5)
    np.testing.assert_allclose(ex.tensordot(a, b, 1).numpy(), np.tensordot(a.numpy(), b.numpy(), 1))
    assert ex.tensordot(a, a, 3).shape == ()


def test_tensordot_says_which_dimensions_differ():
    with pytest.raises(ShapeError, match=r"dimension 1 of .* and 0 of"):
        ex.tensordot(ex.ones(2, 3), ex.ones(4, 2), 1)
    with pytest.raises(ShapeError, match="give pairs"):
        ex.tensordot(ex.ones(2, 3), ex.ones(3, 2), ([0, 1], [0]))


@pytest.mark.parametrize(
    ("left", "right"), [((2, 3), (4, 5)), ((2,), (3, 4)), ((), (2,)), ((2, 0), (3, 1)), ((2, 3, 2), (2, 2))]
)
def test_kron_agrees_with_numpy(left, right):
    a, b = normal(*left), normal(*right, seed=1)
    np.testing.assert_array_equal(ex.kron(a, b).numpy(), np.kron(a.numpy(), b.numpy()))


def test_cross_finds_its_dimension_and_broadcasts():
    a, b = normal(3, 4), normal(3, 4, seed=1)
    np.testing.assert_allclose(ex.cross(a, b).numpy(), np.cross(a.numpy(), b.numpy(), axis=0))
    np.testing.assert_allclose(linalg.cross(a.T, b.T[:1]).numpy(), np.cross(a.numpy().T, b.numpy().T[:1]))
    check_grad(ex.cross, [a, b])


def test_cross_needs_a_dimension_of_size_three():
    with pytest.raises(ShapeError, match="has size 3"):
        ex.cross(ex.ones(2, 4), ex.ones(2, 4))
    with pytest.raises(ShapeError, match="must have size 3"):
        linalg.cross(ex.ones(2, 4), ex.ones(2, 4))


def test_multi_dot_takes_vectors_at_its_ends_and_multiplies_in_the_cheap_order():
    a, b, c, v = normal(10, 1), normal(1, 10, seed=1), normal(10, 10, seed=2), normal(10, seed=3)
    expected = a.numpy() @ b.numpy() @ c.numpy()
    np.testing.assert_allclose(linalg.multi_dot([a, b, c]).numpy(), expected)
    product = linalg.multi_dot([v, c, c, v])
    assert product.shape == ()
    np.testing.assert_allclose(product.item(), v.numpy() @ c.numpy() @ c.numpy() @ v.numpy())
    a.requires_grad_()
    # (10, 1) @ ((1, 10) @ (10, 10)): the last product has the column first.
    assert linalg.multi_dot([a, b, c]).grad_fn.inputs[0].type.shape == (10, 1)


def test_multi_dot_says_which_neighbours_do_not_fit():
    with pytest.raises(ShapeError, match="tensors 1 and 2 do not fit"):
        linalg.multi_dot([ex.ones(2, 3), ex.ones(3, 4), ex.ones(5, 2)])
    with pytest.raises(ShapeError, match="tensor 1 must be a matrix"):
        linalg.multi_dot([ex.ones(2, 3), ex.ones(3), ex.ones(3, 2)])


def test_vander_holds_powers_and_has_their_gradient_at_zero():
    x = ex.tensor([0.0, 2.0, -1.0], dtype=ex.float64)
    assert linalg.vander(x, N=4).tolist() == [[1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 4.0, 8.0], [1.0, -1.0, 1.0, -1.0]]
    assert ex.vander(ex.tensor([2, 3])).tolist() == [[2, 1], [3, 1]]
    check_grad(lambda x: linalg.vander(x, N=3), [x], order=1)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_einsum_sums_integers_to_int64_and_multiplies_them_in_their_own_dtype(dtype):
    d = getattr(ex, dtype)
    x = ex.full((4, 3), 100).to(d)
    one = int(x[0, 0])
    for equation, expected in (("ij->", 12 * one), ("ij->i", [3 * one] * 4), ("ij,kl->", 144 * one * one)):
        operands = [x] * (equation.count(",") + 1)
        found = ex.einsum(equation, *operands)
        assert found.dtype is ex.int64
        assert found.tolist() == expected
    assert ex.einsum("ii->", x[:3]).tolist() == 3 * one
    assert ex.einsum("ii->i", x[:3]).dtype is d
    assert ex.einsum("ij,ij->ij", x, x).dtype is d
    assert ex.einsum("ij,jk->", x, x.T).item() == 48 * one * one  # sums first, then a product of int64
    if d is not ex.bool:
        assert ex.einsum("ij,jk->ik", x, x.T).dtype is d
        assert ex.einsum("ij,jk->i", x, x.T).tolist() == [12 * one * one] * 4


def test_tensordot_over_a_size_of_1_keeps_the_dtype():
    x, y = ex.full((4, 2), 3, dtype=ex.int8), ex.full((1, 2), 2, dtype=ex.int8)
    found = ex.tensordot(x, y, ([0], [0]))
    assert found.dtype is ex.int8
    assert found.tolist() == [[24, 24], [24, 24]]
