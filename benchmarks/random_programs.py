"""A seed and a number in, a program out: Python text that runs on Extempo and on PyTorch, and the data of its calls.

A program is a function `call(lib, s, x, index, k)`: k counts the calls, x is their input (rows, width), index has one
row number per row, and s is what stays between calls: weights, an optimizer, buffers, kept tensors. What may change
from call to call (number of rows, of turns, order of ops) is drawn beforehand, so every run of a program does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

N_CALLS = 60
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
INDENT = "    "

# {a}, {b}: tensors (rows, width); {o}: the new one; {h}: half the width; {c}: a number in the text.
PLAIN = """
{o} = lib.tanh({a})
{o} = lib.sigmoid({a}) * {b}
{o} = lib.sin({a}) + {b}
{o} = F.relu({a} - {b})
{o} = F.gelu({a})
{o} = F.softplus({a}) * {c}
{o} = lib.exp(-{a}.abs())
{o} = lib.sqrt({a}.abs() + 1.0)
{o} = {a} * {c} + {b}
{o} = {a} * (1.0 + 0.01 * k)
{o} = {a} - {b} / (1.0 + {b} * {b})
{o} = lib.maximum({a}, {b})
{o} = lib.where({a} > {b}, {a}, {c} * {b})
{o} = {a}.clamp(-1.0, {c}) * ({b} > 0).to({b}.dtype)
{o} = lib.tanh({a} @ s.w + s.v)
{o} = F.linear({a}, s.w, s.v)
{o} = {a} @ s.w.T
{o} = {a} @ ({b}.T @ {a}) * (0.1 / {a}.shape[0])
{o} = F.softmax({a}, -1)
{o} = F.layer_norm({a}, ({a}.shape[1],), s.u, s.v)
{o} = {a} - {a}.mean(0)
{o} = {a} / ({a}.abs().amax(1, keepdim=True) + 1.0)
{o} = {a} * lib.linalg.vector_norm({b}, dim=1, keepdim=True).tanh()
{o} = {a} + {b}.sum() * 0.01
{o} = lib.cat([{a}[:, {h}:], {b}[:, :{h}]], 1)
{o} = lib.stack([{a}, {b}]).sum(0)
{o} = lib.cat([part * 0.5 for part in {a}.chunk(2, 1)], 1)
{o} = {a}.T.reshape({a}.shape)
{o} = {a}.reshape(-1).flip(0).reshape({a}.shape)
{o} = {a}.unsqueeze(1).expand(-1, 2, -1).sum(1)
{o} = {a} + {b}[:, k % {n} : k % {n} + 1]
{o} = {a} * {b}[k % {a}.shape[0]]
{o} = {a}[index] + {b}
{o} = lib.index_select({a}, 0, index)
{o} = {a}.roll(1, 0)
{o} = {a}.detach() + {b}
{o} = {a} + s.buffer
{o} = {a} + s.kept[0].mean()
"""
RARE = """
{o} = lib.cumsum({a}, 0) * 0.1
{o} = lib.sort({a}, dim=1)[0] + {b}
{o} = {a} + {b}[{b} > {c}].sum() * 0.01
{o} = F.dropout({a}, 0.1)
{o} = {a} + 0.01 * lib.rand_like({b})
{o} = {a}.to(lib.bfloat16).to({a}.dtype)
{o} = {a} + {a}.argmax(1, keepdim=True).to({a}.dtype) * 0.01
{o} = {a}.double().sum(1, keepdim=True).to({a}.dtype) + {b}
"""
# A new tensor is written to, or memory from outside the call; either way what gradients need stays as it was.
WRITES = """
{o} = {a} * 1.0; {o}.add_({b})
{o} = {a} + 0.0; {o}.mul_({b})
{o} = {a}.clone(); {o}[0] = {b}[-1]
{o} = {a}.clone(); {o}[:, :{h}] = {b}[:, :{h}] * 0.5
{o} = {a}.clone(); {o}[:, 0] += {c}
{o} = {a} * 2.0; {o}.tanh_()
{o} = {a} - 1.0; {o}.add_({c}); {o}.relu_()
{o} = lib.zeros_like({a}); {o}[:, {h}:] = {a}[:, {h}:]
s.buffer.mul_(0.9).add_({a}.detach().mean(0)); {o} = {a} + s.buffer
s.buffer[k % {n}] = {a}.detach().mean(); {o} = {a} - s.buffer
s.kept = [*s.kept[-2:], {a}.detach()]; {o} = {a} * 0.5
"""
# Only where no gradient is recorded: these overwrite what a gradient may read.
BOLD_WRITES = """
{a}.add_({c}); {o} = {a} * 0.5
{a}[0].mul_(0.5); {o} = {a} + {b}
{o} = {a}[:, :{h}]; {o}.neg_(); {o} = {a} * 1.0
{o} = {a}.T; {o}[0] = {c}; {o} = {a} + {b}
{a}.copy_({b}); {o} = {a} + 1.0
"""
READS = """
{o} = {a} * (1.0 / (1.0 + abs({b}.sum().item())))
{o} = {a} + float({b}.detach()[0, 0])
s.seen = {a}.mean().item(); {o} = {a} * {c}
s.seen = str({a}.shape) + repr({a}[0, :2].tolist()); {o} = {a} + {b}
"""
KINDS = {"plain": PLAIN, "rare": RARE, "write": WRITES, "bold": BOLD_WRITES, "read": READS}
STATEMENTS = {kind: text.strip().splitlines() for kind, text in KINDS.items()}

CLIP, STEP, CLEAR = "lib.nn.utils.clip_grad_norm_(s.weights, 1.0)", "s.optimizer.step()", "s.optimizer.zero_grad()"
BY_HAND = """
with lib.no_grad():
    for p in s.weights:
        if p.grad is not None:
            p -= 0.01 * p.grad
            p.grad = None
