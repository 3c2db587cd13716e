"""Embedding, bags and attention: Python ints as rows, gradients of tables, masks, heads."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError
from extempo.nn import functional as F

from .helpers import leaf, values

# ---- embedding


# ---- bags


# ---- attention


def reference(q: ex.Tensor, k: ex.Tensor, v: ex.Tensor, mask: np.ndarray | None, scale: float) -> np.ndarray:
    scores = q.detach().numpy() @ np.swapaxes(k.detach().numpy(), -1, -2) * scale
    if mask is not None:
        scores = scores + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v.detach().numpy()


def test_attention_is_a_weighted_mean_of_values():
    q, k, v = leaf(2, 3, 4), leaf(2, 5, 4, seed=1), leaf(2, 5, 6, seed=2)
    result = F.scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(result.detach().numpy(), reference(q, k, v, None, 0.5))
    scaled = F.scaled_dot_product_attention(q, k, v, scale=0.1)
    np.testing.assert_allclose(scaled.detach().numpy(), reference(q, k, v, None, 0.1))


def test_causal_masks_and_bool_masks_and_added_masks_agree():
    q, k, v = leaf(3, 4), leaf(3, 4, seed=1), leaf(3, 2, seed=2)
    allowed = np.tri(3, dtype=bool)
    added = np.where(allowed, 0.0, -np.inf)
    expected = reference(q, k, v, added, 0.5)
    for options in ({"is_causal": True}, {"attn_mask": ex.tensor(allowed)}, {"attn_mask": ex.tensor(added)}):
        result = F.scaled_dot_product_attention(q, k, v, **options)
        np.testing.assert_allclose(result.detach().numpy(), expected)


def test_huge_scores_do_not_overflow():
    q = ex.tensor([[1e4, 0.0]], requires_grad=True)
    result = F.scaled_dot_product_attention(q, ex.tensor([[1e4, 0.0], [0.0, 1.0]]), ex.tensor([[1.0], [2.0]]))
    result.sum().backward()
    assert values(result) == [[1.0]]
    assert np.isfinite(q.grad.numpy()).all()


def test_grouped_queries_share_keys_and_values():
    q, k, v = leaf(2, 6, 3, 4), leaf(2, 2, 5, 4, seed=1), leaf(2, 2, 5, 4, seed=2)
    mask = leaf(6, 3, 5, seed=3)
    shared = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    repeated = F.scaled_dot_product_attention(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1), mask)
    np.testing.assert_allclose(shared.detach().numpy(), repeated.detach().numpy())
    with pytest.raises(ShapeError, match="6 query heads cannot share 4"):
        F.scaled_dot_product_attention(q, leaf(2, 4, 5, 4), leaf(2, 4, 5, 4), enable_gqa=True)


def test_dropped_weights_are_made_up_for_on_average():
    ex.manual_seed(0)
    v = ex.ones(1, 2000, 1)
    q, k = ex.zeros(1, 1, 4), ex.zeros(1, 2000, 4)
    assert F.scaled_dot_product_attention(q, k, v, dropout_p=0.5).item() == pytest.approx(1.0, abs=0.1)


def test_attention_says_what_does_not_fit():
    q, k, v = leaf(3, 4), leaf(5, 4), leaf(5, 4)
    fn = F.scaled_dot_product_attention
    with pytest.raises(ShapeError, match="as many features"):
        fn(q, leaf(5, 3), v)
    with pytest.raises(ShapeError, match="key and value must be as long"):
        fn(q, k, leaf(4, 4))
    with pytest.raises(ShapeError, match="does not broadcast to"):
        fn(q, k, v, leaf(2, 5))
    with pytest.raises(ShapeError, match="not both"):
        fn(q, k, v, leaf(3, 5), is_causal=True)
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
    q, k = leaf(3, 2, 4), leaf(5, 2, 4, seed=1)
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
    q = leaf(3, 4)
    result, weights = multi_head(q, q, q, average_attn_weights=False)
    batched, _ = multi_head(q.unsqueeze(1), q.unsqueeze(1), q.unsqueeze(1))
    assert weights.shape == (2, 3, 3)
    np.testing.assert_allclose(result.detach().numpy(), batched.squeeze(1).detach().numpy())


def test_heads_say_what_does_not_fit():
    q = leaf(3, 2, 4)
    with pytest.raises(ShapeError, match="key_padding_mask must be"):
        multi_head(q, q, q, key_padding_mask=ex.zeros(3, 2))
    with pytest.raises(ShapeError, match="attn_mask must be"):
        multi_head(q, q, q, attn_mask=ex.zeros(2, 2))
    with pytest.raises(ShapeError, match="only a hint"):
        multi_head(q, q, q, is_causal=True)
    with pytest.raises(ShapeError, match="expected 4"):
        multi_head(leaf(3, 2, 6), q, q)


def test_scale_is_one_over_the_root_of_the_features():
    q, k, v = leaf(1, 16), leaf(2, 16, seed=1), leaf(2, 1, seed=2)
    a, b = (F.scaled_dot_product_attention(q, k, v, scale=s).item() for s in (None, 1.0 / math.sqrt(16)))
    assert a == b
