"""Programs whose length their values decide, sparse and wide ones, and two in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from workload import LEARNING_RATE, Step, Wrap

from .shared import filled, tensors, training


def neural_ode(lib: Any, wrap: Wrap) -> Step:
    """A neural ODE of two variables, 32 of them: Bogacki and Shampine's method with an adaptive step, Adam."""
    nn = lib.nn
    field = filled(lib, nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2)))
    optimizer = lib.optim.Adam(field.parameters(), lr=LEARNING_RATE)

    def flow(y: Any, until: float = 1.0, tolerance: float = 1e-3) -> Any:
        at, size, k1 = 0.0, 0.1, field(y)
        while at < until:
            size = min(size, until - at)
            k2 = field(y + 0.5 * size * k1)
            k3 = field(y + 0.75 * size * k2)
            new = y + size * (2 / 9 * k1 + 1 / 3 * k2 + 4 / 9 * k3)
            k4 = field(new)
            error = size * (-5 / 72 * k1 + 1 / 12 * k2 + 1 / 9 * k3 - 1 / 8 * k4)
            wrong = error.detach().abs().max().item() / tolerance
            if wrong <= 1.0:
                at, y, k1 = at + size, new, k4
            size *= min(5.0, max(0.2, 0.9 * max(wrong, 1e-6) ** (-1 / 3)))
        return y

    x = np.random.RandomState(1).randn(8, 32, 2).astype("f4")
    turned = x @ np.array([[0.0, 1.0], [-1.0, 0.0]], "f4")
    batches = [tensors(lib, *batch) for batch in zip(x, turned, strict=True)]
    return training(lib, wrap, lambda x, y: (flow(x) - y).square().mean(), optimizer, batches)


def deep_equilibrium(lib: Any, wrap: Wrap) -> Step:
    """A fixed point of tanh(W z + U x) of 64 features, 32 samples, iterated until it moves by less than 1e-3, Adam."""
    nn, F = lib.nn, lib.nn.functional
    inner, outer, head = nn.Linear(64, 64), nn.Linear(16, 64), nn.Linear(64, 4)
    model = filled(lib, nn.ModuleList([inner, outer, head]))
    with lib.no_grad():
        inner.weight.mul_(0.5)
    optimizer = lib.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def loss_of(x: Any, y: Any) -> Any:
        brought = outer(x)
        with lib.no_grad():
            z = lib.zeros(32, 64)
            for _ in range(50):
                new = lib.tanh(inner(z) + brought)
                moved = (new - z).abs().max().item()
                z = new
                if moved < 1e-3:
                    break
        return F.cross_entropy(head(lib.tanh(inner(z) + brought)), y)

    rng = np.random.RandomState(1)
    x, y = rng.randn(8, 32, 16).astype("f4"), rng.randint(0, 4, (8, 32))
    return training(lib, wrap, loss_of, optimizer, [tensors(lib, *batch) for batch in zip(x, y, strict=True)])


def mixture_of_experts(lib: Any, wrap: Wrap) -> Step:
    """Eight experts of 64-128-64, two for each of 256 tokens, each run on the tokens that chose it, Adam."""
    nn, F = lib.nn, lib.nn.functional
    gate, head = nn.Linear(64, 8, bias=False), nn.Linear(64, 10)
    experts = nn.ModuleList([nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)) for _ in range(8)])
    model = filled(lib, nn.ModuleList([gate, head, experts]))
    optimizer = lib.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def loss_of(x: Any, y: Any) -> Any:
        shares, chosen = gate(x).softmax(-1).topk(2, -1)
        out = lib.zeros_like(x)
        for k, expert in enumerate(experts):
            rows, which = (chosen == k).nonzero(as_tuple=True)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * shares[rows, which].unsqueeze(1))
        return F.cross_entropy(head(x + out), y)

    rng = np.random.RandomState(1)
    x, y = rng.randn(8, 256, 64).astype("f4"), rng.randint(0, 10, (8, 256))
    return training(lib, wrap, loss_of, optimizer, [tensors(lib, *batch) for batch in zip(x, y, strict=True)])


def large_softmax(lib: Any, wrap: Wrap) -> Step:
    """Cross entropy over 50,000 classes for 16 samples of 64 features, SGD."""
    head = filled(lib, lib.nn.Linear(64, 50_000))
    optimizer = lib.optim.SGD(head.parameters(), lr=LEARNING_RATE)
    rng = np.random.RandomState(1)
    x, y = rng.randn(4, 16, 64).astype("f4"), rng.randint(0, 50_000, (4, 16))
    batches = [tensors(lib, *batch) for batch in zip(x, y, strict=True)]
    return training(lib, wrap, lambda x, y: lib.nn.functional.cross_entropy(head(x), y), optimizer, batches)


def logistic_regression(lib: Any, wrap: Wrap) -> Step:
    """Logistic regression in float64: 1,000 samples of 50 features, all in each step, SGD."""
    rng = np.random.RandomState(1)
    x, y = tensors(lib, rng.randn(1000, 50), (rng.rand(1000) > 0.5).astype("f8"))
    w, b = lib.zeros(50, dtype=lib.float64, requires_grad=True), lib.zeros(1, dtype=lib.float64, requires_grad=True)
    optimizer = lib.optim.SGD([w, b], lr=0.1)
    loss_of = lib.nn.functional.binary_cross_entropy_with_logits
    return training(lib, wrap, lambda x, y: loss_of(x @ w + b, y), optimizer, [(x, y)])


def gaussian_process(lib: Any, wrap: Wrap) -> Step:
    """The likelihood of a Gaussian process of 64 points in float64, by a Cholesky factor, Adam."""
    rng = np.random.RandomState(1)
    x, y = tensors(lib, np.sort(rng.rand(64, 1), 0), rng.randn(64, 1))
    logs = lib.zeros(3, dtype=lib.float64, requires_grad=True)
    optimizer = lib.optim.Adam([logs], lr=LEARNING_RATE)
    identity = lib.eye(64, dtype=lib.float64)

    def loss_of(x: Any, y: Any) -> Any:
        length, scale, noise = logs.exp()
        kernel = scale * (-((x - x.T) ** 2) / length).exp() + (noise + 0.1) * identity
        factor = lib.linalg.cholesky(kernel)
        solved = lib.linalg.solve_triangular(factor, y, upper=False)
        return 0.5 * (solved**2).sum() + factor.diagonal().log().sum()

    return training(lib, wrap, loss_of, optimizer, [(x, y)])
