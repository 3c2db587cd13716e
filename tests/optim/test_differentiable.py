"""Gradients through the steps of an optimizer, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import optim
from extempo.errors import LeafWriteError

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.1}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("Adadelta", {"lr": 0.5}),
    ("RMSprop", {"lr": 0.1, "centered": True, "momentum": 0.9}),
    ("Rprop", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "t0": 1, "lambd": 0.1}),
]
X = np.random.default_rng(3).normal(size=(5, 4))
Y = np.random.default_rng(4).normal(size=(5, 3))
W = np.random.default_rng(5).normal(size=(4, 3))


def trained(lib, optimizer_of, w, n_steps, x):
    """The loss after steps that are part of the graph, from `w` on data `x`."""
    p = w.clone()
    y = lib.tensor(Y)
    optimizer = optimizer_of([p])
    for _ in range(n_steps):
        here = p.clone()  # what the loss keeps for its gradient must not be written
        loss = ((x @ here - y) ** 2).sum() + (here**3).sum() * 0.1
        (p.grad,) = lib.autograd.grad(loss, here, create_graph=True)
        optimizer.step()
    return ((x @ p - y) ** 2).mean()


def hypergradients(lib, name, options, n_steps=3):
    x, w = (lib.tensor(values, requires_grad=True) for values in (X, W))
    loss = trained(lib, lambda params: getattr(lib.optim, name)(params, differentiable=True, **options), w, n_steps, x)
    return loss, *lib.autograd.grad(loss, (x, w))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_gradients_by_data_and_start_are_pytorchs(name, options):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    # PyTorch cuts the gradient at the first momentum of SGD, and cannot go through a second step of some others.
    n_steps = 3 if name in ("NAdam", "RAdam", "Adagrad", "ASGD") else 1
    if options.get("momentum") and name == "SGD":
        options = {**options, "momentum": 0.0, "nesterov": False, "dampening": 0.0}
    pairs = zip(hypergradients(ex, name, options, n_steps), hypergradients(torch, name, options, n_steps), strict=True)
    for ours, theirs in pairs:  # PyTorch's corrections are of float32
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-4, atol=1e-7)


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_gradients_through_three_steps_are_those_of_finite_differences(name, options):
    along = np.random.default_rng(6).normal(size=W.shape)

    def loss_at(step):
        make = lambda params: getattr(optim, name)(params, differentiable=True, **options)  # noqa: E731
        w = ex.tensor(W + step * along, requires_grad=True)
        return trained(ex, make, w, 3, ex.tensor(X)), w

    loss, w = loss_at(0.0)
    (gradient,) = ex.autograd.grad(loss, w)
    expected = (loss_at(1e-6)[0].item() - loss_at(-1e-6)[0].item()) / 2e-6
    assert (gradient.numpy() * along).sum() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("SGD", "lr", 0.05),
        ("Adam", "lr", 0.05),
        ("AdamW", "weight_decay", 0.2),
        ("RMSprop", "lr", 0.05),
        ("NAdam", "lr", 0.05),
        ("ASGD", "lr", 0.05),
    ],
)
def test_options_that_require_grad_get_theirs(name, option, value):
    def loss_at(chosen):
        x, w = ex.tensor(X), ex.tensor(W)
        w.requires_grad_()
        make = lambda params: getattr(optim, name)(params, differentiable=True, **{option: chosen})  # noqa: E731
        return trained(ex, make, w, 3, x)

    chosen = ex.tensor(value, dtype=ex.float64, requires_grad=True)
    (found,) = ex.autograd.grad(loss_at(chosen), chosen)
    expected = (loss_at(value + 1e-6).item() - loss_at(value - 1e-6).item()) / 2e-6
    assert found.item() == pytest.approx(expected, rel=1e-3)  # the numbers of a state are of float32


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_the_step_itself_is_that_of_the_fused_pass(name, options):
    rng = np.random.default_rng(0)
    fused, recorded = ex.tensor(W, requires_grad=True), ex.tensor(W, requires_grad=True).clone()
    optimizers = [
        getattr(optim, name)([fused], **options),
        getattr(optim, name)([recorded], differentiable=True, **options),
    ]
    for _ in range(5):
        g = rng.normal(size=W.shape)
        fused.grad, recorded.grad = ex.tensor(g), ex.tensor(g)
        for optimizer in optimizers:
            optimizer.step()
    np.testing.assert_allclose(recorded.detach().numpy(), fused.detach().numpy(), rtol=1e-7)
    for key, value in optimizers[0].state[fused].items():
        np.testing.assert_allclose(optimizers[1].state[recorded][key].detach().numpy(), value.numpy(), rtol=1e-6)


def test_a_leaf_cannot_be_updated_so():
    w = ex.ones(2, requires_grad=True)
    w.grad = ex.ones(2)
    with pytest.raises(LeafWriteError):
        optim.SGD([w], differentiable=True).step()
