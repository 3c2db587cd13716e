"""Optimizers of whole matrices beside their formulas and PyTorch."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import extempo as ex
from extempo import optim
from extempo.errors import ArgumentError, ShapeError

SHAPES = [(6, 4), (4, 6), (5, 5)]


def train(lib, name, options, n_steps=50):
    rng = np.random.default_rng(1)
    params = [lib.tensor(rng.normal(size=s).astype(np.float32), requires_grad=True) for s in SHAPES]
    optimizer = getattr(lib.optim, name)(params, **options)
    for _ in range(n_steps):
        for p in params:
            p.grad = lib.tensor(rng.normal(size=tuple(p.shape)).astype(np.float32))
        optimizer.step()
    return [p.detach().numpy() for p in params]


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adafactor", {}),
        ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "d": 2.0, "maximize": True, "eps": (1e-5, 1e-2)}),
        ("Muon", {}),
        ("Muon", {"lr": 0.02, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}),
    ],
    ids=str,
)
def test_fifty_steps_end_where_pytorchs_do(name, options):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    for ours, theirs in zip(train(ex, name, options), train(torch, name, options), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("cls", [optim.Adafactor, optim.Muon])
def test_training_goes_on_from_a_checkpoint_and_lowers_the_loss(cls):
    def advance(optimizer, w, n_steps):
        losses = []
        for _ in range(n_steps):
            optimizer.zero_grad()
            loss = ((w @ w.T - ex.eye(3)) ** 2).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    w = ex.tensor(np.random.default_rng(0).normal(size=(3, 4)), requires_grad=True)
    optimizer = cls([w], lr=0.05)
    losses = advance(optimizer, w, 10)
    assert losses[-1] < losses[0]
    again = w.detach().clone().requires_grad_()
    restored = cls([again])
    restored.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert advance(restored, again, 3) == advance(optimizer, w, 3)


def test_the_singular_values_of_a_muon_step_are_near_one():
    w = ex.zeros(8, 6, requires_grad=True)
    w.grad = ex.tensor(np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32))
    optim.Muon([w], lr=1.0, weight_decay=0.0, adjust_lr_fn="match_rms_adamw").step()
    sizes = np.linalg.svd(w.detach().numpy(), compute_uv=False) / (0.2 * 8**0.5)
    assert sizes.min() > 0.6
    assert sizes.max() < 1.3


def test_impossible_options_are_named():
    w = ex.ones(2, 2, requires_grad=True)
    for options, message in [
        ({"beta2_decay": 0.5}, "beta2_decay"),
        ({"eps": (-1.0, 1e-3)}, "eps"),
        ({"d": 0.5}, "d, where updates are clipped"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative"),
        ({"lr": -1.0}, "lr must not be negative"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            optim.Adafactor([w], **options)
    for options, message in [
        ({"adjust_lr_fn": "other"}, "adjust_lr_fn"),
        ({"ns_steps": 100}, "fewer than 100"),
        ({"momentum": -0.5}, "momentum"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            optim.Muon([w], **options)


def test_muon_refuses_what_is_no_matrix_and_stays_as_it_was():
    optimizer = optim.Muon([ex.ones(2, 2, requires_grad=True)])
    with pytest.raises(ShapeError, match=r"shape \(3,\); train it by AdamW"):
        optimizer.add_param_group({"params": [ex.ones(3, requires_grad=True)]})
    assert len(optimizer.param_groups) == 1


def test_sparse_adam_is_refused_in_words():
    with pytest.raises(ex.errors.UnsupportedError, match="use Adam"):
        optim.SparseAdam([ex.ones(1, requires_grad=True)])
