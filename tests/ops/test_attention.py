"""Embedding, bags and attention: Python ints as rows, gradients of tables, masks, heads."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, ShapeError, UnsupportedError
from extempo.nn import functional as F


def values(tensor: ex.Tensor) -> list:
    return tensor.detach().numpy().tolist()


def draw(*shape: int, seed: int = 0) -> ex.Tensor:
    return ex.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


# ---- embedding


def test_rows_are_ints_lists_and_tensors():
    table = draw(5, 3)
    assert values(F.embedding(2, table)) == values(table)[2]
    assert values(F.embedding([0, 4], table)) == [values(table)[0], values(table)[4]]
    assert F.embedding(ex.tensor([[1, 2]]), table).shape == (1, 2, 3)
    assert F.embedding([], table).shape == (0, 3)


def test_a_row_used_twice_gets_both_gradients():
    table = ex.zeros(4, 2, requires_grad=True)
    (F.embedding([1, 3, 1], table) * ex.tensor([[1.0], [10.0], [100.0]])).sum().backward()
    assert values(table.grad) == [[0.0, 0.0], [101.0, 101.0], [0.0, 0.0], [10.0, 10.0]]


def test_the_padding_row_gets_no_gradient():
    for padding in (1, -3):
        table = ex.ones(4, 2, requires_grad=True)
        F.embedding([1, 3, 1], table, padding_idx=padding).sum().backward()
        assert values(table.grad) == [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]


def test_gradients_are_divided_by_how_often_a_row_was_used():
    table = ex.ones(3, 1, requires_grad=True)
    F.embedding([2, 2, 0], table, scale_grad_by_freq=True).sum().backward()
    assert values(table.grad) == [[1.0], [0.0], [1.0]]


def test_max_norm_shortens_only_the_rows_that_are_used():
    table = ex.tensor([[3.0, 4.0], [30.0, 40.0], [0.3, 0.4]])
    F.embedding([0, 2], table, max_norm=1.0)
    assert values(table) == pytest.approx(np.array([[0.6, 0.8], [30.0, 40.0], [0.3, 0.4]]))
    leaf = ex.tensor([[3.0, 4.0]], requires_grad=True)
    F.embedding(0, leaf, max_norm=1.0).sum().backward()
    assert values(leaf) == pytest.approx(np.array([[0.6, 0.8]]))
    assert values(leaf.grad) == [[1.0, 1.0]]


def test_embedding_keeps_no_copy_of_its_table():
    y = F.embedding(ex.tensor([1, 2]), draw(1000, 3))
    assert [entry[1].shape for entry in y.grad_fn.saved] == [(2,)]


def test_embedding_gradients_of_both_orders():
    rows = ex.tensor([[0, 2], [2, 2]])
    assert ex.autograd.gradcheck(lambda w: F.embedding(rows, w), (draw(3, 2),))
    assert ex.autograd.gradgradcheck(lambda w: F.embedding(rows, w).sin(), (draw(3, 2),))


def test_rows_are_checked():
    table = draw(4, 2)
    with pytest.raises(IndexRangeError, match="row 4 is out of range for a table of 4 rows"):
        F.embedding([0, 4], table)
    with pytest.raises(IndexRangeError, match="row -1"):
        F.embedding(-1, table)
    with pytest.raises(DtypeError, match=r"use x\.long"):
        F.embedding(ex.tensor([0.5]), table)
    with pytest.raises(DtypeError, match="rows must be integers"):
        F.embedding([0.5], table)
    with pytest.raises(ShapeError, match=r"\(rows, features\)"):
        F.embedding(0, ex.ones(3))
    with pytest.raises(IndexRangeError, match="padding_idx 7"):
        F.embedding(0, table, padding_idx=7)


def test_sparse_gradients_are_refused_with_what_dense_ones_mean():
    table = ex.ones(3, 2, requires_grad=True)
    with pytest.raises(UnsupportedError, match=r"embedding: sparse=True .* leave it out"):
        F.embedding([2, 2], table, sparse=True)
    with pytest.raises(UnsupportedError, match=r"embedding_bag: sparse=True .* leave it out"):
        F.embedding_bag([[2, 2]], table, sparse=True)
    F.embedding([2, 2], table).sum().backward()
    np.testing.assert_array_equal(table.grad.numpy(), [[0, 0], [0, 0], [2, 2]])


# ---- bags


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_reductions_of_embeddings(mode):
    table, rows = draw(5, 3), [[0, 1], [4, 4]]
    picked = F.embedding(rows, table)
    expected = {"sum": picked.sum(1), "mean": picked.mean(1), "max": picked.amax(1)}[mode]
    by_rows = F.embedding_bag(ex.tensor(rows), table, mode=mode)
    by_offsets = F.embedding_bag([0, 1, 4, 4], table, [0, 2], mode=mode)
    assert values(by_rows) == pytest.approx(np.array(values(expected)))
    assert values(by_offsets) == values(by_rows)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_an_empty_bag_is_zero_and_padding_is_left_out(mode):
    table = ex.tensor([[5.0], [1.0], [2.0]], requires_grad=True)
    result = F.embedding_bag([0, 1, 2], table, [0, 1, 1], mode=mode, padding_idx=0)
    assert values(result) == [[0.0], [0.0], [{"sum": 3.0, "mean": 1.5, "max": 2.0}[mode]]]
    result.sum().backward()
    assert values(table.grad)[0] == [0.0]


def test_weights_of_samples_get_gradients():
    table, weights = draw(4, 2), ex.tensor([1.0, 2.0, 3.0], dtype=ex.float64, requires_grad=True)
    result = F.embedding_bag([0, 1, 3], table, [0, 2], mode="sum", per_sample_weights=weights)
    result.sum().backward()
    assert values(weights.grad) == pytest.approx([sum(values(table)[i]) for i in (0, 1, 3)])
    with pytest.raises(ShapeError, match="needs mode='sum'"):
        F.embedding_bag([0, 1, 3], table, [0, 2], per_sample_weights=weights)


def test_offsets_are_checked():
    table = draw(4, 2)
    with pytest.raises(ShapeError, match="needs offsets"):
        F.embedding_bag([0, 1], table)
    with pytest.raises(ShapeError, match="begin with 0"):
        F.embedding_bag([0, 1], table, [1, 2])
    last = F.embedding_bag([0, 1], table, [0, 1, 2], include_last_offset=True)
    assert last.shape == (2, 2)


# ---- attention


def reference(q: ex.Tensor, k: ex.Tensor, v: ex.Tensor, mask: np.ndarray | None, scale: float) -> np.ndarray:
    scores = q.detach().numpy() @ np.swapaxes(k.detach().numpy(), -1, -2) * scale
    if mask is not None:
        scores = scores + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v.detach().numpy()


def test_attention_is_a_weighted_mean_of_values():
    q, k, v = draw(2, 3, 4), draw(2, 5, 4, seed=1), draw(2, 5, 6, seed=2)
    result = F.scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(result.detach().numpy(), reference(q, k, v, None, 0.5))
    scaled = F.scaled_dot_product_attention(q, k, v, scale=0.1)
    np.testing.assert_allclose(scaled.detach().numpy(), reference(q, k, v, None, 0.1))


def test_causal_masks_and_bool_masks_and_added_masks_agree():
    q, k, v = draw(3, 4), draw(3, 4, seed=1), draw(3, 2, seed=2)
    allowed = np.tri(3, dtype=bool)
    added = np.where(allowed, 0.0, -np.inf)
    expected = reference(q, k, v, added, 0.5)
    for options in ({"is_causal": True}, {"attn_mask": ex.tensor(allowed)}, {"attn_mask": ex.tensor(added)}):
        result = F.scaled_dot_product_attention(q, k, v, **options)
        np.testing.assert_allclose(result.detach().numpy(), expected)


def test_a_query_that_may_attend_to_nothing_gets_zeros_and_no_gradient():
    q, k, v = draw(2, 4), draw(3, 4, seed=1), draw(3, 2, seed=2)
    mask = ex.tensor([[True, False, True], [False, False, False]])
    result = F.scaled_dot_product_attention(q, k, v, mask)
    assert values(result)[1] == [0.0, 0.0]
    result.sum().backward()
    assert values(q.grad)[1] == [0.0] * 4
    for x in (q, k, v):
        assert np.isfinite(x.grad.numpy()).all()


def test_huge_scores_do_not_overflow():
    q = ex.tensor([[1e4, 0.0]], requires_grad=True)
    result = F.scaled_dot_product_attention(q, ex.tensor([[1e4, 0.0], [0.0, 1.0]]), ex.tensor([[1.0], [2.0]]))
    result.sum().backward()
    assert values(result) == [[1.0]]
    assert np.isfinite(q.grad.numpy()).all()


def test_attention_gradients_of_both_orders_with_a_mask_that_requires_grad():
    inputs = (draw(2, 2, 3), draw(1, 3, 3, seed=1), draw(2, 3, 2, seed=2), draw(2, 3, seed=3))
    fn = F.scaled_dot_product_attention
    assert ex.autograd.gradcheck(fn, inputs)
    assert ex.autograd.gradgradcheck(fn, inputs)


def test_attention_keeps_no_weights():
    q = draw(2, 50, 4)
    y = F.scaled_dot_product_attention(q, q, q)
    assert {entry[1].shape for entry in y.grad_fn.saved} == {(2, 50, 4)}


def test_grouped_queries_share_keys_and_values():
    q, k, v = draw(2, 6, 3, 4), draw(2, 2, 5, 4, seed=1), draw(2, 2, 5, 4, seed=2)
    mask = draw(6, 3, 5, seed=3)
    shared = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    repeated = F.scaled_dot_product_attention(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1), mask)
    np.testing.assert_allclose(shared.detach().numpy(), repeated.detach().numpy())
    with pytest.raises(ShapeError, match="6 query heads cannot share 4"):
        F.scaled_dot_product_attention(q, draw(2, 4, 5, 4), draw(2, 4, 5, 4), enable_gqa=True)


def test_dropped_weights_are_made_up_for_on_average():
    ex.manual_seed(0)
    v = ex.ones(1, 2000, 1)
    q, k = ex.zeros(1, 1, 4), ex.zeros(1, 2000, 4)
    assert F.scaled_dot_product_attention(q, k, v, dropout_p=0.5).item() == pytest.approx(1.0, abs=0.1)


def test_attention_says_what_does_not_fit():
    q, k, v = draw(3, 4), draw(5, 4), draw(5, 4)
    fn = F.scaled_dot_product_attention
    with pytest.raises(ShapeError, match="as many features"):
        fn(q, draw(5, 3), v)
    with pytest.raises(ShapeError, match="key and value must be as long"):
        fn(q, k, draw(4, 4))
    with pytest.raises(ShapeError, match="does not broadcast to"):
        fn(q, k, v, draw(2, 5))
    with pytest.raises(ShapeError, match="not both"):
        fn(q, k, v, draw(3, 5), is_causal=True)
    with pytest.raises(DtypeError, match="one floating dtype"):
        fn(q, k.float(), v)


# ---- heads


def multi_head(q, k, v, **options):
    rng = np.random.default_rng(7)
    weights = [ex.tensor(rng.normal(size=s)) for s in ((12, 4), (12,), (4, 4), (4,))]
    base = {"training": False, "need_weights": True}
    return F.multi_head_attention_forward(
        q, k, v, 4, 2, weights[0], weights[1], None, None, False, 0.0, weights[2], weights[3], **(base | options)
    )


def test_heads_with_and_without_weights_agree():
    q, k = draw(3, 2, 4), draw(5, 2, 4, seed=1)
    padding = ex.tensor([[False, False, False, True, True], [False] * 5])
    mask = ex.tensor(np.random.default_rng(2).random((3, 5)) > 0.8)
    with_weights, weights = multi_head(q, k, k, attn_mask=mask, key_padding_mask=padding)
    without, none = multi_head(q, k, k, attn_mask=mask, key_padding_mask=padding, need_weights=False)
    np.testing.assert_allclose(with_weights.detach().numpy(), without.detach().numpy())
    assert none is None
    assert weights.shape == (2, 3, 5)
    assert not weights.detach().numpy()[0, :, 3:].any()
    np.testing.assert_allclose(weights.detach().numpy().sum(-1), 1.0)


def test_one_sample_needs_no_batch_dimension():
    q = draw(3, 4)
    result, weights = multi_head(q, q, q, average_attn_weights=False)
    batched, _ = multi_head(q.unsqueeze(1), q.unsqueeze(1), q.unsqueeze(1))
    assert weights.shape == (2, 3, 3)
    np.testing.assert_allclose(result.detach().numpy(), batched.squeeze(1).detach().numpy())


def test_heads_say_what_does_not_fit():
    q = draw(3, 2, 4)
    with pytest.raises(ShapeError, match="key_padding_mask must be"):
        multi_head(q, q, q, key_padding_mask=ex.zeros(3, 2))
    with pytest.raises(ShapeError, match="attn_mask must be"):
        multi_head(q, q, q, attn_mask=ex.zeros(2, 2))
    with pytest.raises(ShapeError, match="only a hint"):
        multi_head(q, q, q, is_causal=True)
    with pytest.raises(ShapeError, match="expected 4"):
        multi_head(draw(3, 2, 6), q, q)


def test_scale_is_one_over_the_root_of_the_features():
    q, k, v = draw(1, 16), draw(2, 16, seed=1), draw(2, 1, seed=2)
    a, b = (F.scaled_dot_product_attention(q, k, v, scale=s).item() for s in (None, 1.0 / math.sqrt(16)))
    assert a == b
