"""Random programs, run compiled and eagerly: every value, gradient and error is the same.

A program is drawn from a seed: a list of statements over slots that hold tensors of the shapes (rows, 4) and (4,), the
number of rows changing from call to call. Statements are ops, views, in-place writes, reads of values, loops, branches,
gradient modes and backwards.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import extempo as ex
from extempo.nn import functional as F

from .agreement import agree, draw

N_PROGRAMS = 150
N_SLOTS = 5
VARIANTS = (0, 0, 0, 1, 1, 0, 1)  # of sizes and control flow, call by call
COLUMNS = 4
Statement = Callable[["Run"], None]

UNARY: list[Callable[[Any], Any]] = [
    ex.tanh,
    ex.sigmoid,
    ex.exp,
    ex.sin,
    ex.relu,
    ex.neg,
    ex.abs,
    ex.square,
    F.gelu,
    F.silu,
    F.softplus,
    lambda x: x.clamp(-0.5, 0.5),
    lambda x: x.softmax(-1),
    lambda x: x.log_softmax(-1),
    lambda x: x - x.mean(-1, keepdim=True),
    lambda x: x / (x.norm() + 1),
    lambda x: F.layer_norm(x, (COLUMNS,)),
    lambda x: x.flip(-1),
    lambda x: x.cumsum(-1),
    lambda x: x.clone(),
    lambda x: x.detach(),
    lambda x: x.detach() * x,
    lambda x: (x > 0).float() * x,
    lambda x: x.double().float(),
    lambda x: F.dropout(x, 0.3),
    lambda x: x + ex.rand_like(x),
    lambda x: x.half().float(),
    lambda x: x.sort(-1).values,
    lambda x: x[..., ex.tensor([3, 0, 0, 2])],
    lambda x: x.masked_fill(x > 1, 0.5),
    lambda x: ex.where(x > 0, x, x * 0.1),
    lambda x: x.reshape(-1).reshape(x.shape),
    lambda x: x.T.T if x.ndim == 2 else x,
    lambda x: (x.T * 2).T if x.ndim == 2 else x,
    lambda x: ex.cat([x[..., 2:], x[..., :2]], -1),
    lambda x: ex.stack(list(x.unbind(-1)), -1),
    lambda x: x.sum(0).expand(x.shape) if x.ndim == 2 else x,
    lambda x: x.max(0).values + x if x.ndim == 2 else x,
    lambda x: x @ x.T @ x if x.ndim == 2 else x,
    lambda x: ex.einsum("...i,...i->...", x, x)[..., None] + x,
    lambda x: F.embedding(x.detach().abs().long() % 3, x.reshape(-1)[:3, None]).squeeze(-1),
    lambda x: x.gather(-1, x.detach().argsort(-1)),
    lambda x: x.topk(4, -1)[0],
    lambda x: x.scatter_add(-1, ex.tensor([1, 1, 0, 2]).expand(x.shape), x),
    lambda x: x.index_add(-1, ex.tensor([0, 0, 3]), x[..., :3]),
    lambda x: F.pad(x, (1, 1))[..., 1:-1] + F.pad(x, (1, 0))[..., :-1],
    lambda x: F.conv1d(x.reshape(-1, 1, COLUMNS), x.reshape(-1)[:3].reshape(1, 1, 3), padding=1).reshape(x.shape),
    lambda x: F.max_pool1d(x.reshape(-1, 1, COLUMNS), 3, 1, 1).reshape(x.shape),
    lambda x: F.rms_norm(x, (COLUMNS,)),
    lambda x: F.batch_norm(x, None, None, training=True) if x.ndim == 2 and len(x) > 1 else x,
    lambda x: F.scaled_dot_product_attention(x, x * 2, x) if x.ndim == 2 else x,
    lambda x: x.tril() if x.ndim == 2 else x,
    lambda x: x.std(-1, keepdim=True) + x,
    lambda x: x.logsumexp(-1, keepdim=True) - x,
    lambda x: x.repeat_interleave(2, -1)[..., ::2],
    lambda x: x.roll(1, -1),
    lambda x: x.to(ex.bfloat16).mul(2).float(),
    lambda x: x.int().float() + x,
    lambda x: x.prod(-1, keepdim=True) + x,
    lambda x: sum(x.split(2, -1)).repeat(*[1] * (x.ndim - 1), 2),
    lambda x: x[..., x.detach().reshape(-1)[:COLUMNS].argsort()],
]
BINARY: list[Callable[[Any, Any], Any]] = [
    ex.add,
    ex.sub,
    ex.mul,
    ex.maximum,
    ex.hypot,
    lambda a, b: a / (b.abs() + 1),
    lambda a, b: ex.where(a > b, a, b * 0.5),
    lambda a, b: a.lerp(b, 0.3),
    lambda a, b: ex.addcmul(a, b, b, value=0.5),
    lambda a, b: a * b + a - b,
    lambda a, b: F.mse_loss(a, b.expand_as(a)) + a if a.ndim >= b.ndim else b,
    lambda a, b: (a @ b.T) @ b if a.ndim == b.ndim == 2 else a * b,
    lambda a, b: F.linear(a, b.reshape(-1)[:COLUMNS].expand(COLUMNS, COLUMNS)),
    lambda a, b: ex.stack([a + b, b - a]).sum(0),
    lambda a, b: a**2 * (b > 0),
    lambda a, b: ex.cdist(a, b) @ b if a.ndim == b.ndim == 2 else a,
]
IN_PLACE: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a.add_(b),
    lambda a, b: a.mul_(b),
    lambda a, b: a.sub_(b, alpha=0.5),
    lambda a, b: a.copy_(b),
    lambda a, b: a.zero_(),
    lambda a, b: a.tanh_(),
    lambda a, b: a.clamp_(-1, 1),
    lambda a, b: a.fill_(0.25),
    lambda a, b: a[..., 1:3].mul_(2.0),
    lambda a, b: a.__setitem__((..., 1), 0.5),
    lambda a, b: a.__setitem__((..., slice(0, 2)), b[..., 2:4]),
    lambda a, b: a[0].add_(1.0) if len(a) else None,
]
READS: list[Callable[[Any], Any]] = [
    lambda x: x.sum().item(),
    lambda x: float(x.detach().abs().sum()),
    lambda x: x.tolist(),
    lambda x: repr(x),
    lambda x: bool((x > 0).any()),
    lambda x: x.numel(),
]


class Run:
    """One call of a program: what its statements work on."""

    def __init__(self, slots: list[ex.Tensor], call: int) -> None:
        self.slots = slots
        self.call = call
        self.kept: list[Any] = []


def fits(a: ex.Tensor, b: ex.Tensor) -> bool:
    """Whether b can be written into a."""
    return a.ndim >= b.ndim and b.shape[0] in (a.shape[-b.ndim], 1)


class Writer:
    """Draws statements."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def program(self) -> list[Statement]:
        return [self.statement(2) for _ in range(self.rng.randint(3, 14))]

    def statement(self, depth: int) -> Statement:
        kinds = ["unary"] * 6 + ["binary"] * 6 + ["matmul", "number", "offset", "keep", "read", "write", "view write"]
        if depth:
            kinds += ["loop", "branch", "mode", "backward", "loss"]
        kind = self.rng.choice(kinds)
        return getattr(self, kind.replace(" ", "_"))(depth)

    def slot(self) -> int:
        return self.rng.randrange(N_SLOTS)

    def unary(self, depth: int) -> Statement:
        op, i, j = self.rng.choice(UNARY), self.slot(), self.slot()

        def do(run: Run) -> None:
            run.slots[j] = op(run.slots[i])

        return do

    def binary(self, depth: int) -> Statement:
        op, i, j, k = self.rng.choice(BINARY), self.slot(), self.slot(), self.slot()

        def do(run: Run) -> None:
            run.slots[k] = op(run.slots[i], run.slots[j])

        return do

    def matmul(self, depth: int) -> Statement:
        i, j = self.slot(), self.slot()

        def do(run: Run) -> None:
            a, b = run.slots[i], run.slots[j]
            square = ex.outer(b.reshape(-1)[:COLUMNS], b.reshape(-1)[:COLUMNS])
            run.slots[j] = (a @ square).tanh()

        return do

    def number(self, depth: int) -> Statement:
        i, j, scale = self.slot(), self.slot(), self.rng.uniform(-2, 2)

        def do(run: Run) -> None:
            run.slots[j] = run.slots[i] * (scale + run.call) + 1 / (1 + run.call)

        return do

    def offset(self, depth: int) -> Statement:
        i, j = self.slot(), self.slot()

        def do(run: Run) -> None:
            wide = ex.cat([run.slots[i], run.slots[i] * 2], -1)
            k = run.call * 3 % COLUMNS
            run.slots[j] = wide[..., k : k + COLUMNS]

        return do

    def keep(self, depth: int) -> Statement:
        i, op = self.slot(), self.rng.choice([lambda x: x, lambda x: x[0], lambda x: x[..., 1:], lambda x: x.detach()])

        def do(run: Run) -> None:
            run.kept.append(op(run.slots[i]))

        return do

    def read(self, depth: int) -> Statement:
        i, op = self.slot(), self.rng.choice(READS)

        def do(run: Run) -> None:
            run.kept.append(op(run.slots[i]))

        return do

    def write(self, depth: int) -> Statement:
        op, i, j = self.rng.choice(IN_PLACE), self.slot(), self.slot()

        def do(run: Run) -> None:
            if fits(run.slots[i], run.slots[j]):
                op(run.slots[i], run.slots[j])

        return do

    def view_write(self, depth: int) -> Statement:
        i, j, value = self.slot(), self.slot(), self.rng.uniform(-1, 1)

        def do(run: Run) -> None:
            view = run.slots[i][..., 1:]
            run.kept.append(view)
            run.slots[i].add_(value) if run.call % 2 else view.mul_(value)
            run.slots[j] = ex.cat([view, view[..., :1]], -1)

        return do

    def loop(self, depth: int) -> Statement:
        body, n = [self.statement(depth - 1) for _ in range(self.rng.randint(1, 3))], self.rng.randint(0, 3)

        def do(run: Run) -> None:
            for _ in range((n + run.call) % 4):
                for statement in body:
                    statement(run)

        return do

    def branch(self, depth: int) -> Statement:
        first, second, i = self.statement(depth - 1), self.statement(depth - 1), self.slot()

        def do(run: Run) -> None:
            (first if run.slots[i].sum() > 0 else second)(run)

        return do

    def mode(self, depth: int) -> Statement:
        body = [self.statement(depth - 1) for _ in range(2)]
        mode = self.rng.choice([ex.no_grad, ex.no_grad, ex.enable_grad, ex.inference_mode])

        def do(run: Run) -> None:
            with mode():
                for statement in body:
                    statement(run)

        return do

    def backward(self, depth: int) -> Statement:
        i, retain = self.slot(), self.rng.random() < 0.6

        def do(run: Run) -> None:
            loss = run.slots[i].square().sum()
            if loss.requires_grad:
                loss.backward(retain_graph=retain)

        return do

    def loss(self, depth: int) -> Statement:
        i = self.slot()

        def do(run: Run) -> None:
            run.kept.append(run.slots[i].mean())

        return do


