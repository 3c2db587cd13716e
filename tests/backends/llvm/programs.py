"""Random programs as plain data, and an interpreter of them: one program, run in many ways, has one outcome.

As a script it runs the pickled programs that it reads, on whatever backend the environment chooses, so that a test can
compare two processes.
"""

from __future__ import annotations

import contextlib
import pickle
import struct
import sys

import numpy as np
from hypothesis import strategies as st

import extempo as ex
import extempo.nn.functional as F

SHAPES = [(), (1,), (4,), (3, 4), (3, 1), (1, 4), (2, 3, 4), (0, 4), (9, 9), (1, 1, 1, 1, 1, 1, 1, 1, 4)]
UNARY = ["neg", "tanh", "sigmoid", "exp", "sin", "abs", "relu", "square", "gelu", "softplus", "silu", "sqrt", "log1p"]
BINARY = ["add", "sub", "mul", "maximum", "minimum", "div", "where", "lerp", "pow"]
NUMBERS = [2, 0.5, -1.5, True, 3, 0.0, -2.0, 2**40]
VIEWS = ["transpose", "slice", "select", "reshape", "expand", "new", "flip", "index", "stride"]
REDUCTIONS = ["sum", "mean", "amax", "softmax", "log_softmax", "cumsum", "logsumexp", "var", "prod"]
WRITES = ["add_", "mul_", "copy_", "zero_", "exp_"]
MOST_ELEMENTS = 2_000


@st.composite
def programs(draw):
    """(leaves, steps): dtypes and shapes of the leaves; each step names its kind and refers to values made before."""
    shape = st.sampled_from(SHAPES)
    leaves = draw(st.lists(st.tuples(st.sampled_from(["float32", "float64"]), shape), min_size=1, max_size=3))
    if draw(st.booleans()):
        leaves = [(leaves[0][0], s) for _, s in leaves]
    place = st.integers(0, 7)
    steps = st.one_of(
        st.tuples(st.just("unary"), st.sampled_from(UNARY), place),
        st.tuples(st.just("binary"), st.sampled_from(BINARY), place, place),
        st.tuples(st.just("number"), st.sampled_from(BINARY[:6]), place, st.sampled_from(NUMBERS), st.booleans()),
        st.tuples(st.just("view"), st.sampled_from(VIEWS), place, st.integers(0, 5), st.integers(1, 3)),
        st.tuples(st.just("reduce"), st.sampled_from(REDUCTIONS), place, st.integers(0, 3), st.booleans()),
        st.tuples(st.just("matmul"), place, place),
        st.tuples(st.just("cat"), place, place),
        st.tuples(st.just("write"), st.sampled_from(WRITES), place, place, st.integers(0, 3)),
        st.tuples(st.just("no_grad"), place),
    )
    return leaves, draw(st.lists(steps, min_size=1, max_size=7))


def _unary(name, x):
    if name in ("sqrt", "log1p"):
        x = x.abs() + 0.25  # away from where the slope has no bound
    if name == "exp":
        x = x.clamp(max=3.0)
    return getattr(F if name in ("gelu", "softplus", "silu") else ex, name)(x)


def _binary(name, x, y):
    if name == "where":
        return ex.where(x > y, x, y * 0.5)
    if name == "lerp":
        return ex.lerp(x, y.to(x.dtype), 0.25) if x.dtype is y.dtype else x + y
    if name == "div":
        return x / (y.abs() + 0.5 if isinstance(y, ex.Tensor) else (y or 1))
    if name == "pow":
        return (x.abs() + 0.5) ** y.clamp(-2.0, 2.0)
    return getattr(ex, name)(x, y)


def _number(name, x, number, reflected):
    if name in ("maximum", "minimum"):
        return x.clamp(max=float(number)) if reflected else x.clamp(min=number)
    if reflected:
        return {"add": number + x, "sub": number - x, "mul": number * x}.get(name, x + number)
    if abs(number) > 100:
        return x + number - number
    return {"add": x + number, "sub": x - number, "mul": x * number}.get(name, x / (number or 1))


def _view(kind, x, a, b):
    size = x.shape[0] if x.ndim else 0
    if kind == "new" or not x.ndim:
        return x.unsqueeze(a % (x.ndim + 1)) if x.ndim < 12 else x
    if kind == "transpose":
        return x.transpose(a % x.ndim, b % x.ndim)
    if kind == "reshape":
        return x.reshape(-1) if a % 2 else x.reshape(*x.shape[1:], x.shape[0])
    if kind == "expand":
        return x.expand(2, *x.shape)
    if kind == "flip":
        return x.flip(a % x.ndim)
    if not size:
        return x
    if kind == "select":
        return x[a % size]
    if kind == "index":
        return x[[a % size, b % size]]
    return x[a % size :: b] if kind == "stride" else x[a % size : a % size + b]


def _reduce(name, x, dim, keepdim):
    if not x.ndim or not x.numel():
        return x.sum()
    dim %= x.ndim
    if name in ("softmax", "log_softmax", "cumsum"):
        return getattr(F if name != "cumsum" else ex, name)(x, dim)
    if name == "var" and x.shape[dim] < 2:
        return x.sum(dim, keepdim=keepdim)
    return getattr(ex, name)(x, dim, keepdim=keepdim)


