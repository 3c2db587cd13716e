"""Products of ragged tensors are those of their rows."""

from __future__ import annotations

import pytest
from hypothesis import given

import extempo as ex
from extempo.errors import ShapeError, UnsupportedError
from extempo.nn import functional as F

from .looped import FEW, LENGTHS, check_rows, leaf, ragged_ints, ragged_leaf


@FEW
@given(LENGTHS)
def test_linear_is_that_of_each_row(lengths):
    x = ragged_leaf(lengths, 4)
    y = check_rows(F.linear, x, leaf(3, 4), leaf(3, seed=2))
    assert y._rows is x._rows
    check_rows(F.linear, ragged_leaf(lengths, 2, 4), leaf(3, 4), leaf(3, seed=2))
    check_rows(F.linear, ragged_leaf(lengths, 2, 4, dim=2), leaf(3, 4), None)


@FEW
@given(LENGTHS)
def test_products_with_a_shared_matrix_or_vector(lengths):
    x, turned = ragged_leaf(lengths, 4), ragged_leaf(lengths, 4, dim=2)
    check_rows(ex.matmul, x, leaf(4, 3))
    check_rows(ex.matmul, x, leaf(4))
    check_rows(ex.matmul, leaf(3, 4), turned)
    check_rows(ex.matmul, leaf(4), turned)
    check_rows(lambda a, b: a @ b, x, leaf(1, 4, 3), of_row=lambda i, a, b: a @ b[0])
    check_rows(ex.matmul, ragged_leaf(lengths, 2, 4, dim=2), leaf(2, 4, 3))  # (B, 2, *, 4)
    check_rows(ex.matmul, ragged_leaf(lengths, 3, 4), leaf(1, 4, 2))  # (B, *, 3, 4)


@FEW
@given(LENGTHS)
def test_products_with_a_matrix_for_each_row(lengths):
    n = len(lengths)
    x, turned = ragged_leaf(lengths, 4), ragged_leaf(lengths, 4, dim=2)

    def with_own(i, a, b):
        return a @ b[i]

    check_rows(ex.matmul, x, leaf(n, 4, 3), of_row=with_own)
    check_rows(ex.bmm, x, leaf(n, 4, 3), of_row=with_own)
    check_rows(ex.matmul, leaf(n, 3, 4), turned, of_row=lambda i, a, b: a[i] @ b)
    check_rows(ex.matmul, turned, ragged_leaf(lengths, 3, seed=5))
    check_rows(ex.matmul, ragged_leaf(lengths, 2, 4, dim=2), leaf(n, 1, 4, 3), of_row=with_own)


@FEW
@given(LENGTHS)
def test_a_ragged_dimension_before_the_matrices(lengths):
    x = ragged_leaf(lengths, 2, 4)  # a matrix for each element of each row
    check_rows(ex.matmul, x, ragged_leaf(lengths, 4, 3, seed=5))
    check_rows(ex.matmul, x, leaf(len(lengths), 1, 4, 3), of_row=lambda i, a, b: a @ b[i])


@FEW
@given(LENGTHS)
def test_bilinear(lengths):
    check_rows(F.bilinear, ragged_leaf(lengths, 3), ragged_leaf(lengths, 2, seed=4), leaf(5, 3, 2), leaf(5))


@FEW
@given(LENGTHS)
def test_einsum_by_rows(lengths):
    n = len(lengths)
    x, y = ragged_leaf(lengths, 4), ragged_leaf(lengths, 3, seed=5)

    def check(equation, *operands, row_equation, own=False):
        check_rows(
            lambda *given: ex.einsum(equation, *given),
            *operands,
            of_row=lambda i, a, *b: ex.einsum(row_equation, a, *(t[i] if own else t for t in b)),
        )

    check("btd,de->bte", x, leaf(4, 3), row_equation="td,de->te")
    check("btd,de->bet", x, leaf(4, 3), row_equation="td,de->et")
    check("...d,de->...e", x, leaf(4, 3), row_equation="td,de->te")
    check("btd,bte->bde", x, y, row_equation="td,te->de")
    check("btd,bd->bt", x, leaf(n, 4), row_equation="td,d->t", own=True)
    check("btd,bde->bte", x, leaf(n, 4, 2), row_equation="td,de->te", own=True)
    check("bhtd,hde->bhte", ragged_leaf(lengths, 2, 4, dim=2), leaf(2, 4, 3), row_equation="htd,hde->hte")


