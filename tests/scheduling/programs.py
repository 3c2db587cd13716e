"""Random programs for tests of the planner: the same choices whether they run eagerly or are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import extempo as ex

F = ex.nn.functional
Tensor = ex.Tensor


def program(rng: np.random.Generator, n_ops: int) -> tuple[Callable[..., Any], list[Tensor]]:
    """A function of six tensors, and the tensors; some in float64, some transposed, most with gradients."""
    n_rows, n_columns = int(rng.integers(1, 6)), int(rng.integers(1, 9))
    shapes = [(n_rows, n_columns), (n_columns,), (n_rows, 1), (n_columns, n_columns), (n_rows, n_columns), ()]
    dtypes = [np.float64 if rng.random() < 0.15 else np.float32] * 6
    if rng.random() < 0.1:
        dtypes[int(rng.integers(6))] = np.float64
    arguments = []
    for shape, d in zip(shapes, dtypes, strict=True):
        array = rng.normal(size=shape).astype(d)
        t = ex.tensor(array)
        if len(shape) == 2 and rng.random() < 0.3:
            t = ex.tensor(np.ascontiguousarray(array.T)).T.detach()
        arguments.append(t.requires_grad_(bool(rng.random() < 0.8)))
    rows = ex.tensor(rng.integers(0, n_columns, size=n_rows))
    seeds = rng.integers(0, 2**31, size=n_ops)

    def run(*xs: Tensor) -> tuple[Tensor, ...]:
        values = list(xs)
        for seed in seeds:
            step = _Step(np.random.default_rng(seed), values, rows, n_columns)
            y = _CHOICES[int(step.rng.integers(len(_CHOICES)))](step)
            if y is not None and y.numel() and y.ndim <= 4:
                values.append(y)
        total = values[-1]
        for v in values[-3:-1]:
            total = total + v.sum()
        return (total, *values[len(xs) :][-3:])

    return run, arguments


class _Step:
    """The choices of one step."""

    def __init__(self, rng: np.random.Generator, values: list[Tensor], rows: Tensor, n_classes: int) -> None:
        self.rng = rng
        self.values = values
        self.rows = rows
        self.n_classes = n_classes  # each of `rows` is less

    def any(self, ndim: int | None = None) -> Tensor:
        """One of the values, rather a late one."""
        found = [v for v in self.values if ndim is None or v.ndim == ndim]
        return found[-1 - int(min(self.rng.integers(0, len(found)), self.rng.integers(0, len(found))))]

    def fitting(self, x: Tensor) -> Tensor:
        """One that broadcasts with x."""
        found = [v for v in self.values if _broadcast(v.shape, x.shape)]
        return found[int(self.rng.integers(len(found)))]

    def below(self, n: int) -> int:
        return int(self.rng.integers(0, n))

    def coin(self) -> bool:
        return bool(self.rng.random() < 0.5)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


def _binary(fn: Callable[[Tensor, Tensor], Tensor]) -> Callable[[_Step], Tensor]:
    def choice(s: _Step) -> Tensor:
        x = s.any()
        return fn(x, s.fitting(x))

    return choice


def _matmul(s: _Step) -> Tensor | None:
    a, b = s.any(2), s.any(2)
    if a.dtype != b.dtype:
        return None
    return a @ b if a.shape[1] == b.shape[0] else F.linear(a, b) if a.shape[1] == b.shape[1] else None


def _row(s: _Step) -> Tensor:
    x = s.any(2)
    first = s.below(x.shape[0])
    end = first + s.below(x.shape[0] - first + 1)
    return x[first:end] if end > first else x[first]


def _columns(s: _Step) -> Tensor:
    x = s.any(2)
    at = s.below(x.shape[1])
    return x[:, at] if s.coin() else x[:, at::2] if s.coin() else x[:, : at + 1]


def _chunks(s: _Step) -> Tensor:
    first, *others = s.any(2).chunk(3, s.below(2))
    s.values += [p.tanh() for p in others]
    return first * 2.0


def _reduced(s: _Step) -> Tensor:
    x = s.any()
    return x.sum(s.below(x.ndim), keepdim=s.coin()) if x.ndim else x.exp() * 0.1


def _class_loss(s: _Step) -> Tensor | None:
    x = s.any(2)
    return F.cross_entropy(x, s.rows) if x.shape[0] == len(s.rows) and x.shape[1] >= s.n_classes else None


def _embedding(s: _Step) -> Tensor | None:
    x = s.any(2)
    return F.embedding(s.rows, x) if x.shape[0] >= s.n_classes else None


def _norm(s: _Step) -> Tensor:
    x = s.any(2)
    return F.layer_norm(x, (x.shape[1],))


def _joined(s: _Step) -> Tensor:
    return ex.cat(list(s.any(2).chunk(2, 1)), 1)


def _expanded(s: _Step) -> Tensor:
    x = s.any()
    return x.unsqueeze(0).expand(3, *x.shape)


def _detached(s: _Step) -> Tensor:
    x = s.any()
    return x.detach() * s.fitting(x) if s.coin() else x.abs().sqrt()


_CHOICES: list[Callable[[_Step], Tensor | None]] = [
    _binary(lambda a, b: a + b),
    _binary(lambda a, b: a * b),
    _binary(lambda a, b: a - b),
    _binary(lambda a, b: ex.where(a > 0.1, a, b)),
    lambda s: s.any().tanh(),
    lambda s: s.any().sigmoid() * float(s.rng.normal()),
    lambda s: (x := s.any()) * x,
    lambda s: s.any().clamp(-0.5, None),
    lambda s: (s.any() * 0.5).exp(),
    lambda s: s.any(2).T,
    lambda s: s.any().reshape(-1),
    lambda s: s.any().mean(),
    lambda s: F.softmax(s.any(2), -1),
    _matmul,
    _row,
    _columns,
    _chunks,
    _reduced,
    _class_loss,
    _embedding,
    _norm,
    _joined,
    _expanded,
    _detached,
]


def lstm_cell(x: Tensor, h: Tensor, c: Tensor, w: Tensor, u: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    gates = F.linear(x, w, b) + F.linear(h, u)
    i, f, o, n = gates.chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * n.tanh()
    h = o.sigmoid() * c.tanh()
    return (h * h).sum(), h, c


LSTM_CELL = [(2, 4), (2, 3), (2, 3), (12, 4), (12, 3), (12,)]  # the shapes that it takes