def scenario_of(seed: int) -> Callable[..., Iterator[Any]]:
    writer = Writer(seed)
    program = writer.program()
    tracked = [writer.rng.random() < 0.5 for _ in range(N_SLOTS)]
    flat = [writer.rng.random() < 0.3 for _ in range(N_SLOTS)]
    sizes = [writer.rng.choice([1, 2, 3, 3, 3, 17]) for _ in range(2)]
    copies = writer.rng.random() < 0.6  # else the program writes into its arguments, which may be refused
    finish = writer.rng.random() < 0.7

    def run_program(slots: list[ex.Tensor], call: int) -> tuple[list[ex.Tensor], list[Any]]:
        run = Run([x * 1 for x in slots] if copies else list(slots), call)
        for statement in program:
            statement(run)
        return run.slots, run.kept

    def scenario(wrap: Callable[..., Any]) -> Iterator[Any]:
        compiled = wrap(run_program)
        for call, variant in enumerate(VARIANTS):
            rows = sizes[variant]
            inputs = [
                draw(10 * call + k, COLUMNS, grad=t) if f else draw(10 * call + k, rows, COLUMNS, grad=t)
                for k, (t, f) in enumerate(zip(tracked, flat, strict=True))
            ]
            slots: list[ex.Tensor] = []
            kept: list[Any] = []
            error = None
            try:
                slots, kept = compiled(inputs, variant)
                if finish:
                    losses = [t.sum() for t in [*slots, *kept] if isinstance(t, ex.Tensor) and t.requires_grad]
                    if losses:
                        sum(losses).backward()
            except Exception as e:
                error = e.with_traceback(None)
            yield error, slots, kept, inputs, [x.grad for x in inputs]

    return scenario


@pytest.mark.parametrize("seed", range(N_PROGRAMS))
def test_a_random_program(seed):
    agree(scenario_of(seed))
