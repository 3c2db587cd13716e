"""Ops for all samples at once: on what is shared, of one shape, or with rows of each sample's own."""

from __future__ import annotations

import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn

from .loops_beside import alike, assert_same, check, n_in_lockstep, ragged, weight

OF_ROWS = {
    "relu": lambda x, w: F.relu(x @ w),
    "softmax of rows": lambda x, w: F.softmax(x @ w, -1),
    "softmax over rows": lambda x, w: F.softmax(x @ w, 0),
    "log_softmax over rows": lambda x, w: F.log_softmax(x @ w, 0),
    "mean of rows": lambda x, w: (x @ w).mean(0),
    "mean in rows": lambda x, w: (x @ w).mean(1),
    "mean of all": lambda x, w: (x @ w).mean(),
    "amax": lambda x, w: (x @ w).amax(0),
    "max and argmax": lambda x, w: tuple((x @ w).max(0)),
    "argmax": lambda x, w: (x @ w).argmax(0),
    "prod": lambda x, w: (x @ w).prod(0),
    "std": lambda x, w: (x @ w).std(0, unbiased=False),
    "logsumexp": lambda x, w: (x @ w).logsumexp(0),
    "norm": lambda x, w: F.normalize(x @ w, dim=-1),
    "layer_norm": lambda x, w: F.layer_norm(x @ w, (4,)),
    "where": lambda x, w: ex.where(x @ w > 0, x @ w, 0.5),
    "clamp": lambda x, w: (x @ w).clamp(-0.5, 0.5),
    "cat of rows": lambda x, w: ex.cat([x @ w, x @ w * 2], 0),
    "cat in rows": lambda x, w: ex.cat([x, x @ w], 1),
    "cat with a row that all share": lambda x, w: ex.cat([w[0].unsqueeze(0), x @ w], 0),
    "stack": lambda x, w: ex.stack([x @ w, x @ w * 2], 1),
    "minus the mean": lambda x, w: x @ w - (x @ w).mean(0, keepdim=True),
    "times a vector": lambda x, w: (x @ w) * w[0],
    "times a scalar": lambda x, w: (x @ w) * w[0, 0],
    "unsqueeze": lambda x, w: (x @ w).unsqueeze(0) * 2,
    "transposed": lambda x, w: (x @ w).T * 2,
    "products of all pairs": lambda x, w: (x @ w @ (x @ w).T).sum(1),
    "attention": lambda x, w: F.softmax(x @ w @ (x @ w).T, -1) @ x,
    "cumsum": lambda x, w: (x @ w).cumsum(0),
    "flip": lambda x, w: (x @ w).flip(0),
    "sort": lambda x, w: (x @ w).sort(0)[0],
    "detach": lambda x, w: (x @ w).detach() * w[0],
    "to double": lambda x, w: (x @ w).double().sum(0),
    "compare": lambda x, w: ((x @ w) > 0).float().mean(0),
    "masked_fill": lambda x, w: (x @ w).masked_fill(x @ w > 0, 0.0),
    "reshape": lambda x, w: (x @ w).reshape(-1, 2, 2).sum(1),
    "flatten": lambda x, w: (x @ w).flatten() * 2,
    "einsum": lambda x, w: ex.einsum("ni,ij->nj", x, w),
    "outer": lambda x, w: x.sum(1)[:, None] * w[0],
    "roll": lambda x, w: (x @ w).roll(1, 0),
    "differences": lambda x, w: (x @ w)[1:] - (x @ w)[:-1],
    "pairs": lambda x, w: ((x @ w)[:, None] - (x @ w)[None]).square().sum(-1).mean(1),
    "conv1d": lambda x, w: F.conv1d(x.T[None], w.T[:, :, None])[0],
    "every second": lambda x, w: (x @ w)[::2] * 1,
    "arange": lambda x, w: (x @ w) * ex.arange(len(x))[:, None],
    "zeros of a size": lambda x, w: ex.zeros(len(x), 4) + w[0] + (x @ w),
    "a number of each": lambda x, w: (x @ w) * (1.0 / len(x)),
    "expand": lambda x, w: w[0].expand(len(x), 4) * (x @ w),
    "var": lambda x, w: (x @ w).var(0, unbiased=False),
    "quadratic": lambda x, w: (x @ w).square().sum().sqrt(),
}


