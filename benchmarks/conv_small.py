"""Two 3x3 convolutions (1-16-32), each with relu and 2x2 max-pooling, and a linear layer: 28x28, batch 32, Adam."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax_peer
import numpy as np
from workload import LEARNING_RATE, Library, Peers, Step, Workload, Wrap, as_it_is, own_peers, run_this, torch, trainer

BATCH, N_BATCHES = 32, 4


def data() -> tuple[list[Any], Any, Any]:
    """Weights, images (batches, batch, 1, 28, 28) and labels (batches, batch)."""
    rng = np.random.RandomState(0)
    weights = []
    for shape in ((16, 1, 3, 3), (32, 16, 3, 3), (10, 32 * 7 * 7)):
        weights += [rng.randn(*shape) / np.prod(shape[1:]) ** 0.5, np.zeros(shape[0])]
    x = rng.randn(N_BATCHES, BATCH, 1, 28, 28).astype("f4")
    return [w.astype("f4") for w in weights], x, rng.randint(0, 10, (N_BATCHES, BATCH))


def program(
    library: Library, channels_last: bool = False, compiled: bool = False, wrap: Wrap = as_it_is, **options: Any
) -> Step:
    lib = library()
    F = lib.nn.functional
    arrays, x, y = data()
    batches = [(lib.from_numpy(a), lib.from_numpy(b)) for a, b in zip(x, y, strict=True)]
    weights = [lib.from_numpy(w) for w in arrays]
    if channels_last:
        weights = [w.contiguous(memory_format=lib.channels_last) if w.ndim == 4 else w for w in weights]
        batches = [(a.contiguous(memory_format=lib.channels_last), b) for a, b in batches]
    w1, b1, w2, b2, w3, b3 = (w.requires_grad_() for w in weights)

    def loss_of(x: Any, y: Any) -> Any:
        x = F.max_pool2d(F.relu(F.conv2d(x, w1, b1, padding=1)), 2)
        x = F.max_pool2d(F.relu(F.conv2d(x, w2, b2, padding=1)), 2)
        return F.cross_entropy(F.linear(x.flatten(1), w3, b3), y)

    optimizer = lib.optim.Adam(weights, lr=LEARNING_RATE, **options)
    return trainer(lib, lib.compile(loss_of) if compiled else loss_of, optimizer, batches, wrap)


def with_jax() -> Step:
    jax, jnp = jax_peer.jax()
    weights, x, y = data()

    def layer(x: Any, w: Any, b: Any) -> Any:
        h = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME") + b[:, None, None])
        return jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def loss_of(weights: list[Any], x: Any, y: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        h = layer(layer(x, w1, b1), w2, b2)
        return jax_peer.cross_entropy(h.reshape(BATCH, -1) @ w3.T + b3, y)

    return jax_peer.trainer(loss_of, weights, list(zip(x, y, strict=True)))


PEERS: Peers = {
    **own_peers(program),
    "torch": partial(program, torch),
    "torch fused Adam": partial(program, torch, fused=True),
    "torch channels_last": partial(program, torch, channels_last=True, fused=True),
    "torch.compile": partial(program, torch, compiled=True, fused=True),
    "jax.jit": with_jax,
}
WORKLOADS = [Workload("conv_small", __doc__, 4, PEERS, floor=1.00, compiled_floor=1.00, warm_up=16)]

if __name__ == "__main__":
    run_this(__file__)
