"""An LSTM by hand in a Python loop, a new length of 5 to 50 at every step. Input 32, hidden 64, batch 16, Adam."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import dynet_peer
import jax_peer
import numpy as np
from workload import (
    LEARNING_RATE,
    Library,
    Peers,
    Step,
    Workload,
    Wrap,
    as_it_is,
    extempo,
    own_peers,
    run_this,
    torch,
    trainer,
)

N_IN, N_HIDDEN, N_CLASSES, BATCH = 32, 64, 5, 16
SHORTEST, LONGEST = 5, 50
BLOCK, N_BLOCKS = 20, 52


def lengths(rng: np.random.RandomState) -> list[int]:
    """For each length its mirror image within the same block, so that all blocks have as many turns in all."""
    made: list[int] = []
    for _ in range(N_BLOCKS):
        half = rng.randint(SHORTEST, LONGEST + 1, BLOCK // 2)
        made += rng.permutation(np.concatenate([half, SHORTEST + LONGEST - half])).tolist()
    return made


def data(chosen: Sequence[int] = ()) -> tuple[list[Any], list[Any], list[Any]]:
    """Weights, inputs (time, batch, feature) and labels (batch,), of lengths that are drawn unless they are given.

    What is drawn has no batch twice within 50 rounds.
    """
    rng = np.random.RandomState(0)
    shapes = [(N_IN, 4 * N_HIDDEN), (N_HIDDEN, 4 * N_HIDDEN), (N_HIDDEN, N_CLASSES)]
    to_gates, from_state, to_classes = ((rng.randn(*shape) / shape[0] ** 0.5).astype("f4") for shape in shapes)
    weights = [to_gates, from_state, np.zeros(4 * N_HIDDEN, "f4"), to_classes, np.zeros(N_CLASSES, "f4")]
    x = [rng.randn(length, BATCH, N_IN).astype("f4") for length in chosen or lengths(rng)]
    return weights, x, [rng.randint(0, N_CLASSES, BATCH) for _ in x]


def program(
    library: Library, compiled: str = "", wrap: Wrap = as_it_is, chosen: Sequence[int] = (), **options: Any
) -> Step:
    """`compiled` is "cell" or "model", what is compiled apart from the rest of the step."""
    lib = library()
    F = lib.nn.functional
    weights, x, y = data(chosen)
    weights = [lib.from_numpy(w).requires_grad_() for w in weights]
    wx, wh, b, wo, bo = weights

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        i, f, g, o = (x @ wx + h @ wh + b).chunk(4, 1)
        c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(g)
        return lib.sigmoid(o) * lib.tanh(c), c

    if compiled == "cell":
        cell = lib.compile(cell)

    def model(x: Any) -> Any:
        h = c = lib.zeros(BATCH, N_HIDDEN)
        for t in range(x.shape[0]):
            h, c = cell(x[t], h, c)
        return h @ wo + bo

    scores_of = lib.compile(model) if compiled == "model" else model

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(scores_of(x), y)

    batches = [(lib.from_numpy(a), lib.from_numpy(b)) for a, b in zip(x, y, strict=True)]
    return trainer(lib, loss_of, lib.optim.Adam(weights, lr=LEARNING_RATE, **options), batches, wrap)


def built_in(library: Library, **options: Any) -> Step:
    """nn.LSTM, whose loop PyTorch runs in C++: what its users gain by giving the loop away."""
    lib = library()
    weights, x, y = data()
    lstm, out = lib.nn.LSTM(N_IN, N_HIDDEN), lib.nn.Linear(N_HIDDEN, N_CLASSES)
    wx, wh, b, wo, bo = weights
    values = [wx.T, wh.T, b, b, wo.T, bo]
    parameters = [*lstm.parameters(), *out.parameters()]
    with lib.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(lib.from_numpy(value.copy()))

    def loss_of(x: Any, y: Any) -> Any:
        return lib.nn.functional.cross_entropy(out(lstm(x)[0][-1]), y)

    batches = [(lib.from_numpy(a), lib.from_numpy(b)) for a, b in zip(x, y, strict=True)]
    return trainer(lib, loss_of, lib.optim.Adam(parameters, lr=LEARNING_RATE, **options), batches)


def with_jax(padded: bool) -> Step:
    """lax.scan, compiled anew for every length; or padded to the longest, compiled once, with work for nothing."""
    jax, jnp = jax_peer.jax()
    weights, x, y = data()
    lengths = [len(a) for a in x]
    if padded:
        x = [np.concatenate([a, np.zeros((LONGEST - len(a), BATCH, N_IN), "f4")]) for a in x]

    def loss_of(weights: list[Any], x: Any, y: Any, length: Any) -> Any:
        wx, wh, b, wo, bo = weights

        def cell(state: tuple[Any, Any], at: tuple[Any, Any]) -> tuple[tuple[Any, Any], None]:
            (h, c), (xt, t) = state, at
            i, f, g, o = jnp.split(xt @ wx + h @ wh + b, 4, 1)
            next_c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            next_h = jax.nn.sigmoid(o) * jnp.tanh(next_c)
            if padded:
                next_h, next_c = jnp.where(t < length, next_h, h), jnp.where(t < length, next_c, c)
            return (next_h, next_c), None

        zeros = jnp.zeros((BATCH, N_HIDDEN))
        (h, _), _ = jax.lax.scan(cell, (zeros, zeros), (x, jnp.arange(len(x))))
        return jax_peer.cross_entropy(h @ wo + bo, y)

    return jax_peer.trainer(loss_of, weights, list(zip(x, y, lengths, strict=True)))


def with_dynet() -> Step:
    dy = dynet_peer.dynet()
    arrays, x, y = data()
    weights = dy.ParameterCollection()
    wx, wh, b, wo, bo = (weights.parameters_from_numpy(a.T.copy()) for a in arrays)
    inputs, labels = [[frame.T.copy() for frame in a] for a in x], [a.tolist() for a in y]
    zeros = np.zeros((N_HIDDEN, BATCH), "f4")

    def loss_of(k: int) -> Any:
        h = c = dy.inputTensor(zeros, batched=True)
        for frame in inputs[k % len(inputs)]:
            gates = dy.affine_transform([b, wx, dy.inputTensor(frame, batched=True), wh, h])
            i, f, g, o = (dy.pick_range(gates, j * N_HIDDEN, (j + 1) * N_HIDDEN) for j in range(4))
            c = dy.cmult(dy.logistic(f), c) + dy.cmult(dy.logistic(i), dy.tanh(g))
            h = dy.cmult(dy.logistic(o), dy.tanh(c))
        scores = dy.affine_transform([bo, wo, h])
        return dy.mean_batches(dy.pickneglogsoftmax_batch(scores, labels[k % len(labels)]))

    return dynet_peer.trainer(loss_of, dy.AdamTrainer(weights, LEARNING_RATE), weights)


PEERS: Peers = {
    **own_peers(program, fixed=False),
    "extempo compiled module": partial(program, extempo, compiled="model"),
    "torch": partial(program, torch),
    "torch fused Adam": partial(program, torch, fused=True),
    "torch nn.LSTM": partial(built_in, torch, fused=True),
    "torch.compile cell": partial(program, torch, compiled="cell", fused=True),
    "jax.jit scan": partial(with_jax, padded=False),
    "jax.jit padded": partial(with_jax, padded=True),
    "dynet": with_dynet,
}
WORKLOADS = [Workload("rnn_python_loop", __doc__, BLOCK, PEERS, floor=0.45, compiled_floor=0.30, warm_up=36)]

if __name__ == "__main__":
    run_this(__file__)
