"""The parametrizations that come with the library."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, ShapeError, UnsupportedError
from extempo.nn import utils
from extempo.nn.utils import parametrizations, parametrize


def test_a_state_of_the_older_weight_norm_can_be_loaded():
    older, newer = utils.weight_norm(nn.Linear(2, 3)), parametrizations.weight_norm(nn.Linear(2, 3))
    newer.load_state_dict(older.state_dict())
    x = ex.rand(4, 2)
    assert ex.equal(older(x), newer(x))
    within = nn.Sequential(parametrizations.weight_norm(nn.Linear(2, 3)))
    within.load_state_dict(nn.Sequential(older).state_dict())
    assert ex.equal(within(x), older(x))


def test_spectral_norm_as_parametrization():
    ex.manual_seed(0)
    net = parametrizations.spectral_norm(nn.Linear(5, 4), n_power_iterations=50)
    with ex.no_grad():
        assert ex.linalg.matrix_norm(net.weight, 2).item() == pytest.approx(1.0, rel=1e-3)
    assert parametrizations.spectral_norm(nn.Linear(5, 4), "bias").bias.norm().item() == pytest.approx(1.0)
    with pytest.raises(ShapeError, match="dim 3"):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=3)
    with pytest.raises(ArgumentError, match="no tensor"):
        parametrizations.spectral_norm(nn.Linear(2, 2), "scale")


# ---- orthogonal

ORTHOGONAL = [
    (shape, way, trivial)
    for shape in ((4, 4), (6, 3), (3, 6), (2, 5, 4))
    for way in ("matrix_exp", "cayley", "householder")
    for trivial in (True, False)
]


class Holder(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)


def is_orthogonal(x):
    tall = x if x.shape[-2] >= x.shape[-1] else x.mT
    return ex.allclose(tall.mT @ tall, ex.eye(tall.shape[-1], dtype=x.dtype).expand(*x.shape[:-2], -1, -1), atol=1e-5)


@pytest.mark.parametrize(("shape", "way", "trivial"), ORTHOGONAL, ids=str)
def test_an_orthogonal_weight_stays_so_while_it_trains(shape, way, trivial):
    module = Holder(ex.tensor(np.random.default_rng(0).normal(size=shape)))
    parametrizations.orthogonal(module, "weight", way, use_trivialization=trivial)
    assert is_orthogonal(module.weight)
    optimizer = ex.optim.SGD(module.parameters(), lr=0.1)
    goal = ex.tensor(np.random.default_rng(1).normal(size=shape))
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((module.weight - goal) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert is_orthogonal(module.weight)
    assert losses[-1] < losses[0]


@pytest.mark.conformance
@pytest.mark.parametrize(("shape", "way", "trivial"), ORTHOGONAL, ids=str)
def test_orthogonal_weights_and_gradients_are_pytorchs(shape, way, trivial):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    start = np.random.default_rng(2).normal(size=shape)
    results = []
    for lib, layers in ((ex, nn), (torch, torch.nn)):
        module = layers.Module()
        module.weight = layers.Parameter(lib.tensor(start))
        layers.utils.parametrizations.orthogonal(module, "weight", way, use_trivialization=trivial)
        (chain,) = module.parametrizations.weight
        if trivial:  # columns that complete it are drawn at random: take PyTorch's way from a base of our own
            n = max(shape[-2:])
            base = np.linalg.qr(np.random.default_rng(3).normal(size=(*shape[:-2], n, n)))[0]
            chain.base = lib.tensor(base)
        original = module.parametrizations.weight.original
        change = np.random.default_rng(4).normal(size=shape) * 0.1
        original.data = original.data + lib.tensor(
            np.tril(change, -1) if shape[-2] >= shape[-1] else np.triu(change, 1)
        )
        (module.weight * lib.tensor(np.arange(start.size).reshape(shape) * 1.0)).sum().backward()
        results.append((module.weight, original.detach(), original.grad, sorted(module.state_dict())))
    for ours, theirs in zip(results[0][:3], results[1][:3], strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6, atol=1e-8)
    assert results[0][3] == results[1][3]


def test_an_orthogonal_weight_can_be_assigned_and_removed():
    module = parametrizations.orthogonal(nn.Linear(4, 4))
    q = ex.linalg.qr(ex.tensor(np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)))[0]
    module.weight = q
    assert ex.allclose(module.weight, q, atol=1e-6)
    parametrize.remove_parametrizations(module, "weight")
    assert ex.allclose(module.weight, q, atol=1e-6)


def test_what_cannot_be_orthogonal_is_named():
    with pytest.raises(ArgumentError, match="no tensor 'wieght'"):
        parametrizations.orthogonal(nn.Linear(2, 2), "wieght")
    with pytest.raises(ShapeError, match="expected matrices"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ArgumentError, match="one of"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="qr")
    module = parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(UnsupportedError, match="householder"):
        module.weight = ex.eye(2)
    with pytest.raises(ShapeError, match="expected matrices of shape"):
        parametrizations.orthogonal(nn.Linear(2, 2)).weight = ex.eye(3)
