"""Random programs of ops, views, indexing and in-place writes agree with NumPy, gradients with differences."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import extempo as ex
from extempo.core.strides import laid_out

N_SLOTS = 3


def np_sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "tanh": (ex.tanh, np.tanh),
    "sin": (ex.sin, np.sin),
    "neg": (ex.neg, np.negative),
    "sigmoid": (ex.sigmoid, np_sigmoid),
    "abs": (ex.abs, np.abs),
    "square": (ex.square, np.square),
}
BINARY = {
    "add": (ex.add, np.add),
    "sub": (ex.sub, np.subtract),
    "mul": (ex.mul, np.multiply),
    "maximum": (ex.maximum, np.maximum),
}
IN_PLACE = {
    "add_": lambda a, b: np.add(a, b, out=a),
    "mul_": lambda a, b: np.multiply(a, b, out=a),
    "sub_": lambda a, b: np.subtract(a, b, out=a),
    "copy_": lambda a, b: np.copyto(a, b),
}


@st.composite
def views(draw):
    """One view step, as a function that works on a tensor and on an array."""
    kind = draw(st.sampled_from(["index", "slice", "mask", "list", "transpose", "reshape", "new"]))
    a, b = draw(st.integers(-4, 3)), draw(st.integers(1, 4))
    step = draw(st.integers(1, 2))

    def apply(x):
        size = x.shape[0] if len(x.shape) else 0
        if not size:
            return x
        if kind == "index":
            return x[a % size, ...]  # the ellipsis keeps a single element a view in NumPy, too
        if kind == "slice":
            return x[a % size :: step]
        if kind == "transpose":
            return x.T if len(x.shape) <= 2 else x
        if kind == "new":
            return x[None, ...]
        if kind == "reshape":
            return x.reshape(-1)
        if kind == "list":
            return x[[a % size, b % size]]
        return (
            x[np.arange(size) % 2 == a % 2] if isinstance(x, np.ndarray) else x[ex.tensor(np.arange(size) % 2 == a % 2)]
        )

    apply.kind = kind
    return apply


steps = st.one_of(
    st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY)), st.integers(0, N_SLOTS - 1)),
    st.tuples(
        st.just("binary"), st.sampled_from(sorted(BINARY)), st.integers(0, N_SLOTS - 1), st.integers(0, N_SLOTS - 1)
    ),
    st.tuples(st.just("view"), views(), st.integers(0, N_SLOTS - 1), st.integers(0, N_SLOTS - 1)),
    st.tuples(
        st.just("write"), st.sampled_from(sorted(IN_PLACE)), st.integers(0, N_SLOTS - 1), st.integers(0, N_SLOTS - 1)
    ),
    st.tuples(st.just("set"), views(), st.integers(0, N_SLOTS - 1), st.floats(-2, 2)),
)


def broadcasts(a, b):
    try:
        return np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return None


def run(program, arrays):
    """The program on NumPy arrays: the meaning."""
    slots = list(arrays)
    for kind, what, i, *rest in program:
        if kind == "unary":
            slots[i] = laid_out(UNARY[what][1](slots[i]), [slots[i]])  # it decides whether a later reshape is a view
        elif kind == "binary":
            if broadcasts(slots[i], slots[rest[0]]) is not None:
                operands = [slots[i], slots[rest[0]]]
                slots[i] = laid_out(BINARY[what][1](*operands), operands)
        elif kind == "view":
            slots[rest[0]] = what(slots[i])[...]
        elif kind == "write":
            if broadcasts(slots[i], slots[rest[0]]) == slots[i].shape:
                IN_PLACE[what](slots[i], slots[rest[0]].copy())
        elif what.kind not in ("list", "mask", "index"):
            what(slots[i])[...] = rest[0]
        elif slots[i].ndim:
            target = what(slots[i])
            if what.kind == "index" and target.ndim:
                target[...] = rest[0]
    return slots


def run_extempo(program, tensors):
    """The same program on tensors."""
    slots = list(tensors)
    for kind, what, i, *rest in program:
        if kind == "unary":
            slots[i] = UNARY[what][0](slots[i])
        elif kind == "binary":
            if broadcasts(slots[i], slots[rest[0]]) is not None:
                slots[i] = BINARY[what][0](slots[i], slots[rest[0]])
        elif kind == "view":
            slots[rest[0]] = what(slots[i])
        elif kind == "write":
            if broadcasts(slots[i], slots[rest[0]]) == tuple(slots[i].shape):
                getattr(slots[i], what)(slots[rest[0]])
        elif what.kind not in ("list", "mask", "index"):
            what(slots[i])[...] = rest[0]
        elif slots[i].ndim:
            target = what(slots[i])
            if what.kind == "index" and target.ndim:
                target[...] = rest[0]
    return slots


programs = st.lists(steps, min_size=1, max_size=10)


@settings(max_examples=300, deadline=None)
@given(programs, st.integers(0, 2**31))
def test_values_agree_with_numpy(program, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=s) for s in ((3, 2), (3,), (2, 3))]
    with np.errstate(all="ignore"):
        expected = run(program, [a.copy() for a in arrays])
    for e, a in zip(expected, run_extempo(program, [ex.tensor(a) for a in arrays]), strict=True):
        np.testing.assert_allclose(a.numpy(), e, rtol=1e-12, atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(programs, st.integers(0, 2**31))
def test_gradients_agree_with_differences_along_a_line(program, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=s) for s in ((3, 2), (3,), (2, 3))]
    directions = [rng.normal(size=a.shape) for a in arrays]
    leaves = [ex.tensor(a, requires_grad=True) for a in arrays]
    # Each leaf is copied first: a program may write into what it is given.
    total = sum(s.sum() for s in run_extempo(program, [x.clone() for x in leaves]))
    if not total.requires_grad:
        return
    try:
        gradients = ex.autograd.grad(total, leaves, allow_unused=True)
    except ex.errors.OverwrittenError:
        return  # the program overwrote what its gradient needs: refused, as it should be
    slope = sum(float((g.numpy() * d).sum()) for g, d in zip(gradients, directions, strict=True) if g is not None)

    def f(t):
        return sum(float(s.sum()) for s in run(program, [a + t * d for a, d in zip(arrays, directions, strict=True)]))

    with np.errstate(all="ignore"):
        h = 1e-6
        one_sided = [(f(h) - f(0)) / h, (f(0) - f(-h)) / h]
    if abs(one_sided[0] - one_sided[1]) > 1e-3 * (1 + abs(slope)):
        return  # a kink (abs, maximum) lies here
    np.testing.assert_allclose(slope, np.mean(one_sided), rtol=1e-4, atol=1e-4)