def test_einsum_over_everything():
    x = ragged_leaf([2, 0, 3], 4)
    assert ex.einsum("btd->", x).item() == pytest.approx(x.values().sum().item())
    assert ex.einsum("btd,bd->d", x, ex.ones(3, 4, dtype=ex.float64)).tolist() == pytest.approx(
        x.values().sum(0).tolist()
    )


def test_shared_weights_are_one_product_for_all_rows(monkeypatch):
    from extempo.ragged_tensors import products

    seen = []
    real = products.apply
    monkeypatch.setattr(
        products, "apply", lambda op, inputs, attrs: seen.append(inputs[0].shape) or real(op, inputs, attrs)
    )
    F.linear(ragged_leaf([2, 0, 3], 4), leaf(3, 4))
    assert seen == [(5, 4)]


X, TURNED = ragged_leaf([2, 3], 4), ragged_leaf([2, 3], 4, dim=2)


@pytest.mark.parametrize(
    ("compute", "says"),
    [
        (lambda: X @ TURNED, "two ragged dimensions.*scaled_dot_product_attention"),
        (lambda: ex.einsum("btd,bsd->bts", X, X), "two ragged"),
        (lambda: ragged_ints([1, 2], 3) @ leaf(3), r"x.unsqueeze\(1\)"),
        (lambda: X @ leaf(2, 3, 4, 5), "as many dimensions"),
        (lambda: F.linear(X, X), "shared by all rows"),
        (lambda: ex.einsum("btd,ed->tbe", X, leaf(3, 4)), "rows stay rows"),
    ],
)
def test_what_cannot_be_done_is_refused_with_advice(compute, says):
    with pytest.raises(UnsupportedError, match=says):
        compute()


@pytest.mark.parametrize(
    ("compute", "says"),
    [
        (lambda: TURNED @ leaf(5, 3), "inner sizes differ.*lengths"),
        (lambda: TURNED @ ragged_leaf([3, 2], 4), "inner sizes differ.*lengths"),
        (lambda: X @ leaf(5, 3), "inner sizes differ"),
        (lambda: X @ leaf(3, 4, 5), "2 in .* and 3 in"),
        (lambda: F.linear(TURNED, leaf(5, 3)), "ragged"),
        (lambda: F.bilinear(X, ragged_leaf([3, 2], 4), leaf(5, 4, 4)), "same rows"),
        (lambda: ex.einsum("btd,btd->bt", X, ragged_leaf([3, 2], 4)), "lengths"),
        (lambda: ex.einsum("btd,td->bt", X, leaf(5, 4)), "regular operand has the ragged label"),
        (lambda: ex.bmm(X, leaf(4, 5)), "3 dimensions"),
    ],
)
def test_sizes_that_do_not_fit_are_named(compute, says):
    with pytest.raises(ShapeError, match=says):
        compute()


def test_compiled_products_are_bitwise_those_of_eager_mode():
    weight = leaf(3, 4)

    def loss_of(x):
        y = (x @ weight.T).tanh()
        return (y.mT @ y).sum()

    compiled = ex.compile(loss_of)
    for lengths in ([3, 1], [2, 5, 0], [3, 1], [3, 1]):
        results = []
        for run in (loss_of, compiled):
            x = ragged_leaf(lengths, 4)
            weight.grad = None
            loss = run(x)
            loss.backward()
            results.append((loss.item(), x.grad.values().tolist(), weight.grad.tolist()))
        assert results[0] == results[1]
