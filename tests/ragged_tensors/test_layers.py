"""Layers on ragged tensors: lookups, normalization, dropout, activations, stacks of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import extempo as ex
from extempo import nn
from extempo.errors import IndexRangeError, ShapeError, UnsupportedError
from extempo.nn import functional as F

from .looped import FEW, LENGTHS, check_rows, leaf, ragged_ints, ragged_leaf, same

# ---- lookups


@FEW
@given(LENGTHS)
def test_embedding_is_that_of_each_row(lengths):
    table = leaf(7, 3)
    check_rows(F.embedding, ragged_ints(lengths, 7), table)
    check_rows(lambda x, t: F.embedding(x, t, padding_idx=2), ragged_ints(lengths, 7), table)
    check_rows(F.embedding, ragged_ints(lengths, 7, 2), table)


def test_embedding_counts_uses_and_lengths_of_vectors_over_all_rows():
    indices = ragged_ints([2, 0, 4], 5)
    tables = [leaf(5, 3), leaf(5, 3)]
    found = [
        F.embedding(x, t, scale_grad_by_freq=True, max_norm=1.0)
        for x, t in zip((indices, indices.values()), tables, strict=True)
    ]
    assert ex.equal(found[0].values(), found[1])
    assert ex.equal(*tables)
    found[0].values().sum().backward()
    found[1].sum().backward()
    assert ex.equal(tables[0].grad, tables[1].grad)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@FEW
@given(lengths=LENGTHS)
def test_each_row_is_a_bag(mode, lengths):
    table = leaf(7, 3)
    check_rows(
        lambda x, t: F.embedding_bag(x, t, mode=mode, padding_idx=2),
        ragged_ints(lengths, 7),
        table,
        of_row=lambda i, x, t: F.embedding_bag(x.unsqueeze(0), t, mode=mode, padding_idx=2).squeeze(0),
    )


def test_bags_with_weights():
    table, indices, weights = leaf(7, 3), ragged_ints([2, 0, 3], 7), ragged_leaf([2, 0, 3])
    bag = nn.EmbeddingBag.from_pretrained(table.detach(), freeze=False, mode="sum")
    found = bag(indices, per_sample_weights=weights)
    expected = ex.stack([(bag.weight[x] * w.unsqueeze(1)).sum(0) for x, w in zip(indices, weights, strict=True)])
    same(found, expected, [weights, bag.weight])
    with pytest.raises(ShapeError, match="lengths of the bags"):
        bag(indices, per_sample_weights=ragged_leaf([3, 0, 2]))
    with pytest.raises(ShapeError, match="without offsets"):
        bag(indices, ex.tensor([0, 1]))


def test_a_number_outside_of_the_table_is_named():
    with pytest.raises(IndexRangeError, match="row 9"):
        F.embedding(ex.ragged([[1, 9], [0]]), leaf(7, 3))


# ---- normalization


@FEW
@given(LENGTHS)
def test_norms_of_each_element(lengths):
    x, weight, bias = ragged_leaf(lengths, 4), leaf(4), leaf(4, seed=3)
    check_rows(lambda x, w, b: F.layer_norm(x, (4,), w, b), x, weight, bias)
    check_rows(lambda x, w: F.rms_norm(x, (4,), w), x, weight)
    check_rows(lambda x: F.layer_norm(x, (2, 4)), ragged_leaf(lengths, 2, 4))
    y, mean, scale = ex.native_layer_norm(x, [4], weight, bias, 1e-5)
    assert y._rows is mean._rows is scale._rows is x._rows


@FEW
@given(LENGTHS)
def test_norms_of_each_row(lengths):
    lengths = [length + 2 * (length == 1) for length in lengths]  # one element has no variance
    x, weight, bias = ragged_leaf(lengths, 4, dim=2), leaf(4), leaf(4, seed=3)

    def check(fn, *inputs):
        check_rows(fn, *inputs, of_row=lambda i, row, *rest: fn(row.unsqueeze(0), *rest).squeeze(0))

    check(lambda x, w, b: F.group_norm(x, 2, w, b), x, weight, bias)
    check(lambda x, w, b: F.instance_norm(x, weight=w, bias=b), x, weight, bias)
    check(lambda x: F.local_response_norm(x, 3), x)


@pytest.mark.parametrize("lengths", [[3, 0, 4], [2], [0, 2], [5, 1]])
def test_batch_norm_has_the_statistics_of_all_elements(lengths):
    modules = [nn.BatchNorm1d(4, dtype=ex.float64) for _ in range(2)]
    x = ragged_leaf(lengths, 4, dim=2)
    found, expected = modules[0](x), modules[1](x.values().T)  # elements as samples
    same(found.values().T, expected, [x])
    for name, buffer in modules[0].named_buffers():
        np.testing.assert_allclose(buffer.numpy(), modules[1].get_buffer(name).numpy(), rtol=1e-12)
    for module in modules:
        module.eval()
    same(modules[0](x).values().T, modules[1](x.values().T), [x])


def test_batch_norm_of_rows_that_are_all_empty_or_hold_one_element():
    module = nn.BatchNorm1d(4, dtype=ex.float64)
    assert module(ragged_leaf([0, 0], 4, dim=2)).lengths().tolist() == [0, 0]
    assert module.running_mean.tolist() == [0.0] * 4
    with pytest.raises(ShapeError, match="one value per channel"):
        module(ragged_leaf([0, 1], 4, dim=2))


def test_channels_come_second():
    with pytest.raises(ShapeError, match=r"x.transpose\(1, 2\)"):
        nn.BatchNorm1d(4)(ex.ragged([ex.randn(2, 4)]))
    with pytest.raises(UnsupportedError, match="track_running_stats"):
        nn.InstanceNorm1d(4, track_running_stats=True)(ex.ragged([ex.randn(4, 2)], dim=2))


def test_a_row_that_has_no_variance_is_named():
    with pytest.raises(ShapeError, match="row 1"):
        F.instance_norm(ragged_leaf([2, 1], 4, dim=2))


# ---- dropout


def test_dropout_draws_for_the_values_as_for_a_regular_tensor():
    x = ragged_leaf([3, 0, 2], 4)
    for fn in (F.dropout, lambda t: F.alpha_dropout(t, training=True)):
        ex.manual_seed(5)
        found = fn(x)
        after = ex.rand(2)
        ex.manual_seed(5)
        same(found.values(), fn(x.values()), [x])
        assert ex.equal(after, ex.rand(2))  # as many draws
    assert F.dropout(x, training=False) is x


def test_dropout_in_place():
    x = ragged_leaf([3, 0, 2], 4).detach()
    values = x.values()
    assert F.dropout(x, 0.5, inplace=True) is x
    assert x.values() is values
    assert 0 < (values == 0).sum().item() < values.numel()


def test_channels_are_dropped_for_each_row():
    x = ex.ragged([ex.ones(50, 3), ex.ones(50, 0), ex.ones(50, 2)], dim=2)
    y = F.dropout1d(x)
    for row in (y[0], y[2]):
        assert ex.equal(row, row[:, :1].expand(row.shape))
        assert set(row[:, 0].tolist()) == {0.0, 2.0}
    assert not ex.equal(y[0][:, 0], y[2][:, 0])
    steps = F.dropout1d(x.transpose(1, 2))  # the ragged dimension is that of the channels
    assert all(len(set(step)) == 1 for row in steps.tolist() for step in row)


# ---- activations and stacks

ACTIVATIONS = [
    nn.ReLU(), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Sigmoid(), nn.LeakyReLU(), nn.ELU(), nn.Softplus(), nn.Mish(),
    nn.Hardswish(), nn.LogSigmoid(), nn.GLU(), nn.Softmax(-1), nn.LogSoftmax(-1), nn.Softmin(-1),
    nn.PReLU(dtype=ex.float64),
]  # fmt: skip


@pytest.mark.parametrize("module", ACTIVATIONS, ids=lambda m: type(m).__name__)
def test_activations_are_those_of_each_row(module):
    check_rows(module, ragged_leaf([3, 0, 2], 4))


def test_softmax_along_rows():
    check_rows(nn.Softmax(1), ragged_leaf([3, 1, 2], 4), of_row=lambda i, x: F.softmax(x, 0))


def test_prelu_with_a_slope_for_each_channel():
    check_rows(F.prelu, ragged_leaf([3, 0, 2], 4, dim=2), leaf(4), of_row=lambda i, x, w: F.prelu(x.T, w).T)


@FEW
@given(LENGTHS)
def test_a_stack_of_layers(lengths):
    ex.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(7, 4), nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6), nn.Dropout(0.5), nn.Linear(6, 2)
    ).double()  # fmt: skip
    x = ragged_ints(lengths, 7)
    found, expected = model.eval()(x), model(x.values())
    same(found.values(), expected, list(model.parameters()))
    assert found._rows is x._rows


def test_a_compiled_stack_is_bitwise_that_of_eager_mode():
    ex.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 4), nn.LayerNorm(4), nn.Linear(4, 3))

    def loss_of(x):
        return (model(x) ** 2).values().sum()

    compiled = ex.compile(loss_of)
    for lengths in ([3, 1], [2, 5, 0], [3, 1], [3, 1]):
        results = []
        for run in (loss_of, compiled):
            model.zero_grad()
            loss = run(ragged_ints(lengths, 7))
            loss.backward()
            results.append((loss.item(), [p.grad.tolist() for p in model.parameters()]))
        assert results[0] == results[1]
