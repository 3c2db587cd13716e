"""MLP 32-64-64-10 on batches of 32: relu, cross-entropy, Adam. Overhead and small matrices."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
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

N_BATCHES = 8


def data(sizes: tuple[int, ...], batch: int) -> tuple[list[Any], Any, Any]:
    """Weights (in, out) of each layer, inputs (batches, batch, feature), labels (batches, batch)."""
    rng = np.random.RandomState(0)
    weights = [(rng.randn(n, m) / np.sqrt(n)).astype("f4") for n, m in pairwise(sizes)]
    x = rng.randn(N_BATCHES, batch, sizes[0]).astype("f4")
    return weights, x, rng.randint(0, sizes[-1], (N_BATCHES, batch))


def program(
    library: Library,
    sizes: tuple[int, ...],
    batch: int,
    compiled: bool = False,
    wrap: Wrap = as_it_is,
    **options: Any,
) -> Step:
    lib = library()
    F = lib.nn.functional
    weights, x, y = data(sizes, batch)
    layers: list[Any] = []
    for w in weights:
        linear = lib.nn.Linear(*w.shape)
        with lib.no_grad():
            linear.weight.copy_(lib.from_numpy(w.T.copy()))
            linear.bias.zero_()
        layers += [linear, lib.nn.ReLU()]
    model = lib.nn.Sequential(*layers[:-1])
    optimizer = lib.optim.Adam(model.parameters(), lr=LEARNING_RATE, **options)
    forward = lib.compile(model) if compiled else model

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(forward(x), y)

    batches = [(lib.from_numpy(a), lib.from_numpy(b)) for a, b in zip(x, y, strict=True)]
    return trainer(lib, loss_of, optimizer, batches, wrap)


def with_jax(sizes: tuple[int, ...], batch: int) -> Step:
    jax, _ = jax_peer.jax()
    weights, x, y = data(sizes, batch)

    def loss_of(layers: list[tuple[Any, Any]], x: Any, y: Any) -> Any:
        for w, b in layers[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = layers[-1]
        return jax_peer.cross_entropy(x @ w + b, y)

    layers = [(w, np.zeros(w.shape[1], "f4")) for w in weights]
    return jax_peer.trainer(loss_of, layers, list(zip(x, y, strict=True)))


def with_dynet(sizes: tuple[int, ...], batch: int) -> Step:
    dy = dynet_peer.dynet()
    arrays, x, y = data(sizes, batch)
    weights = dy.ParameterCollection()
    layers = [[weights.parameters_from_numpy(a) for a in (w.T.copy(), np.zeros(w.shape[1], "f4"))] for w in arrays]
    inputs, labels = [a.T.copy() for a in x], y.tolist()

    def loss_of(i: int) -> Any:
        h = dy.inputTensor(inputs[i % N_BATCHES], batched=True)
        for w, b in layers[:-1]:
            h = dy.rectify(dy.affine_transform([b, w, h]))
        w, b = layers[-1]
        return dy.mean_batches(dy.pickneglogsoftmax_batch(dy.affine_transform([b, w, h]), labels[i % N_BATCHES]))

    return dynet_peer.trainer(loss_of, dy.AdamTrainer(weights, LEARNING_RATE), weights)


def workload(name: str, about: str | None, sizes: tuple[int, ...], batch: int, block: int, **floors: float) -> Workload:
    peers: Peers = {
        **own_peers(partial(program, sizes=sizes, batch=batch)),
        "extempo compiled module": partial(program, extempo, sizes, batch, compiled=True),
        "torch": partial(program, torch, sizes, batch),
        "torch fused Adam": partial(program, torch, sizes, batch, fused=True),
        "torch.compile": partial(program, torch, sizes, batch, compiled=True, fused=True),
        "jax.jit": partial(with_jax, sizes, batch),
        "dynet": partial(with_dynet, sizes, batch),
    }
    return Workload(name, about, block, peers, **floors)


WORKLOADS = [workload("mlp_small", __doc__, (32, 64, 64, 10), batch=32, block=80, floor=0.40, compiled_floor=0.10)]

if __name__ == "__main__":
    run_this(__file__)