"""
UPDATES = ([STEP, CLEAR], [CLIP, STEP, CLEAR], BY_HAND.strip().splitlines())


@dataclass(frozen=True)
class Program:
    """One program. `repeats` says that its calls fall into few structures; otherwise hardly two calls are alike."""

    number: int
    text: str
    width: int
    rows: list[int]  # of each call
    turns: list[int]  # of a loop, for each call
    orders: list[list[int]]  # of ops, for each call
    double: bool
    tracked: bool
    optimizer: str
    features: tuple[str, ...]
    seed: int

    @property
    def repeats(self) -> bool:
        return "never repeats" not in self.features

    @property
    def about(self) -> str:
        rows = f"{min(self.rows)}-{max(self.rows)}" if len(set(self.rows)) > 1 else str(self.rows[0])
        return f"{rows} x {self.width}" + "".join(f", {feature}" for feature in self.features)

    def compiled_text(self) -> Callable[..., Any]:
        """The function, as Python makes it of the text."""
        names: dict[str, Any] = {}
        exec(compile(self.text, f"<program {self.number}>", "exec"), names)
        return names["call"]

    def state(self, lib: Any) -> SimpleNamespace:
        """What the first call finds."""
        rng = np.random.RandomState(self.seed)
        dtype = "f8" if self.double else "f4"
        arrays = [rng.randn(self.width, self.width) / self.width**0.5, 0.1 * rng.randn(self.width), np.ones(self.width)]
        weights = [lib.from_numpy(a.astype(dtype)).requires_grad_(self.tracked) for a in arrays]
        w, v, u = weights
        optimizer = getattr(lib.optim, self.optimizer)(weights, lr=0.01) if self.tracked else None
        buffer, kept = (lib.from_numpy(np.zeros(self.width, dtype)) for _ in range(2))
        made = SimpleNamespace(
            weights=weights, w=w, v=v, u=u, optimizer=optimizer, buffer=buffer, kept=[kept], seen=0.0
        )
        made.turns, made.orders = self.turns, self.orders
        return made

    def inputs(self, k: int) -> tuple[Any, Any]:
        """x and index of call k, as arrays."""
        rng = np.random.RandomState([self.seed, k])
        rows = self.rows[k]
        return rng.randn(rows, self.width).astype("f8" if self.double else "f4"), rng.randint(0, rows, rows)


class _Writer:
    """Draws statements. Names in `tensors` are of shape (rows, width) and known wherever the next statement goes."""

    def __init__(self, rng: np.random.RandomState, width: int, tracked: bool) -> None:
        self.rng, self.width, self.tracked = rng, width, tracked
        self.lines: list[str] = []
        self.tensors = ["x"]
        self.features: set[str] = set()
        self.n_made = 0

    def number(self) -> str:
        return f"{self.rng.uniform(0.2, 1.2):.2f}"

    def kind(self) -> str:
        kinds = ["plain", "rare", "write", "read" if self.tracked else "bold", "read"]
        return kinds[self.rng.choice(5, p=[0.78, 0.05, 0.09, 0.04, 0.04])]

    def statement(self, depth: int, kind: str, o: str, a: str | None = None) -> None:
        """One of a kind, on tensors drawn anew unless `a` is given."""
        self.features.update({"write": ["writes"], "bold": ["writes"], "read": ["reads"]}.get(kind, []))
        text = str(self.rng.choice(STATEMENTS[kind]))
        a, b = a or str(self.rng.choice(self.tensors[-3:])), str(self.rng.choice(self.tensors))
        if kind == "bold" and a == b:
            text = "{o} = {a} * {c}"  # a tensor that is copied into itself means little
        words = {"a": a, "b": b, "o": o, "h": self.width // 2, "c": self.number(), "n": self.width}
        self.lines.append(INDENT * depth + text.format(**words))

    def new(self) -> str:
        self.n_made += 1
        return f"t{self.n_made}"

    def some(self, count: int) -> None:
        for _ in range(count):
            o = self.new()
            self.statement(1, self.kind(), o)
            self.tensors.append(o)

    def body(self, depth: int, o: str, count: int) -> None:
        """Statements that go on with `o`, in a loop or a branch."""
        for _ in range(count):
            self.statement(depth, "plain", o, o)

    def block(self, shape: str) -> None:
        """A loop or a branch, whose result is one more tensor."""
        o, start = self.new(), str(self.rng.choice(self.tensors[-3:]))
        self.lines.append(f"    {o} = {start} * 1.0")
        self.features.add({"if": "reads", "while": "reads", "orders": "never repeats"}.get(shape, "loops"))
        size = self.rng.randint(1, 4)
        if shape == "if":
            self.lines.append(f"    if {o}.mean().item() > 0.0:")
            self.body(2, o, size)
            self.lines.append("    else:")
            self.body(2, o, 1)
        elif shape == "while":
            limit = f"{self.width**0.5:.2f}"
            self.lines.append("    n = 0")
            self.lines.append(f"    while n < 6 and float(lib.linalg.vector_norm({o}.detach())) > {limit}:")
            self.lines += [f"        {o} = {o} * 0.7", "        n += 1"]
            self.body(2, o, size)
        elif shape == "orders":
            self.lines.append("    for j in s.orders[k]:")
            for j in range(6):
                self.lines.append(f"        {'elif' if j else 'if'} j == {j}:")
                self.body(3, o, 1)
        else:
            turns = {"fixed": self.rng.randint(2, 9), "cycling": "1 + k % 3", "turns": "s.turns[k]"}[shape]
            self.features.update(["changing loops"] if shape == "turns" else [])
            self.lines.append(f"    for _ in range({turns}):")
            self.body(2, o, size)
        self.tensors.append(o)


def draw(seed: int, number: int) -> Program:
    """The program of that number, which may be negative."""
    rng = np.random.RandomState([seed, number % 2**32])
    width = int(rng.choice(SIZES[1:]))
    tracked = bool(rng.rand() < 0.6)
    writer = _Writer(rng, width, tracked)
    writer.lines += ["def call(lib, s, x, index, k):", "    F = lib.nn.functional", "    t0 = lib.tanh(x @ s.w + s.v)"]
    writer.tensors.append("t0")
    for _ in range(rng.randint(1, 5)):
        writer.some(rng.randint(1, 8))
        if rng.rand() < 0.6:
            shapes = ["fixed", "cycling", "turns", "if", "while", "orders"]
            writer.block(shapes[rng.choice(6, p=[0.25, 0.15, 0.2, 0.15, 0.15, 0.1])])
    last = writer.tensors[-1]
    if tracked:
        writer.lines.append(f"    loss = ({last} * {last}).mean() + 0.1 * t0.mean()")
        if rng.rand() < 0.2:
            writer.lines.append("    return lib.autograd.grad(loss, s.weights[:2])")
        else:
            update = UPDATES[rng.randint(len(UPDATES))]
            writer.lines += ["    loss.backward()", *(INDENT + line for line in update)]
            writer.lines.append(f"    return [loss, {last}]")
    else:
        writer.lines.append(f"    return [{', '.join(writer.tensors[-2:])}]")
    features = (["gradients"] if tracked else []) + sorted(writer.features)
    return Program(
        number,
        "\n".join(writer.lines) + "\n",
        width,
        _rows(rng, features),
        rng.randint(1, 13, N_CALLS).tolist(),
        [rng.randint(0, 6, rng.randint(5, 25)).tolist() for _ in range(N_CALLS)],
        bool(rng.rand() < 0.12),
        tracked,
        str(rng.choice(["SGD", "Adam"])),
        tuple(features),
        int(rng.randint(2**31)),
    )


def _rows(rng: np.random.RandomState, features: list[str]) -> list[int]:
    """Of each call: always as many, one of a few numbers, or any number."""
    most = int(rng.choice(SIZES))
    how = rng.rand()
    if how < 0.5 or most < 4:
        return [most] * N_CALLS
    if how < 0.8:
        features.append("few sizes")
        return rng.choice(rng.randint(1, most + 1, 4), N_CALLS).tolist()
    features.append("many sizes")
    return rng.randint(1, most + 1, N_CALLS).tolist()