@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.parametrize("lengths", [(4, 1, 3, 7, 3), (5, 5, 5), (2, 1)], ids=str)
def test_an_op_gives_what_it_gives_in_the_loop(name, lengths):
    w, fn = weight(3, 4), OF_ROWS[name]
    batched = ex.batch(lambda x: fn(x, w))
    samples = ragged(3, lengths=lengths)
    batched(samples)
    check(lambda x: fn(x, w), samples, parameters=[w], ran=n_in_lockstep(batched))


@pytest.mark.parametrize("name", OF_ROWS)
def test_an_op_gives_what_it_gives_in_the_loop_where_samples_are_empty(name):
    w, fn = weight(3, 4), OF_ROWS[name]
    expected, errors = [], []
    samples = ragged(3, lengths=(3, 0, 2, 0))
    for x in samples:
        try:
            expected.append(fn(x, w))
        except Exception as error:
            errors.append(type(error))
    batched = ex.batch(lambda x: fn(x, w))
    for _ in range(2):
        if errors:
            with pytest.raises(errors[0]):
                batched(samples)
        else:
            assert_same(batched(samples), expected, name)


OF_ONE_SHAPE = {
    "linear": lambda x, w: ex.tanh(x @ w),
    "outer": lambda x, w: x.sum(0)[:, None] * w,
    "batch of one": lambda x, w: (x @ w)[None].mean(1),
    "scalar": lambda x, w: x.sum() * w + x.mean(),
    "integers": lambda x, w: w[(x.sum(0) > 0).long()],
    "matmul of own": lambda x, w: x.T @ x,
    "norm": lambda x, w: F.layer_norm(x, (3,)),
    "select": lambda x, w: x[1] @ w,
    "topk": lambda x, w: x.topk(1, 0)[0],
}


@pytest.mark.parametrize("name", OF_ONE_SHAPE)
def test_an_op_on_samples_of_one_shape_gives_what_it_gives_in_the_loop(name):
    w, fn = weight(3, 4), OF_ONE_SHAPE[name]
    check(lambda x: fn(x, w), alike(4, 2, 3), parameters=[w])


def test_a_number_of_each_sample_gives_way_as_a_number_does():
    check(lambda x: (x * len(x), x / len(x), x + len(x) / 2), [x.to(ex.float16) for x in ragged(3)])
    check(lambda x: (x * len(x), x / len(x), x // len(x)), [(x * 9).long() for x in ragged(3)])


def test_a_0_dim_value_of_each_sample_gives_way_to_others():
    check(lambda x: x * x.double().sum() + x.sum(), ragged(3))
    check(lambda x: x * x.sum().double(), alike(3, 4))


def test_ops_without_a_rule_run_one_after_the_other():
    w = weight(3, 4)
    samples = [weight(n, m, 3, seed=n).detach() for n, m in ((2, 3), (1, 4), (3, 1))]
    check(lambda x: ex.tanh(x @ w).exp().sum((0, 1)), samples, parameters=[w])


def test_modules_of_the_library_give_what_they_give_in_the_loop():
    ex.manual_seed(0)
    layers = [
        nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)),
        nn.LSTM(3, 4),
        nn.GRU(3, 4),
        nn.RNN(3, 4),
        nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
    ]
    for layer in layers:
        layer.eval()
        wide = isinstance(layer, nn.TransformerEncoderLayer)

        def fn(x, layer=layer, wide=wide):
            y = layer(x[None])[0] if wide else layer(x)
            return (y[0] if isinstance(y, tuple) else y).sum(0)

        expected = [fn(x) for x in ragged(4 if wide else 3)]
        assert_same(ex.batch(fn)(ragged(4 if wide else 3)), expected, type(layer).__name__)
