"""softmax(layer_norm(gelu(x * a + b))) on (256, 1024), forward, and backward to all five operands: memory traffic."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax_peer
import numpy as np
from workload import Library, Peers, Step, Workload, Wrap, as_it_is, own_peers, run_this, torch

ROWS, WIDTH = 256, 1024


def data() -> tuple[list[Any], Any]:
    """x, a, b and the weights of the norm; and the weights of a sum that makes the result a loss."""
    rng = np.random.RandomState(0)
    operands = [rng.randn(ROWS, WIDTH), rng.randn(WIDTH), rng.randn(WIDTH), np.ones(WIDTH), np.zeros(WIDTH)]
    return [a.astype("f4") for a in operands], rng.randn(ROWS, WIDTH).astype("f4")


def program(library: Library, compiled: bool = False, wrap: Wrap = as_it_is) -> Step:
    lib = library()
    F = lib.nn.functional
    arrays, mix = data()
    operands = [lib.from_numpy(a).requires_grad_() for a in arrays]
    mix = lib.from_numpy(mix)

    def loss_of(x: Any, a: Any, b: Any, weight: Any, bias: Any) -> Any:
        h = F.gelu(x * a + b, approximate="tanh")
        return (F.softmax(F.layer_norm(h, (WIDTH,), weight, bias), -1) * mix).sum()

    if compiled:
        loss_of = lib.compile(loss_of)

    def forward_and_backward(*operands: Any) -> Any:
        loss = loss_of(*operands)
        loss.backward()
        return loss

    run = wrap(lib, forward_and_backward)

    def step(i: int) -> float:
        for operand in operands:
            operand.grad = None
        return float(run(*operands).item())

    return step


def with_jax() -> Step:
    jax, jnp = jax_peer.jax()
    arrays, mix = data()
    operands = [jnp.asarray(a) for a in arrays]

    def loss_of(x: Any, a: Any, b: Any, weight: Any, bias: Any) -> Any:
        h = jax.nn.gelu(x * a + b, approximate=True)
        return (jax.nn.softmax(jax_peer.layer_norm(h, weight, bias)) * mix).sum()

    run = jax.jit(jax.value_and_grad(loss_of, (0, 1, 2, 3, 4)))
    return lambda i: float(jax.block_until_ready(run(*operands))[0])


PEERS: Peers = {
    **own_peers(program),
    "torch": partial(program, torch),
    "torch.compile": partial(program, torch, compiled=True),
    "jax.jit": with_jax,
}
WORKLOADS = [Workload("elementwise_chain", __doc__, 10, PEERS, floor=0.80, compiled_floor=0.42)]

if __name__ == "__main__":
    run_this(__file__)