def _write(name, x, y, a):
    target = x * 1.0
    part = _view(("slice", "select", "transpose", "new")[a], target, a, 2)
    kept = target.sin() if a == 3 else target + 1.0  # the first reads in backward what is about to be overwritten
    if name == "copy_":
        part.copy_(y.reshape(-1)[0] if y.numel() else 0.5)
    elif name in ("zero_", "exp_"):
        getattr(part.clamp_(max=2.0), name)()
    else:
        getattr(part, name)(y.reshape(-1)[0].to(part.dtype) if y.numel() else 0.5)
    return target + kept + part.sum()


def _matmul(x, y):
    n = x.shape[-1] if x.ndim else 1
    if not n or y.numel() < n:
        return x.reshape(-1, 1) @ y.reshape(1, -1)
    right = y.reshape(-1)[: y.numel() // n * n]
    return x @ (right.reshape(n, -1) if y.ndim % 2 else right.reshape(-1, n).T)


def _step(step, values):
    kind, *rest = step
    if kind == "unary":
        return _unary(rest[0], values[rest[1] % len(values)])
    if kind in ("binary", "cat", "matmul"):
        x, y = values[rest[-2] % len(values)], values[rest[-1] % len(values)]
        if kind == "binary":
            return _binary(rest[0], x, y)
        if kind == "cat":
            return ex.cat([x.reshape(-1), y.reshape(-1)]) if x.dtype is y.dtype else x.sum() + y.sum()
        return _matmul(x, y.to(x.dtype))
    if kind == "number":
        return _number(rest[0], values[rest[1] % len(values)], *rest[2:])
    if kind == "view":
        return _view(rest[0], values[rest[1] % len(values)], *rest[2:])
    if kind == "reduce":
        return _reduce(rest[0], values[rest[1] % len(values)], *rest[2:])
    if kind == "write":
        return _write(rest[0], values[rest[1] % len(values)], values[rest[2] % len(values)], rest[3])
    with ex.no_grad():
        return values[rest[0] % len(values)] * 2.0


def forward(program, watch=None):
    """The leaves and everything that the steps made; a step that cannot run (shapes) makes nothing."""
    leaves, steps = program
    rng = np.random.default_rng(0)
    values = [ex.tensor(rng.normal(size=shape), dtype=getattr(ex, name), requires_grad=True) for name, shape in leaves]
    n_leaves, refused = len(values), []
    for step in steps:
        try:
            made = _step(step, values)
        except ex.errors.ExtempoError as error:
            refused.append(f"{type(error).__name__}: {error}")
            continue
        if made.numel() <= MOST_ELEMENTS:
            values.append(made)
            if watch is not None and made.requires_grad:
                watch(made)
    return values[:n_leaves], values, refused


def _loss(values):
    rng = np.random.default_rng(1)
    total = None
    for v in values:
        part = (v * ex.tensor(rng.uniform(0.5, 1.5, size=tuple(v.shape)), dtype=v.dtype)).sum().double()
        total = part if total is None else total + part
    return total


def bits(t):
    """The values with one NaN and one zero: which of their signs comes out is not part of the promise."""
    if t is None:
        return None
    array = t.detach().numpy() + 0.0
    return array.dtype.str, array.shape, np.where(np.isnan(array), np.nan, array).astype(array.dtype).tobytes()


WAYS = ("plain", "hooks", "retained", "create_graph", "grad", "anomaly")


def outcome(program, way="plain"):
    """Bits of every value and of the gradients of the leaves, how values lie in memory, and what was refused."""
    watch = {"hooks": lambda t: t.register_hook(lambda g: None), "retained": lambda t: t.retain_grad()}.get(way)
    around = ex.autograd.detect_anomaly(check_nan=False) if way == "anomaly" else contextlib.nullcontext()
    with around:
        leaves, values, refused = forward(program, watch)
        made = [(bits(v), v.stride(), v._alias is None, v.requires_grad) for v in values]
        loss = _loss(values)
        try:
            if way == "grad":
                gradients = ex.autograd.grad(loss, leaves, allow_unused=True)
            else:
                loss.backward(create_graph=way == "create_graph")
                gradients = [x.grad for x in leaves]
        except ex.errors.ExtempoError as error:
            return made, [type(error).__name__], refused
    return made, [bits(g) for g in gradients], refused


def numbers(program):
    """The same as arrays, for a comparison up to rounding."""
    leaves, values, refused = forward(program)
    try:
        _loss(values).backward()
        gradients = [x.grad for x in leaves]
    except ex.errors.ExtempoError as error:
        gradients = []
        refused.append(type(error).__name__)
    arrays = [None if t is None else t.detach().numpy() for t in (*values, *gradients)]
    return arrays, [text.partition(":")[0] for text in refused]


def serve():
    """Read programs until there are no more; write what came out."""
    while header := sys.stdin.buffer.read(8):
        program = pickle.loads(sys.stdin.buffer.read(struct.unpack("<q", header)[0]))
        answer = pickle.dumps(numbers(program))
        sys.stdout.buffer.write(struct.pack("<q", len(answer)) + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
