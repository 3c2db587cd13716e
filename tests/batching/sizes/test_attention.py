"""Attention with own lengths: the heads of all samples are one op."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn

from .sizes import agrees, drawn, forms

F = nn.functional
ATTENTION = "scaled_dot_product_attention"


def sequences(rng, n):
    return drawn(rng, n, 4), drawn(rng, n + 2, 4)


def heads(x):
    return x.unflatten(-1, (2, 2)).transpose(0, 1)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_samples_attend_to_themselves_in_one_batch(options):
    def fn(x, z):
        y = x * 1.0
        return F.scaled_dot_product_attention(heads(y), heads(y * 2.0), heads(y), **options), z

    assert forms(agrees(fn, sequences))[ATTENTION] == ["AttentionForm"]


def test_queries_of_other_lengths_than_keys():
    def fn(x, y):
        return F.scaled_dot_product_attention(heads(x * 1.0), heads(y * 1.0), heads(y * 3.0))

    assert forms(agrees(fn, sequences))[ATTENTION] == ["AttentionForm"]


@pytest.mark.parametrize(
    "mask",
    [
        lambda n: ex.ones(n, n, dtype=ex.bool).tril(),
        lambda n: ex.full((n, n), float("-inf")).triu(1)[None],
    ],
)
def test_a_causal_mask_is_seen_to_be_one(mask):
    def fn(x, z):
        y = x * 1.0
        return F.scaled_dot_product_attention(heads(y), heads(y * 2.0), heads(y), mask(len(x))), z

    assert forms(agrees(fn, sequences))[ATTENTION] == ["AttentionForm"]


def test_other_masks_run_call_by_call():
    def fn(x, z):
        y = x * 1.0
        return F.scaled_dot_product_attention(y, y, y, (y @ y.T) > 0), z

    (line,) = [line for line in agrees(fn, sequences).explain().lines if line.name == ATTENTION]
    assert line.batches == line.calls
    assert "is_causal" in line.advice


def test_a_mask_for_each_head_or_with_a_gradient_runs_call_by_call():
    def fn(x, z):
        y = x * 1.0
        masks = ex.stack([y @ y.T, y @ y.T * 0.0])
        of_heads = F.scaled_dot_product_attention(heads(y), heads(y), heads(y), masks)
        return of_heads, F.scaled_dot_product_attention(y, y, y, masks.detach()[0]), z

    agrees(fn, sequences)
