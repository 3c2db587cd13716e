"""A character GPT: 4 layers, 128 wide, 4 heads, context 128, 65 characters, pre-norm, gelu. Batch 8, AdamW."""

from __future__ import annotations

from functools import partial
from typing import Any

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

N_LAYERS, WIDTH, N_HEADS, CONTEXT, N_CHARACTERS, BATCH = 4, 128, 4, 128, 65, 8
N_BATCHES = 8
WEIGHT_DECAY = 0.01
MATRICES = {"qkv": (3, 1), "proj": (1, 1), "fc": (4, 1), "out": (1, 4)}  # (out, in) as multiples of the width


def data() -> tuple[dict[str, Any], Any]:
    """Weights by name, matrices as (out, in); and texts (batches, batch, context + 1)."""
    rng = np.random.RandomState(0)

    def normal(*shape: int) -> Any:
        return (0.02 * rng.randn(*shape)).astype("f4")

    def norm(name: str) -> dict[str, Any]:
        return {f"{name}.w": np.ones(WIDTH, "f4"), f"{name}.b": np.zeros(WIDTH, "f4")}

    weights = {"characters": normal(N_CHARACTERS, WIDTH), "places": normal(CONTEXT, WIDTH)}
    for layer in range(N_LAYERS):
        weights.update(norm(f"{layer}.norm1"))
        weights.update(norm(f"{layer}.norm2"))
        for name, (n_out, n_in) in MATRICES.items():
            weights[f"{layer}.{name}.w"] = normal(n_out * WIDTH, n_in * WIDTH)
            weights[f"{layer}.{name}.b"] = np.zeros(n_out * WIDTH, "f4")
    weights.update(norm("norm"))
    weights["head"] = normal(N_CHARACTERS, WIDTH)
    return weights, rng.randint(0, N_CHARACTERS, (N_BATCHES, BATCH, CONTEXT + 1))


def program(library: Library, compiled: str = "", wrap: Wrap = as_it_is, **options: Any) -> Step:
    """`compiled` is "model" or "loss", what is compiled apart from the rest of the step."""
    lib = library()
    F = lib.nn.functional
    arrays, texts = data()
    weights = {name: lib.from_numpy(w).requires_grad_() for name, w in arrays.items()}

    def linear(h: Any, name: str) -> Any:
        return F.linear(h, weights[f"{name}.w"], weights[f"{name}.b"])

    def norm(h: Any, name: str) -> Any:
        return F.layer_norm(h, (WIDTH,), weights[f"{name}.w"], weights[f"{name}.b"])

    def attention(h: Any, layer: int) -> Any:
        parts = linear(h, f"{layer}.qkv").split(WIDTH, 2)
        q, k, v = (part.view(BATCH, CONTEXT, N_HEADS, WIDTH // N_HEADS).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return linear(mixed.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH), f"{layer}.proj")

    def model(x: Any) -> Any:
        h = F.embedding(x, weights["characters"]) + weights["places"]
        for layer in range(N_LAYERS):
            h = h + attention(norm(h, f"{layer}.norm1"), layer)
            inner = F.gelu(linear(norm(h, f"{layer}.norm2"), f"{layer}.fc"), approximate="tanh")
            h = h + linear(inner, f"{layer}.out")
        return F.linear(norm(h, "norm"), weights["head"])

    scores_of = lib.compile(model) if compiled == "model" else model

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(scores_of(x).view(-1, N_CHARACTERS), y.view(-1))

    optimizer = lib.optim.AdamW(list(weights.values()), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, **options)
    batches = [tuple(lib.from_numpy(part.copy()) for part in (text[:, :-1], text[:, 1:])) for text in texts]
    return trainer(lib, lib.compile(loss_of) if compiled == "loss" else loss_of, optimizer, batches, wrap)


def with_jax() -> Step:
    jax, jnp = jax_peer.jax()
    arrays, texts = data()
    allowed = np.tril(np.ones((CONTEXT, CONTEXT), bool))

    def loss_of(weights: dict[str, Any], x: Any, y: Any) -> Any:
        def linear(h: Any, name: str) -> Any:
            return h @ weights[f"{name}.w"].T + weights[f"{name}.b"]

        def norm(h: Any, name: str) -> Any:
            return jax_peer.layer_norm(h, weights[f"{name}.w"], weights[f"{name}.b"])

        def attention(h: Any, layer: int) -> Any:
            parts = jnp.split(linear(h, f"{layer}.qkv"), 3, 2)
            q, k, v = (part.reshape(BATCH, CONTEXT, N_HEADS, -1).transpose(0, 2, 1, 3) for part in parts)
            scores = jnp.where(allowed, q @ k.swapaxes(2, 3) * (WIDTH // N_HEADS) ** -0.5, -jnp.inf)
            mixed = jax.nn.softmax(scores) @ v
            return linear(mixed.transpose(0, 2, 1, 3).reshape(BATCH, CONTEXT, WIDTH), f"{layer}.proj")

        h = weights["characters"][x] + weights["places"]
        for layer in range(N_LAYERS):
            h = h + attention(norm(h, f"{layer}.norm1"), layer)
            inner = jax.nn.gelu(linear(norm(h, f"{layer}.norm2"), f"{layer}.fc"), approximate=True)
            h = h + linear(inner, f"{layer}.out")
        return jax_peer.cross_entropy(norm(h, "norm") @ weights["head"].T, y)

    batches = [(text[:, :-1], text[:, 1:]) for text in texts.astype("i4")]
    return jax_peer.trainer(loss_of, arrays, batches, weight_decay=WEIGHT_DECAY)


PEERS: Peers = {
    **own_peers(program),
    "extempo compiled module": partial(program, extempo, compiled="model"),
    "torch": partial(program, torch),
    "torch fused Adam": partial(program, torch, fused=True),
    "torch.compile": partial(program, torch, compiled="loss", fused=True),
    "jax.jit": with_jax,
}
WORKLOADS = [Workload("transformer_small", __doc__, 2, PEERS, floor=1.00, compiled_floor=0.88)]

if __name__ == "__main__":
    run_this(__file__)
