"""A residual layer of 64 units repeated `while norm(x) >= 4`, 1 to 20 times: each turn reads a value. Batch 16, SGD."""

from __future__ import annotations

from functools import partial
from typing import Any

import dynet_peer
import jax_peer
import numpy as np
from workload import Library, Peers, Step, Workload, Wrap, as_it_is, own_peers, run_this, torch, trainer

BATCH, WIDTH, THRESHOLD, MOST_TURNS = 16, 64, 4.0, 20
SCALES = np.linspace(0.2, 3.0, 16)  # inputs that need from 1 to 20 turns
BLOCK, N_BLOCKS = len(SCALES), 72
LEARNING_RATE = 1e-4


def data() -> tuple[list[Any], list[Any]]:
    """Weights of a layer that shrinks its input, and inputs: in each block every scale once, in random order."""
    rng = np.random.RandomState(0)
    q = np.linalg.qr(rng.randn(WIDTH, WIDTH))[0]
    weights = [q, 0.01 * rng.randn(WIDTH), -0.5 * q.T, np.zeros(WIDTH)]
    x = []
    for scale in np.concatenate([rng.permutation(SCALES) for _ in range(N_BLOCKS)]):
        noise = rng.randn(BATCH, WIDTH)
        x.append((noise * (scale * noise.size**0.5 / np.linalg.norm(noise))).astype("f4"))
    return [np.ascontiguousarray(w, "f4") for w in weights], x


def program(library: Library, compiled: bool = False, wrap: Wrap = as_it_is) -> Step:
    lib = library()
    weights, x = data()
    weights = [lib.from_numpy(w).requires_grad_() for w in weights]
    w1, b1, w2, b2 = weights

    def layer(x: Any) -> Any:
        return x + lib.tanh(x @ w1 + b1) @ w2 + b2

    if compiled:
        layer = lib.compile(layer)

    def loss_of(x: Any) -> Any:
        turns = 0
        while turns < MOST_TURNS and lib.linalg.vector_norm(x) >= THRESHOLD:
            x = layer(x)
            turns += 1
        return (x * x).mean()

    return trainer(lib, loss_of, lib.optim.SGD(weights, lr=LEARNING_RATE), [(lib.from_numpy(a),) for a in x], wrap)


def with_jax() -> Step:
    """A Python loop around compiled functions: lax.while_loop has no reverse-mode derivative."""
    jax, jnp = jax_peer.jax()
    weights, x = data()
    current = [[jnp.asarray(w) for w in weights]]
    inputs = [jnp.asarray(a) for a in x]

    def layer(weights: list[Any], x: Any) -> Any:
        w1, b1, w2, b2 = weights
        return x + jnp.tanh(x @ w1 + b1) @ w2 + b2

    def norm(x: Any) -> Any:
        return jnp.sqrt((x * x).sum())

    def update(weights: list[Any], gradients: list[Any]) -> list[Any]:
        return [w - LEARNING_RATE * g for w, g in zip(weights, gradients, strict=True)]

    fast_layer, fast_norm, fast_update = jax.jit(layer), jax.jit(norm), jax.jit(update)

    def loss_of(weights: list[Any], x: Any) -> Any:
        turns = 0
        while turns < MOST_TURNS and fast_norm(x) >= THRESHOLD:
            x = fast_layer(weights, x)
            turns += 1
        return (x * x).mean()

    def step(i: int) -> float:
        loss, gradients = jax.value_and_grad(loss_of)(current[0], inputs[i % len(inputs)])
        current[0] = fast_update(current[0], gradients)
        return float(loss)

    return step


def with_dynet() -> Step:
    dy = dynet_peer.dynet()
    arrays, x = data()
    weights = dy.ParameterCollection()
    w1, b1, w2, b2 = (weights.parameters_from_numpy(a.T.copy()) for a in arrays)
    inputs = [a.T.copy() for a in x]

    def square(x: Any) -> Any:
        return dy.sum_batches(dy.squared_norm(x))

    def loss_of(i: int) -> Any:
        x, turns = dy.inputTensor(inputs[i % len(inputs)], batched=True), 0
        while turns < MOST_TURNS and square(x).value() >= THRESHOLD**2:
            x = x + dy.affine_transform([b2, w2, dy.tanh(dy.affine_transform([b1, w1, x]))])
            turns += 1
        return square(x) * (1 / (BATCH * WIDTH))

    return dynet_peer.trainer(loss_of, dy.SimpleSGDTrainer(weights, LEARNING_RATE), weights)


PEERS: Peers = {
    **own_peers(program, fixed=False),
    "torch": partial(program, torch),
    "torch.compile layer": partial(program, torch, compiled=True),
    "jax.jit layer": with_jax,
    "dynet": with_dynet,
}
WORKLOADS = [Workload("early_exit", __doc__, BLOCK, PEERS, floor=0.30, compiled_floor=0.28, warm_up=40)]

if __name__ == "__main__":
    run_this(__file__)
