"""Native attention and its gradients against the NumPy kernels in float64, with guard zones around what is written."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.routines import attention
from extempo.nn import functional as F
from extempo.ops.attention import ScaledDotProductAttention
from extempo.ops.attention_gradient import AttentionGradient

from ..guarded import bind, call

# queries, keys, features, values: around the height of a strip, the width of a sliver and the size of a block of strips
SIZES = [
    (1, 1, 1, 1),
    (1, 40, 16, 16),
    (6, 6, 8, 8),
    (7, 17, 33, 5),
    (13, 4, 3, 20),
    (50, 50, 32, 32),
    (101, 97, 16, 24),
]
LAYOUTS = ["contiguous", "heads inside", "turned", "part of a row"]


def draw(rng, lead, n_rows, n_columns, dtype, layout="contiguous"):
    """Matrices of that shape in one of the layouts that models give them."""

    def normal(*shape):
        return rng.standard_normal(shape).astype(dtype)

    if layout == "heads inside":
        return np.moveaxis(normal(n_rows, *lead, n_columns), 0, -2)
    if layout == "turned":
        return normal(*lead, n_columns, n_rows).swapaxes(-1, -2)
    if layout == "part of a row":
        return normal(*lead, n_rows, 3 * n_columns)[..., n_columns : 2 * n_columns]
    return normal(*lead, n_rows, n_columns)


def inputs(rng, sizes, lead, dtype, layout="contiguous"):
    """The gradient of the result, query, key and value."""
    n_queries, n_keys, n_features, n_values = sizes
    shapes = ((n_queries, n_values), (n_queries, n_features), (n_keys, n_features), (n_keys, n_values))
    return [draw(rng, lead, *shape, dtype, layout) for shape in shapes]


def check(got, want, dtype):
    assert got.shape == want.shape
    tolerance = 1000 * np.finfo(dtype).eps
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


def check_both(g, query, key, value, scale, is_causal):
    """Both routines on the same operands."""
    wide = [x.astype(np.float64) for x in (g, query, key, value)]
    (y,) = call("attention", query, key, value, None, scale, is_causal=is_causal)
    check(y, ScaledDotProductAttention.numpy(*wide[1:], None, scale, is_causal=is_causal), query.dtype)
    gradients = call("attention_gradient", g, query, key, value, scale, is_causal=is_causal)
    for got, want in zip(gradients, AttentionGradient.numpy(*wide, scale, is_causal=is_causal), strict=True):
        check(got, want, query.dtype)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", SIZES)
def test_attention_agrees_with_numpy_for_all_sizes(sizes, dtype, is_causal):
    rng = np.random.default_rng(1)
    check_both(*inputs(rng, sizes, (2,), dtype), 0.3, is_causal)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attention_reads_views_in_place(layout):
    rng = np.random.default_rng(2)
    for sizes in SIZES[3:6]:
        check_both(*inputs(rng, sizes, (2, 3), np.float32, layout), 0.5, is_causal=True)


def test_heads_that_are_shared_broadcast():
    rng = np.random.default_rng(3)
    g, query = draw(rng, (2, 3), 9, 8, np.float32), draw(rng, (2, 3), 9, 16, np.float32)
    key, value = draw(rng, (2, 1), 12, 16, np.float32), draw(rng, (3,), 12, 8, np.float32)
    check_both(g, query, key, value, 0.4, is_causal=False)


def test_chunks_of_heads_give_the_same_bits_in_any_order(monkeypatch):
    rng = np.random.default_rng(4)
    g, query, key, value = inputs(rng, (20, 20, 16, 16), (7,), np.float32)
    before = call("attention_gradient", g, query, key, value, 0.25, is_causal=True)
    monkeypatch.setattr(attention, "CHUNK_PRODUCTS", 10_000)
    after = call("attention_gradient", g, query, key, value, 0.25, is_causal=True)
    for x, y in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, y)


def test_scores_of_any_size_keep_weights_finite():
    rng = np.random.default_rng(5)
    _, query, key, value = inputs(rng, (9, 9, 8, 8), (), np.float32)
    (y,) = call("attention", query * 1e4, key, value, None, 1.0, is_causal=True)
    assert np.isfinite(y).all()
    np.testing.assert_allclose(y[0], value[0], rtol=1e-6)


def test_hidden_keys_have_no_influence():
    rng = np.random.default_rng(6)
    g, query, key, value = inputs(rng, (20, 20, 16, 16), (), np.float32)
    changed = key.copy()
    changed[15:] += 7.0
    for k in (key, changed):
        (y,) = call("attention", query, k, value, None, 0.25, is_causal=True)
        into_query, _, into_value = call("attention_gradient", g, query, k, value, 0.25, is_causal=True)
        if k is key:
            expected = y[:15], into_query[:15]
    np.testing.assert_array_equal(y[:15], expected[0])
    np.testing.assert_array_equal(into_query[:15], expected[1])
    assert not np.array_equal(into_value, call("attention_gradient", g, query, key, value, 0.25, is_causal=True)[2])


def test_masks_and_empty_sizes_are_left_to_numpy():
    x = np.ones((2, 4, 8), np.float32)
    assert bind("attention", (x, x, x, np.ones((4, 4), np.float32), 0.5), {"is_causal": False}) is None
    assert bind("attention", (x, x[:, :0], x[:, :0], None, 0.5), {"is_causal": False}) is None
    assert bind("attention", (x.astype("f2"), x.astype("f2"), x.astype("f2"), None, 0.5), {"is_causal": False}) is None


def test_gradients_of_a_layer_do_not_depend_on_how_heads_lie():
    rng = np.random.default_rng(7)
    packed = rng.standard_normal((2, 10, 3 * 2 * 16)).astype(np.float32)

    def run(contiguous):
        x = ex.tensor(packed, requires_grad=True)
        heads = [t.reshape(2, 10, 2, 16).transpose(1, 2) for t in x.split(32, 2)]
        heads = [t.contiguous() for t in heads] if contiguous else heads
        F.scaled_dot_product_attention(*heads, is_causal=True).square().sum().backward()
        return x.grad.numpy()

    np.testing.assert_array_equal(run(True), run(False))
