"""Expressions at the edges of what native code takes, and what comes out of them as text.

As a script it prints the outcomes, on whatever backend the environment chooses.
"""

from __future__ import annotations

import enum
import json
import sys

import numpy as np

import extempo as ex
import extempo.nn.functional as F


class Three(enum.IntEnum):
    THREE = 3


class Mine(ex.Tensor):
    """A subclass with slots of its own and an operator of its own."""

    __slots__ = ("one", "two")

    def __add__(self, other):
        return "mine"


class OwnParameter(ex.nn.Parameter):
    pass


def names():
    """What the expressions refer to, made anew for each."""
    raw = np.zeros(4 * 6 + 1, np.uint8)
    unaligned = raw[1:].view(np.float32)
    unaligned[:] = np.arange(6)
    read_only = np.arange(6, dtype=np.float32)
    read_only.flags.writeable = False
    return {
        "ex": ex,
        "F": F,
        "np": np,
        "x": ex.tensor([1.0, 2.0, 3.0], requires_grad=True),
        "d": ex.tensor([1.0, 2.0, 3.0], dtype=ex.float64),
        "i": ex.tensor([1, 2, 3]),
        "b": ex.tensor([True, False, True]),
        "mine": Mine([1.0, 2.0, 3.0]),
        "own": OwnParameter(ex.tensor([1.0, 2.0, 3.0])),
        "three": Three.THREE,
        "unaligned": ex.from_numpy(unaligned),
        "read_only": ex.as_tensor(read_only),
        "longs": ex.from_numpy(np.arange(3, dtype=np.longlong)),
        "turned": ex.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4)[::-1, ::-2]),
        "many": ex.ones(*[1] * 62, 2, 3),
        "nine": ex.arange(4.0).reshape(*[1] * 8, 4),
        "none": ex.ones(0, 3, requires_grad=True),
        "grads": grads,
    }


def grads(result, *leaves):
    """The gradients of the sum of the result."""
    for leaf in leaves:
        leaf.grad = None
    result.sum().backward()
    return [leaf.grad for leaf in leaves]


EXPRESSIONS = [
    *(f"x {op} {number}" for op in "+-*/" for number in ("2**63", "2**200", "10**400", "-(2**70)", "1e300", "True")),
    *(f"{t} {op} {number}" for t in "idb" for op in "+*<" for number in ("2**62", "2**70", "10**400", "1.5", "False")),
    *(
        f"{number} - x"
        for number in ("np.float32(2)", "np.int8(3)", "np.bool_(True)", "three", "float('nan')", "2**70")
    ),
    *(f"x * {number}" for number in ("np.float64(2)", "np.array(2.0)", "three", "float('inf')", "-0.0", "None", "'a'")),
    "x ** (2**70)",
    "x ** 10**400",
    "x.clamp(min=10**400)",
    "i.clamp(max=2**80)",
    "F.leaky_relu(x, 10**400)",
    "F.softplus(x, beta=2**300)",
    "F.layer_norm(x, (3,), eps=10**400)",
    "F.embedding(ex.tensor([0, 5]), ex.ones(3, 2))",
    "F.cross_entropy(x, 2**70)",
    "F.cross_entropy(x, 7)",
    "ex.roll(x, 2**70)",
    "ex.tril(ex.ones(2, 2), 2**70)",
    "ex.where(x > 1, 10**400, x)",
    "ex.full((2,), 10**400)",
    "x[2**70]",
    "x[2**63 - 1]",
    "x[2**63 - 1 :]",
    "x.narrow(0, 2**63 - 2, 3)",
    "ex.tensor(0.1, dtype=ex.float64) == ex.tensor([0.1])",
    "ex.tensor([0.1], dtype=ex.float64) == ex.tensor([0.1])",
    "ex.tensor(2**40) == ex.tensor([0], dtype=ex.int32)",
    "ex.tensor([2**40]) == ex.tensor([0], dtype=ex.int32)",
    *(f"{a} {op} {b}" for op in "+*" for a, b in (("mine", "x"), ("x", "mine"), ("own", "mine"), ("own", "x"))),
    "ex.exp(mine)",
    "mine[1:]",
    "grads(own * x, own, x)",
    "unaligned + 1",
    "unaligned.sum()",
    "unaligned[::2] @ x.detach()",
    "unaligned.add_(1)",
    "read_only + 1",
    "read_only[1:] * 2",
    "read_only.add_(1)",
    "longs + 1",
    "longs * longs",
    "longs == i - 1",
    "x[longs]",
    "F.embedding(longs, ex.ones(3, 2)).sum()",
    "turned * turned + turned[0]",
    "turned @ turned.T",
    "turned.sum(0)",
    "ex.exp(many - many).sum()",
    "(many * 2 + many[0]).ndim",
    "many.unsqueeze(0)",
    "nine * x[:1]",
    "grads(none * x, none, x)",
    "grads(none.sum(1) * ex.ones(1), none)",
    "grads(x.expand(2, 3) * 2, x)",
    "grads(x[None, :, None] * ex.ones(2, 1, 4), x)",
    "grads(x[:0], x)",
    "ex.ones(3) + ex.ones(4)",
    "ex.ones(3, 2) @ ex.ones(3, 2)",
    "ex.ones(3)[5]",
    "ex.exp('a')",
    "ex.exp(None)",
    "ex.tanh(i)",
    "(x > 0).backward()",
    "x.detach().sum().backward()",
]


def _text(value):
    if isinstance(value, list | tuple):
        return [_text(v) for v in value]
    if not isinstance(value, ex.Tensor):
        return repr(value)
    rounded = [float(f"{v:.5g}") for v in np.asarray(value.detach()).reshape(-1)]
    return f"{type(value).__name__} {value.dtype} {tuple(value.shape)} {value.requires_grad} {rounded}"


def outcome(expression):
    """What the expression gives, or the error it raises."""
    try:
        return _text(eval(expression, names()))
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    json.dump([outcome(e) for e in EXPRESSIONS], sys.stdout)
