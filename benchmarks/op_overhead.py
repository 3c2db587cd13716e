"""y = tanh(y + b), 100 times on 8 elements, forward only: what 200 tiny ops cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dynet_peer
import jax_peer
import numpy as np
from workload import Library, Peers, Step, Workload, Wrap, as_it_is, extempo, own_peers, run_this, torch

N_TURNS, SIZE, BLOCK = 100, 8, 50


def data() -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    return rng.randn(SIZE).astype("f4"), (0.1 * rng.randn(SIZE)).astype("f4")


def chain(tanh: Callable[[Any], Any], y: Any, b: Any) -> Any:
    for _ in range(N_TURNS):
        y = tanh(y + b)
    return y


def program(
    library: Library, backward: bool, no_grad: bool = False, compiled: bool = False, wrap: Wrap = as_it_is
) -> Step:
    lib = library()
    x, b = (lib.from_numpy(a).requires_grad_() for a in data())

    def loss_of(x: Any, b: Any) -> Any:
        return chain(lib.tanh, x, b).sum()

    if compiled:
        loss_of = lib.compile(loss_of)

    def forward_and_backward(x: Any, b: Any) -> Any:
        loss = loss_of(x, b)
        loss.backward()
        return loss

    run = wrap(lib, forward_and_backward if backward else loss_of)

    def step(i: int) -> float:
        x.grad = b.grad = None
        return float(run(x, b).item())

    def step_without_grad(i: int) -> float:
        with lib.no_grad():
            return step(i)

    return step_without_grad if no_grad else step


def with_jax(backward: bool) -> Step:
    jax, jnp = jax_peer.jax()
    x, b = map(jnp.asarray, data())

    def loss_of(x: Any, b: Any) -> Any:
        return chain(jnp.tanh, x, b).sum()

    run = jax.jit(jax.value_and_grad(loss_of, (0, 1)) if backward else lambda x, b: (loss_of(x, b),))
    return lambda i: float(jax.block_until_ready(run(x, b))[0])


def with_dynet(backward: bool) -> Step:
    dy = dynet_peer.dynet(memory_mb=64)
    weights = dy.ParameterCollection()
    x, b = (weights.parameters_from_numpy(a) for a in data())

    def step(i: int, owner: Any = weights) -> float:  # x and b alone do not keep their collection alive
        dy.renew_cg()
        loss = dy.sum_elems(chain(dy.tanh, x, b))
        value = float(loss.value())
        if backward:
            loss.backward()
        return value

    return step


def plain_numpy() -> Step:
    x, b = data()
    return lambda i: float(chain(np.tanh, x, b).sum())


def peers(backward: bool) -> Peers:
    return {
        **own_peers(partial(program, backward=backward)),
        "torch": partial(program, torch, backward),
        "torch.compile": partial(program, torch, backward, compiled=True),
        "jax.jit": partial(with_jax, backward),
        "dynet": partial(with_dynet, backward),
    }


WITHOUT_GRAPH: Peers = {
    "extempo no_grad": partial(program, extempo, False, no_grad=True),
    "torch no_grad": partial(program, torch, False, no_grad=True),
    "numpy": plain_numpy,
}
WORKLOADS = [Workload("op_overhead", __doc__, BLOCK, {**peers(backward=False), **WITHOUT_GRAPH})]

if __name__ == "__main__":
    run_this(__file__)
