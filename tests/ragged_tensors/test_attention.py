"""Attention of ragged sequences is that of each row, and multiplies nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError, UnsupportedError
from extempo.nn import functional as F
from extempo.ops.row_attention import RowAttention, RowAttentionGradient

from .looped import FEW, LENGTHS, check_rows, leaf, ragged_leaf, same

attend = F.scaled_dot_product_attention
PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=5)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=lambda o: "".join(o) or "plain")
@FEW
@given(lengths=LENGTHS)
def test_self_attention_is_that_of_each_row(options, lengths):
    q, k, v = (ragged_leaf(lengths, 4, seed=seed) for seed in (1, 2, 3))
    check_rows(lambda *given: attend(*given, **options), q, k, v)
    q, k, v = (ragged_leaf(lengths, 2, 4, dim=2, seed=seed) for seed in (1, 2, 3))  # heads
    check_rows(lambda *given: attend(*given, **options), q, k, v)


@pytest.mark.parametrize("is_causal", [False, True])
@FEW
@given(lengths=PAIRS)
def test_queries_of_other_lengths(is_causal, lengths):
    queries, keys = [q for q, _ in lengths], [k for _, k in lengths]
    q, k, v = (
        ragged_leaf(queries, 2, 4, dim=2),
        ragged_leaf(keys, 2, 4, dim=2, seed=2),
        ragged_leaf(keys, 2, 3, dim=2, seed=3),
    )
    y = check_rows(lambda *given: attend(*given, is_causal=is_causal), q, k, v)
    assert y.lengths().tolist() == queries


@FEW
@given(LENGTHS)
def test_regular_queries_or_keys(lengths):
    n, k, v = len(lengths), ragged_leaf(lengths, 4), ragged_leaf(lengths, 3, seed=5)
    check_rows(attend, leaf(n, 2, 4), k, v, of_row=lambda i, q, k, v: attend(q[i], k, v))
    check_rows(attend, leaf(2, 4), k, v)  # the same for all rows
    check_rows(attend, k, leaf(n, 2, 4), leaf(n, 2, 3), of_row=lambda i, q, k, v: attend(q, k[i], v[i]))


def test_a_ragged_dimension_that_is_no_sequence():
    q, k, v = (ragged_leaf([2, 0, 3], 5, 4, seed=seed) for seed in (1, 2, 3))  # five places for each element
    check_rows(attend, q, k, v)


def test_heads_that_share_keys():
    q, k, v = ragged_leaf([2, 0, 3], 4, 3, dim=2), *(ragged_leaf([2, 0, 3], 2, 3, dim=2, seed=s) for s in (2, 3))
    check_rows(lambda *given: attend(*given, enable_gqa=True), q, k, v)


@pytest.mark.parametrize("shape", [(5, 4), (1, 4), (2, 5, 4), (3, 1, 5, 4), (3, 2, 5, 4)])
def test_each_row_takes_its_part_of_a_mask(shape):
    q, k, v = ragged_leaf([2, 0, 5], 2, 3, dim=2), *(ragged_leaf([4, 2, 1], 2, 3, dim=2, seed=s) for s in (2, 3))

    def of_row(i, q, k, v, mask):
        mask = mask[i] if mask.ndim == 4 else mask
        return attend(q, k, v, mask[..., : q.shape[-2] if shape[-2] > 1 else 1, : k.shape[-2]])

    check_rows(attend, q, k, v, leaf(*shape, seed=9), of_row=of_row)


def test_dropout_drops_weights():
    q, k = ragged_leaf([4, 3], 2), ragged_leaf([50, 50], 2)
    v = ex.ragged([ex.ones(50, 1, dtype=ex.float64)] * 2)
    y = attend(q, k, v, dropout_p=0.5)
    assert y.lengths().tolist() == [4, 3]
    assert not ex.allclose(y.values(), ex.ones(7, 1, dtype=ex.float64))


def test_second_derivatives_are_those_of_each_row():
    q, k, v = (ragged_leaf([2, 3], 3, seed=seed) for seed in (1, 2, 3))

    def penalty(run):
        leaves = [x.values() for x in (q, k, v)]
        gradients = ex.autograd.grad((run() ** 2).sum(), leaves, create_graph=True)
        return sum((g * g).sum() for g in gradients)

    def looped():
        return ex.cat([attend(*row) for row in zip(q, k, v, strict=True)])

    same(penalty(lambda: attend(q, k, v).values()), penalty(looped), [q, k, v])


Q, K = ragged_leaf([2, 3], 4), ragged_leaf([3, 2], 4)


@pytest.mark.parametrize(
    ("compute", "says"),
    [
        (lambda: attend(Q.mT, Q.mT, Q.mT), r"x.transpose\(1, 2\)"),
        (lambda: attend(Q, K, Q), "key and value must have the same rows"),
        (lambda: attend(Q, K, leaf(2, 3, 4)), "key and value must have the same rows"),
        (lambda: attend(Q, ragged_leaf([1], 4), ragged_leaf([1], 4)), "as many rows"),
        (lambda: attend(leaf(3, 2, 4), K, K), "2 rows, but 3 samples"),
        (lambda: attend(Q, Q, Q, leaf(2, 2)), "longest rows"),
        (lambda: attend(Q, ragged_leaf([3, 2], 5), ragged_leaf([3, 2], 5)), "as many features"),
    ],
)
def test_shapes_that_do_not_fit_are_described(compute, says):
    with pytest.raises(ShapeError, match=says):
        compute()


# ---- multiplications


def test_attention_multiplies_as_many_pairs_as_the_rows_have(monkeypatch):
    """Its kernel is counted that is made of NumPy's products; the native one has the same rows."""
    real, counts = np.matmul, []

    def counted(a, b):
        counts.append(a.shape[-2] * a.shape[-1] * b.shape[-1])
        return real(a, b)

    lengths, n_features = [16, 0, 512, 1], 4
    x = ragged_leaf(lengths, n_features)
    rows = [x.values().detach().numpy()] * 3, [x.offsets().numpy()] * 2
    n_pairs = sum(n * n for n in lengths)
    monkeypatch.setattr(np, "matmul", counted)
    y = RowAttention.numpy(*rows[0], *rows[1], 0.5, is_causal=False)
    assert sum(counts) == 2 * n_pairs * n_features  # scores, and weights with values
    counts.clear()
    RowAttentionGradient.numpy(y, *rows[0], *rows[1], 0.5, is_causal=False)
    assert sum(counts) == 5 * n_pairs * n_features  # scores again, and those of four gradients
    np.testing.assert_allclose(attend(x, x, x, scale=0.5).values().detach().numpy(), y, rtol=1e-12)


