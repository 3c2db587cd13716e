"""Ragged tensors and the rest of the library: ex.batch, vmap, autograd, hooks, checkpoints, modules, writes, NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError, OverwrittenError

from .looped import made


def close(a, b):
    return np.allclose(np.array(a.tolist()), np.array(b.tolist()), atol=1e-6)


# ---- ex.batch


def test_rows_are_the_samples_of_a_batch():
    weight = ex.randn(3, 3, requires_grad=True)

    def sample(x, label):
        return (x @ weight).tanh().sum(0) * label

    x = made(2, 0, 3, requires_grad=True)
    found = []
    for run in (ex.batch(sample), ex.batch(sample, debug=True)):
        loss = ex.stack(run(x, ex.tensor([1.0, 2.0, 3.0]))).pow(2).sum()
        loss.backward()
        found.append((loss, x.grad.values(), weight.grad))
        x.grad = weight.grad = None
    for ours, theirs in zip(*found, strict=True):
        assert close(ours, theirs)


def test_samples_of_different_length_come_back_as_a_ragged_tensor():
    weight = ex.randn(3, 2, requires_grad=True)
    x = made(2, 0, 3)
    y = ex.ragged(ex.batch(lambda row: (row @ weight).relu())(x))
    assert close(y.values(), (x.values() @ weight).relu())
    y.values().sum().backward()
    assert weight.grad.abs().sum().item() > 0


def test_samples_may_share_make_and_return_ragged_tensors():
    table = made(1, 2, seed=1, requires_grad=True)
    x = made(2, 4)

    def sample(row, table):
        both = ex.ragged([row, row[:1]])
        return (row.sum() * table).sum(), both * 2 * table.values().sum()

    found = []
    for run in (ex.batch(sample), ex.batch(sample, debug=True)):
        results = run(x, table=table)
        for _, both in results:
            assert isinstance(both, ex.RaggedTensor)
        loss = sum(total + both.values().pow(2).sum() for total, both in results)
        loss.backward()
        found.append((loss, table.grad.values(), results[1][1].values().detach()))
        table.grad = None
    for ours, theirs in zip(*found, strict=True):
        assert np.allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-5)


def test_layers_and_cells_take_ragged_tensors_inside_of_a_sample():
    embedding, linear, lstm = nn.Embedding(8, 4), nn.Linear(4, 3), nn.LSTM(4, 3, batch_first=True)

    @ex.cell
    def pooled(words, scale):
        return (words * scale).sum(1)

    def document(sentences):
        words = embedding(sentences)
        states, _ = lstm(words)
        return (linear(words) + states).sum(1).sum(0) * pooled(words, ex.ones(4)).sum()

    documents = [ex.ragged([[1, 2, 3], [4]]), ex.ragged([[5, 6]]), ex.ragged([[7], [0, 1], [2, 3, 4]])]
    found = []
    for run in (ex.batch(document), ex.batch(document, debug=True)):
        total = ex.stack(run(documents))
        total.sum().backward()
        found.append((total, embedding.weight.grad))
        embedding.weight.grad = None
    for ours, theirs in zip(*found, strict=True):
        assert np.allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_vmap_says_that_ex_batch_is_meant():
    x = made(2, 3)
    with pytest.raises(DtypeError, match=r"use ex\.batch\(fn\)\(x\)"):
        ex.vmap(lambda row: row * 2)(x)
    with pytest.raises(DtypeError, match=r"return x\.values\(\)"):
        ex.vmap(lambda scale: x * scale)(ex.ones(4))
    scales = ex.tensor([1.0, 2.0])
    shared = ex.vmap(lambda x, scale: (x * scale).values().sum(), in_dims=(None, 0))(x, scales)
    assert close(shared, x.values().sum() * scales)


# ---- autograd


def test_gradients_by_and_of_ragged_tensors():
    x, w = made(2, 0, 3, requires_grad=True), ex.randn(3, requires_grad=True)
    y = x * x * w
    by_x, by_w = ex.autograd.grad(y.values().sum(), [x, w], retain_graph=True)
    assert by_x.shape == x.shape
    assert close(by_x.values(), 2 * x.values() * w)
    assert close(by_w, x.values().pow(2).sum(0))
    (by_x,) = ex.autograd.grad(y, x, ex.ones_like(y), create_graph=True)
    (second,) = ex.autograd.grad(by_x.values().sum(), x)
    assert close(second.values(), (2 * w).expand(5, 3))
    ex.autograd.backward([y, y.values().sum()], [2 * ex.ones_like(y), None])
    assert close(x.grad.values(), 6 * x.values() * w)
    (unused,) = ex.autograd.grad((w * w).sum(), [x], allow_unused=True)
    assert unused is None


def test_a_checkpointed_function_of_ragged_tensors():
    x, w = made(2, 0, 3, requires_grad=True), ex.randn(3, requires_grad=True)

    def fn(x):
        return nn.functional.dropout((x * w).sigmoid(), 0.5) * x

    found = []
    for run in (fn, lambda x: ex.utils.checkpoint.checkpoint(fn, x, use_reentrant=False)):
        ex.manual_seed(0)
        run(x).values().sum().backward()
        found.append((x.grad.values().tolist(), w.grad.tolist()))
        x.grad = w.grad = None
    assert found[0] == found[1]
    source = made(2, 3)
    y = ex.utils.checkpoint.checkpoint(fn, source, use_reentrant=False)
    source += 1
    with pytest.raises(OverwrittenError, match="input of the checkpointed function"):
        y.values().sum().backward()


def test_a_function_of_the_users_takes_values():
    class Double(ex.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Rows(ex.autograd.Function):
        @staticmethod
        def forward(ctx, values):
            return ex.ragged_from_values(values, [2, 3])

        @staticmethod
        def backward(ctx, g):
            return g

    x = made(2, 3, requires_grad=True)
    x.like(Double.apply(x.values())).values().sum().backward()
    assert x.grad.values().tolist() == [[2] * 3] * 5
    with pytest.raises(DtypeError, match=r"Double.apply: a Function takes tensors.*x\.like"):
        Double.apply(x)
    with pytest.raises(DtypeError, match=r"Rows.apply: a Function returns tensors"):
        Rows.apply(x.values())
    with ex.no_grad():
        assert Double.apply(x).tolist() == (2 * x).tolist()


def test_function_transforms_say_how():
    x = made(2, 3)
    with pytest.raises(DtypeError, match=r"differentiate by x\.values\(\)"):
        ex.func.grad(lambda x: x.values().sum())(x)
    g = ex.func.grad(lambda values: (x.like(values) * x).sum())(x.values())
    assert close(g, x.values())


# ---- modules and optimizers


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()


def test_hooks_of_modules_see_ragged_tensors():
    layer, x, seen = Layer(), made(2, 0, 3, requires_grad=True), []
    layer.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape))
    layer.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    layer.register_full_backward_pre_hook(lambda module, grads: seen.append(grads[0].shape))
    layer.register_full_backward_hook(lambda module, grads, outputs: seen.append(grads[0].shape) or (10 * grads[0],))
    layer(x).values().sum().backward()
    assert seen == [x.shape] * 4
    plain = Layer()
    plain.load_state_dict(layer.state_dict())
    y = made(2, 0, 3, requires_grad=True)
    plain(y).values().sum().backward()
    assert close(x.grad.values(), 10 * y.grad.values())


def test_parameters_buffers_and_optimizers_hold_the_values():
    x = made(2, 3)
    with pytest.raises(DtypeError, match=r"register x\.values\(\) and x\.offsets\(\)"):
        nn.Module().register_buffer("words", x)
    with pytest.raises(DtypeError, match=r"make one of x\.values\(\)"):
        nn.Parameter(x)
    with pytest.raises(DtypeError, match=r"pass x\.values\(\) of a ragged one"):
        ex.optim.SGD([x], lr=0.1)
    parameter = nn.Parameter(x.values())
    optimizer = ex.optim.SGD([parameter], lr=0.5)
    before = parameter.detach().clone()
    x.like(parameter).pow(2).sum().backward()
    optimizer.step()
    assert close(parameter, before - 0.5 * 2 * before)
    module = nn.Module()
    module.words = x  # an attribute like any other
    assert "words" not in module.state_dict()


# ---- writes


# ---- NumPy and Python
