"""Attention with own lengths: the heads of all samples are one op."""

from __future__ import annotations

import pytest

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


def test_masks_run_call_by_call():
    def fn(x, z):
        y = x * 1.0
        return F.scaled_dot_product_attention(y, y, y, (y @ y.T) > 0), z

    agrees(fn, sequences)