def test_all_rows_are_one_op_and_no_element_is_added(monkeypatch):
    from extempo.ragged_tensors import attention

    seen = []
    real = attention.apply
    monkeypatch.setattr(attention, "apply", lambda op, *given: seen.append((op, given[0][0].shape)) or real(op, *given))
    x = ragged_leaf([16, 0, 50, 1], 2, 4, dim=2)
    attend(x, x, x)
    assert seen == [(RowAttention, (2, 67, 4))]


# ---- layers


def layers(module):
    ex.manual_seed(0)
    return module().double()


@pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=["plain", "causal"])
@FEW
@given(lengths=LENGTHS)
def test_multihead_attention_is_that_of_each_row(options, lengths):
    layer = layers(lambda: nn.MultiheadAttention(4, 2))

    def of_row(i, x, *weights):
        mask = ex.ones(len(x), len(x), dtype=ex.bool).triu(1) if options else None
        return layer(x, x, x, need_weights=False, attn_mask=mask)[0]

    x = ragged_leaf(lengths, 4)
    check_rows(lambda x, *w: layer(x, x, x, need_weights=False, **options)[0], x, *layer.parameters(), of_row=of_row)


VARIANTS = {
    "batch_first": lambda: nn.MultiheadAttention(4, 2, batch_first=True),
    "other features": lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=5, bias=False),
    "a learned key": lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True),
    "a key of zeros": lambda: nn.MultiheadAttention(4, 2, add_zero_attn=True),
}


