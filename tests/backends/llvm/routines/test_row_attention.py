"""The native code of attention row by row: the bits of attention of each row, whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.dispatch.dispatcher import apply
from extempo.errors import ShapeError
from extempo.ops.attention import ScaledDotProductAttention
from extempo.ops.attention_gradient import AttentionGradient
from extempo.ops.row_attention import RowAttention, RowAttentionGradient

LENGTHS = [
    ([1, 2, 3], [3, 2, 1]),
    ([6, 7, 13], [16, 17, 48]),
    ([0, 5, 0, 30], [4, 0, 0, 50]),
    ([70, 1, 49], [70, 1, 49]),
]


def drawn(dtype, queries, keys, heads, n_features, n_values):
    """gradient, query, key, value, of which the heads lie inside as those of projections do, and both offsets."""
    rng = np.random.RandomState(0)
    shapes = (queries, n_values), (queries, n_features), (keys, n_features), (keys, n_values)
    made = [ex.from_numpy(rng.normal(size=(sum(n), heads, m)).astype(dtype)).transpose(0, 1) for n, m in shapes]
    return made, [ex.from_numpy(np.cumsum([0, *n])) for n in (queries, keys)]


def parts(x, lengths):
    return x.split_with_sizes(lengths, 1)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
@pytest.mark.parametrize(("n_features", "n_values"), [(1, 1), (16, 16), (33, 7)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_have_the_bits_of_attention_of_each(dtype, n_features, n_values, queries, keys, is_causal):
    (g, query, key, value), offsets = drawn(dtype, queries, keys, 2, n_features, n_values)
    before = dict(ex.backends.stats()["fallbacks"])
    attrs = {"is_causal": is_causal}
    found = apply(RowAttention, (query, key, value, *offsets, 0.3), attrs)
    gradients = apply(RowAttentionGradient, (g, query, key, value, *offsets, 0.3), attrs)
    if ex.backends.stats()["backend"] == "native":
        after = ex.backends.stats()["fallbacks"]
        assert all(after.get(name, 0) == before.get(name, 0) for name in ("row_attention", "row_attention_gradient"))
    rows = zip(*map(parts, (g, query, key, value), (queries, queries, keys, keys)), strict=True)
    expected = []
    for gi, q, k, v in rows:
        y = apply(ScaledDotProductAttention, (q, k, v, None, 0.3), attrs)
        if q.numel() and k.numel():
            expected.append((y, *apply(AttentionGradient, (gi, q, k, v, 0.3), attrs)))
        else:
            expected.append((y, *map(ex.zeros_like, (q, k, v))))
    for ours, theirs in zip((found, *gradients), zip(*expected, strict=True), strict=True):
        assert ex.equal(ours, ex.cat(theirs, 1))


def test_threads_change_no_bit():
    (g, query, key, value), offsets = drawn("float32", [200, 90, 0, 310], [200, 90, 0, 310], 3, 32, 32)
    n_threads = ex.get_num_threads()
    results = []
    try:
        for n in (1, 2):
            ex.set_num_threads(n)
            results.append(apply(RowAttentionGradient, (g, query, key, value, *offsets, 0.3), {"is_causal": True}))
    finally:
        ex.set_num_threads(n_threads)
    assert all(ex.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("wrong", [[0, 7, 6], [1, 3, 6], [0, 3, 7], [0, -1, 6]])
def test_offsets_that_are_none_are_declined(wrong):
    (_, query, key, value), (offsets, _) = drawn("float32", [3, 3], [3, 3], 1, 4, 4)
    for given in ((ex.tensor(wrong), offsets), (offsets, ex.tensor(wrong))):
        with pytest.raises(ShapeError, match="offsets must rise"):
            apply(RowAttention, (query, key, value, *given, 0.3), {"is_causal": False})
