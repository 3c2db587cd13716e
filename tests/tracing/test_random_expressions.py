"""Random expressions over shapes of every kind: broadcasts, strides, tails of vectors, reductions over any dim."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import extempo as ex
from extempo.nn import functional as F

from .agreement import CALLS, agree, draw

N_EXPRESSIONS = 80
FULL = [(3, 5), (7, 33), (2, 3, 5), (1, 8), (17,), (4, 64), (2, 1, 9), (5, 1), (130, 3), (3, 1100), (0, 4), (2, 40, 24)]

UNARY: list[Callable[[Any], Any]] = [
    ex.tanh,
    ex.exp,
    ex.sigmoid,
    ex.relu,
    ex.erf,
    ex.log1p,
    ex.sqrt,
    ex.reciprocal,
    ex.neg,
    ex.abs,
    ex.floor,
    F.gelu,
    F.mish,
    F.hardtanh,
    lambda x: x.clamp(min=-0.3),
    lambda x: x**3,
    lambda x: (x > 0.1).to(x.dtype),
    lambda x: x.sign() * 0.5,
    lambda x: x * 1.5 - 2,
    lambda x: 3 / (x + 4.5),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    ex.add,
    ex.sub,
    ex.mul,
    ex.div,
    ex.maximum,
    ex.minimum,
    ex.atan2,
    lambda a, b: ex.where(a < b, a, b),
    lambda a, b: a.masked_fill(b > 0, 0.5),
    lambda a, b: ex.lerp(a, b, 0.25),
]
REDUCTIONS: list[Callable[[Any, int], Any]] = [
    lambda x, d: x.sum(d, keepdim=True),
    lambda x, d: x.mean(d, keepdim=True),
    lambda x, d: x.amax(d, keepdim=True) if x.numel() else x,
    lambda x, d: x.amin(d, keepdim=True) if x.numel() else x,
    lambda x, d: x.var(d, keepdim=True, correction=0),
    lambda x, d: x.norm(dim=d, keepdim=True),
    lambda x, d: x.logsumexp(d, keepdim=True),
    lambda x, d: x.softmax(d),
    lambda x, d: x.log_softmax(d),
    lambda x, d: x.cumsum(d),
    lambda x, d: x.sum(),
    lambda x, d: x.argmax(d, keepdim=True).to(x.dtype) if x.shape[d] else x,
]
VIEWS: list[Callable[[Any, int], Any]] = [
    lambda x, d: x.transpose(d, -1).transpose(d, -1),
    lambda x, d: x.transpose(0, -1).contiguous().transpose(0, -1),
    lambda x, d: x.flip(d),
    lambda x, d: x.narrow(d, 0, x.shape[d]),
    lambda x, d: x.unsqueeze(d).squeeze(d),
    lambda x, d: ex.cat([x, x], d).narrow(d, x.shape[d] // 2, x.shape[d]),
    lambda x, d: ex.stack([x, x * 2], d).select(d, 1),
    lambda x, d: ex.stack([x * 3, x], 0)[1],
    lambda x, d: x.expand(2, *x.shape)[0],
    lambda x, d: x.reshape(-1).reshape(x.shape),
    lambda x, d: x.transpose(0, -1).reshape(-1).reshape(x.shape),
]
LAYOUTS: list[Callable[[ex.Tensor], ex.Tensor]] = [
    lambda x: x,
    lambda x: x,
    lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    lambda x: ex.cat([x, x], -1)[..., : x.shape[-1]],
    lambda x: ex.stack([x, x], -1)[..., 0],
    lambda x: x.flip(0).flip(0),
]


def narrowed(rng: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to the given one."""
    found = tuple(1 if rng.random() < 0.3 else n for n in shape)
    return found[rng.choice([0, 0, 0, 1, len(found)]) :]


def expression(rng: random.Random, shape: tuple[int, ...], n_leaves: int) -> Callable[[list[Any]], list[Any]]:
    """A function of leaves; it returns some of what it computed."""
    lines: list[tuple[Any, ...]] = []
    for k in range(rng.randint(4, 22)):
        n = n_leaves + k
        kind = rng.choice(["unary"] * 4 + ["binary"] * 6 + ["reduction"] * 2 + ["view"])
        a, b, d = rng.randrange(n), rng.randrange(max(0, n - 4), n), rng.randrange(len(shape))
        lines.append(
            (
                kind,
                rng.choice({"unary": UNARY, "binary": BINARY, "reduction": REDUCTIONS, "view": VIEWS}[kind]),
                a,
                b,
                d,
            )
        )
    kept = {rng.randrange(len(lines)) for _ in range(rng.randint(0, 3))} | {len(lines) - 1}

    def run(leaves: list[Any]) -> list[Any]:
        values = list(leaves)
        for kind, op, a, b, d in lines:
            if kind == "unary":
                values.append(op(values[b]))
            elif kind == "binary":
                values.append(op(values[a], values[b]))
            else:
                x = values[b] if values[b].ndim == len(shape) else values[b].expand(shape)
                values.append(op(x, d))
        return [values[n_leaves + k] for k in sorted(kept)]

    return run


@pytest.mark.parametrize("seed", range(N_EXPRESSIONS))
def test_a_random_expression(seed):
    rng = random.Random(seed)
    shape = rng.choice(FULL)
    n_leaves = rng.randint(1, 4)
    shapes = [shape, *[narrowed(rng, shape) for _ in range(n_leaves - 1)]]
    run_eagerly = expression(rng, shape, n_leaves)
    tracked = [rng.random() < 0.6 for _ in shapes]
    layouts = [rng.choice(LAYOUTS) for _ in shapes]
    dtype = rng.choice([ex.float32, ex.float32, ex.float64])
    inside = rng.random() < 0.5

    def scenario(wrap):
        def f(leaves):
            results = run_eagerly(leaves)
            if inside:
                differentiate(results)
            return results

        run = wrap(f)
        for i in range(CALLS):
            roots = [
                draw(9 * i + k, *s, dtype=dtype, grad=t) for k, (s, t) in enumerate(zip(shapes, tracked, strict=True))
            ]
            leaves = [layout(x) if x.ndim else x for x, layout in zip(roots, layouts, strict=True)]
            results = run(leaves)
            if not inside:
                differentiate(results)
            yield results, [x.grad for x in roots]

    def differentiate(results):
        losses = [(t * t).sum() for t in results if t.requires_grad]
        if losses:
            sum(losses).backward()

    agree(scenario)