@pytest.mark.parametrize("name", VARIANTS)
@FEW
@given(lengths=PAIRS)
def test_variants_of_multihead_attention(name, lengths):
    layer = layers(VARIANTS[name])
    queries, keys = [q for q, _ in lengths], [k for _, k in lengths]
    q, k, v = ragged_leaf(queries, 4), ragged_leaf(keys, layer.kdim, seed=2), ragged_leaf(keys, layer.vdim, seed=3)
    check_rows(lambda q, k, v, *w: layer(q, k, v, need_weights=False)[0], q, k, v, *layer.parameters())


def test_weights_are_one_tensor_for_each_row():
    layer = layers(lambda: nn.MultiheadAttention(4, 2))
    q, k = ragged_leaf([2, 0, 3], 4), ragged_leaf([1, 2, 4], 4, seed=2)
    result, weights = layer(q, k, k)
    assert [w.shape for w in weights] == [(2, 1), (0, 2), (3, 4)]
    for i in range(3):
        expected = layer(q[i], k[i], k[i])
        same(result[i], expected[0], [q, k])
        same(weights[i], expected[1], [q, k])
    assert [w.shape for w in layer(q, k, k, average_attn_weights=False)[1]] == [(2, 2, 1), (2, 0, 2), (2, 3, 4)]


@pytest.mark.parametrize("shape", [(3, 3), (6, 3, 3)])
def test_masks_of_layers_say_what_is_not_allowed(shape):
    layer = layers(lambda: nn.MultiheadAttention(4, 2))
    x = ragged_leaf([2, 1, 3], 4)
    mask = (leaf(*shape).detach() > 1.0) & ~ex.eye(3, dtype=ex.bool)
    for need_weights in (False, True):
        result, _ = layer(x, x, x, attn_mask=mask, need_weights=need_weights)
        for i, row in enumerate(x):
            part = (mask if mask.ndim == 2 else mask[2 * i : 2 * i + 2])[..., : len(row), : len(row)]
            same(result[i], layer(row, row, row, attn_mask=part)[0], [x])


def test_padding_masks_are_refused():
    layer = layers(lambda: nn.MultiheadAttention(4, 2))
    with pytest.raises(UnsupportedError, match="no padding"):
        layer(Q, Q, Q, key_padding_mask=ex.zeros(2, 3, dtype=ex.bool))


@pytest.mark.parametrize("norm_first", [False, True])
@FEW
@given(lengths=PAIRS)
def test_transformers_of_ragged_sequences(norm_first, lengths):
    options = {"dropout": 0.0, "norm_first": norm_first, "dim_feedforward": 6}
    encoder = layers(lambda: nn.TransformerEncoderLayer(4, 2, **options))
    queries, keys = [q for q, _ in lengths], [k for _, k in lengths]
    x, memory = ragged_leaf(queries, 4), ragged_leaf(keys, 4, seed=2)
    check_rows(lambda x, *w: encoder(x), x, *encoder.parameters(), rtol=1e-7)
    model = layers(lambda: nn.Transformer(4, 2, 1, 1, **options))
    check_rows(lambda memory, x: model(memory, x), memory, x, rtol=1e-7)


def test_a_compiled_layer_is_bitwise_that_of_eager_mode():
    layer = layers(lambda: nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.0)).float()

    def loss_of(x):
        return (layer(x, is_causal=True) ** 2).values().sum()

    compiled = ex.compile(loss_of)
    for lengths in ([3, 1], [2, 5, 0], [3, 1], [3, 1]):
        results = []
        for run in (loss_of, compiled):
            layer.zero_grad()
            x = ragged_leaf(lengths, 4, dtype=ex.float32)
            loss = run(x)
            loss.backward()
            results.append((loss.item(), x.grad.values().tolist(), [p.grad.tolist() for p in layer.parameters()]))
        assert results[0] == results[1]
