"""What the programs for JAX share: JAX ships neither an optimizer nor a cross-entropy of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from workload import LEARNING_RATE, Step

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def jax() -> tuple[Any, Any]:
    """The library and its NumPy."""
    return import_module("jax"), import_module("jax.numpy")


def cross_entropy(scores: Any, labels: Any) -> Any:
    """The mean over all leading axes; scores: (..., class)."""
    lib, jnp = jax()
    return -jnp.take_along_axis(lib.nn.log_softmax(scores), labels[..., None], -1).mean()


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    lib, _ = jax()
    centred = x - x.mean(-1, keepdims=True)
    return centred * lib.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def trainer(
    loss_of: Callable[..., Any], weights: Any, batches: Sequence[tuple[Any, ...]], weight_decay: float = 0.0
) -> Step:
    """A training step with Adam (AdamW, given a decay), compiled as a whole."""
    lib, jnp = jax()

    def adam(w: Any, g: Any, m: Any, v: Any, t: Any) -> tuple[Any, Any, Any]:
        m = BETA1 * m + (1 - BETA1) * g
        v = BETA2 * v + (1 - BETA2) * g * g
        update = m / (1 - BETA1**t) / (jnp.sqrt(v / (1 - BETA2**t)) + EPSILON)
        return w * (1 - LEARNING_RATE * weight_decay) - LEARNING_RATE * update, m, v

    def train(state: Any, *batch: Any) -> tuple[Any, Any]:
        leaves, m, v, t = state
        loss, gradients = lib.value_and_grad(lambda leaves: loss_of(tree.unflatten(leaves), *batch))(leaves)
        new = [adam(*each, t + 1) for each in zip(leaves, gradients, m, v, strict=True)]
        return loss, (*(list(part) for part in zip(*new, strict=True)), t + 1)

    leaves, tree = lib.tree.flatten(lib.tree.map(jnp.asarray, weights))
    state = [(leaves, [jnp.zeros_like(w) for w in leaves], [jnp.zeros_like(w) for w in leaves], jnp.zeros(()))]
    compiled = lib.jit(train)
    ready = [tuple(map(jnp.asarray, batch)) for batch in batches]

    def step(i: int) -> float:
        loss, state[0] = compiled(state[0], *ready[i % len(ready)])
        return float(loss)

    return step
