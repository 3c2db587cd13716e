"""The whole idea in under two seconds: run this first."""

from __future__ import annotations

import numpy as np

import extempo as ex


def test_a_recorded_graph_is_differentiated_and_freed():
    x = ex.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x * x).exp().sum()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() * np.exp(x.detach().numpy() ** 2), rtol=1e-6)
    assert y.grad_fn.inputs == () or all(n.saved is None for n in ex.Graph.of(y) if n.op.name == "exp")


def test_python_control_flow_is_the_model():
    w = ex.tensor(0.5, requires_grad=True)

    def model(x: float) -> ex.Tensor:
        y = ex.tensor(x)
        while y.item() < 10:
            y = y * (1 + w)
        return y

    for start, turns in ((8.0, 1), (1.0, 6)):
        w.grad = None
        model(start).backward()
        np.testing.assert_allclose(w.grad.item(), start * turns * 1.5 ** (turns - 1), rtol=1e-5)


def test_a_small_function_is_learned():
    rng = np.random.default_rng(0)
    x = ex.tensor(rng.uniform(-1, 1, (64, 1)).astype("f4"))
    target = ex.sin(x * 3)
    params = [ex.tensor((rng.normal(size=s) * 0.5).astype("f4"), requires_grad=True) for s in ((1, 32), (32,), (32, 1))]
    losses = []
    for _ in range(150):
        loss = ((ex.tanh(x @ params[0] + params[1]) @ params[2] - target) ** 2).mean()
        loss.backward()
        with ex.no_grad():
            for p in params:
                p -= 0.1 * p.grad
                p.grad = None
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
