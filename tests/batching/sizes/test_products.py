"""Matrix products of which both sides are a sample's own."""

from __future__ import annotations

import pytest

import extempo as ex

from .sizes import agrees, drawn, forms


def pair(rng, n):
    return drawn(rng, n, 3), drawn(rng, n + 1, 3)


def test_pairwise_products_of_two_own_sizes_are_one_batch():
    def fn(x, y):
        return ((x * 1.0) @ (y * 1.0).T).softmax(1) @ y

    found = forms(agrees(fn, pair))
    assert found["matmul"] == ["ProductForm", "ProductForm"]
    assert found["softmax"] == ["AlongForm"]


def test_products_of_several_matrices_of_a_sample():
    def fn(x, y):
        a, b = (t.unflatten(-1, (3, 1)).transpose(0, 1) * 1.0 for t in (x, y))
        return a @ b.transpose(1, 2)

    agrees(fn, pair)


def test_a_side_without_a_gradient_gets_none():
    agrees(lambda x, y: ((x * 1.0).detach() @ (y * 1.0).T, x), pair)


def test_half_precision_runs_call_by_call():
    samples = [ex.ones(n, 2, dtype=ex.bfloat16) for n in (2, 3, 4)]
    for _ in range(2):
        made = ex.batch(lambda x: (x * 1) @ (x * 1).T)(samples)
        assert [y.tolist() for y in made] == [[[2.0] * n] * n for n in (2, 3, 4)]


def test_a_vector_that_weighs_rows_of_its_sample_is_one_sum():
    def fn(x, y):
        return x.mean(1).softmax(0) @ (x * 1.0) + y.sum()

    assert forms(agrees(fn, pair))["matmul"] == ["WeightedSumForm"]


def test_products_of_vectors_of_a_samples_own_length():
    def fn(x, y):
        return (x * 1.0)[:, 0] @ (x * 2.0)[:, 1] + y.sum()

    assert forms(agrees(fn, pair))["matmul"] == ["WeightedSumForm"]


def test_a_matrix_of_two_own_sizes_times_a_vector():
    def fn(x, y):
        return ((x * 1.0) @ (y * 1.0).T) @ (y * 1.0)[:, 0], (y * 1.0)[:, 0] @ ((y * 1.0) @ (x * 1.0).T)

    assert set(forms(agrees(fn, pair))["matmul"]) == {"ProductForm"}


def test_vectors_of_no_elements_have_a_product_of_zero():
    agrees(lambda x, y: (x[:, 0] @ (x * 1.0), y), pair, lengths=[(0, 3, 2), (1, 0, 4)])


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_left_side_that_all_samples_share_is_one_product(requires_grad):
    weight = ex.arange(12.0).reshape(4, 3)
    weight.requires_grad_(requires_grad)
    batched = agrees(lambda x, y: (weight @ (x * 1.0).T, y.sum()), pair, [weight] if requires_grad else [])
    assert forms(batched)["matmul"] == ["SharedLeftForm"]


def test_a_left_side_may_be_a_view_of_a_weight():
    weight = ex.arange(24.0).reshape(8, 3).requires_grad_()

    def fn(x, y):
        a, b = weight.chunk(2)
        return a @ (x * 1.0).T, (b * 1.0) @ (y * 1.0).T

    agrees(fn, pair, [weight])


def test_a_left_side_of_a_samples_own_is_none_that_is_shared():
    def fn(x, y):
        return (x.T @ x) @ (y * 1.0).T

    assert "SharedLeftForm" not in forms(agrees(fn, pair))["matmul"]
