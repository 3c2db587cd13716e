"""Predictions: a GPT that generates with a cache, a beam search, and single samples through three small models."""

from __future__ import annotations

from typing import Any

import numpy as np
from workload import Step, Wrap

from .shared import filled, tensors

N_WIDTH, N_HEADS, N_LAYERS, N_TOKENS, N_PROMPT, N_NEW = 128, 4, 4, 1000, 16, 24
N_BEAMS, N_WORDS, N_STATE, N_STEPS = 5, 500, 128, 16


def gpt_generation(lib: Any, wrap: Wrap) -> Step:
    """A GPT of 4 layers of 128 features generates 24 tokens after 16, with a cache of keys and values."""
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined] # of a library that is known when it runs
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.second_norm = nn.LayerNorm(N_WIDTH), nn.LayerNorm(N_WIDTH)
            self.to_qkv, self.out = nn.Linear(N_WIDTH, 3 * N_WIDTH), nn.Linear(N_WIDTH, N_WIDTH)
            self.mlp = nn.Sequential(nn.Linear(N_WIDTH, 4 * N_WIDTH), nn.GELU(), nn.Linear(4 * N_WIDTH, N_WIDTH))

        def forward(self, x: Any, cache: Any) -> tuple[Any, Any]:
            n = x.shape[0]
            q, k, v = (y.view(n, N_HEADS, -1).transpose(0, 1) for y in self.to_qkv(self.norm(x)).chunk(3, -1))
            if cache is not None:
                k, v = lib.cat([cache[0], k], 1), lib.cat([cache[1], v], 1)
            found = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
            x = x + self.out(found.transpose(0, 1).reshape(n, N_WIDTH))
            return x + self.mlp(self.second_norm(x)), (k, v)

    class GPT(nn.Module):  # type: ignore[misc, name-defined] # as above
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(N_TOKENS, N_WIDTH), nn.Embedding(64, N_WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(N_LAYERS)])
            self.norm, self.head = nn.LayerNorm(N_WIDTH), nn.Linear(N_WIDTH, N_TOKENS)

        def forward(self, tokens: Any, first: int, caches: list[Any]) -> tuple[Any, list[Any]]:
            x = self.tokens(tokens) + self.places(lib.arange(first, first + len(tokens)))
            kept = []
            for block, cache in zip(self.blocks, caches, strict=True):
                x, new = block(x, cache)
                kept.append(new)
            return self.head(self.norm(x[-1])), kept

    model = filled(lib, GPT()).eval()
    run = wrap(lib, lambda tokens, first, caches: model(tokens, first, caches))
    (prompts,) = tensors(lib, np.random.RandomState(1).randint(0, N_TOKENS, (8, N_PROMPT)))

    def generate(i: int) -> float:
        with lib.no_grad():
            scores, caches = run(prompts[i % 8], 0, [None] * N_LAYERS)
            for n in range(N_PROMPT, N_PROMPT + N_NEW):
                scores, caches = run(scores.argmax().view(1), n, caches)
            return float(scores.max().item())

    return generate


def beam_search(lib: Any, wrap: Wrap) -> Step:
    """The five best sequences of 16 words, by a GRU cell of 128 features and 500 words."""
    nn = lib.nn
    words, cell, head = nn.Embedding(N_WORDS, N_STATE), nn.GRUCell(N_STATE, N_STATE), nn.Linear(N_STATE, N_WORDS)
    filled(lib, nn.ModuleList([words, cell, head]))

    def extend(last: Any, h: Any, scores: Any) -> tuple[Any, Any, Any]:
        h = cell(words(last), h)
        found = scores.unsqueeze(1) + head(h).log_softmax(-1)
        scores, places = found.view(-1).topk(N_BEAMS)
        rows = lib.div(places, N_WORDS, rounding_mode="floor")
        return places % N_WORDS, h.index_select(0, rows), scores

    run = wrap(lib, extend)
    (starts,) = tensors(lib, np.random.RandomState(1).randn(8, 1, N_STATE).astype("f4"))

    def search(i: int) -> float:
        with lib.no_grad():
            last = lib.arange(N_BEAMS)
            h, scores = starts[i % 8].expand(N_BEAMS, N_STATE), lib.zeros(N_BEAMS)
            for _ in range(N_STEPS):
                last, h, scores = run(last, h, scores)
            return float(scores[0].item())

    return search


def _prediction(lib: Any, wrap: Wrap, model: Any, x: Any) -> Step:
    """step(i): one sample through a model."""
    inputs = list(tensors(lib, *x))
    filled(lib, model).eval()
    run = wrap(lib, lambda x: model(x))

    def predict(i: int) -> float:
        with lib.no_grad():
            return float(run(inputs[i % len(inputs)]).max().item())

    return predict


def mlp_inference(lib: Any, wrap: Wrap) -> Step:
    """One sample through an MLP 64-256-256-10."""
    nn = lib.nn
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    return _prediction(lib, wrap, model, np.random.RandomState(1).randn(8, 1, 64).astype("f4"))


def cnn_inference(lib: Any, wrap: Wrap) -> Step:
    """One image of 32x32 through three convolutions (3-16-32-64) with pooling, and a linear layer."""
    nn = lib.nn
    layers: list[Any] = []
    for n_in, n_out in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return _prediction(lib, wrap, model, np.random.RandomState(1).randn(8, 1, 3, 32, 32).astype("f4"))


def lstm_step(lib: Any, wrap: Wrap) -> Step:
    """One step of an LSTM cell of 128 features, for one sample, whose state is kept."""
    cell = filled(lib, lib.nn.LSTMCell(128, 128))
    run = wrap(lib, lambda x, h, c: cell(x, (h, c)))
    inputs = list(tensors(lib, *np.random.RandomState(1).randn(8, 1, 128).astype("f4")))
    zeros = lib.zeros(1, 128)

    def step(i: int) -> float:
        with lib.no_grad():
            h, c = run(inputs[i % 8], zeros, zeros)
            h, c = run(inputs[(i + 1) % 8], h, c)
            return float(h[0, 0].item())

    return step
