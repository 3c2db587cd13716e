"""Every registered op on ragged tensors made of its own samples: the loop over rows, or a refusal, no other answer.

A sample is one row. Its arrays become rows of different length, cut or repeated along one dimension, and the op runs on
all of them by its batching rule, which says what the attributes of one sample are for many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY, Op, Refuse, Sample
from extempo.dispatch.dispatcher import apply
from extempo.errors import ExtempoError
from extempo.ragged_tensors.rows import Rows
from extempo.ragged_tensors.tensor import RaggedTensor

RANDOM = [name for name, op in REGISTRY.items() if op.family == "random"]
OPS = [
    pytest.param(op, id=name)
    for name, op in sorted(REGISTRY.items())
    if not isinstance(op.samples, Refuse) and op.family not in ("random", "segments") and name != "standardize"
]  # standardize: its weights belong to all rows, not to each

# Ops that have a rule, of whose samples none is for it: a table or sequence for each row, other shapes than rows have.
OTHERWISE = ("reshape", "expand", "embedding", "index_get", "histc", "searchsorted", "ldl_solve", "permutation_matrix")

BY_BATCHING = ("linear_gradient",)  # refuse ragged tensors, but their batching rules make ops of them that do not

# Where nothing says how long a row is. Elsewhere another input or an attribute does, which kernels rely on.
FREE_FAMILIES = ("elementwise", "arrange", "scan", "sort", "join", "linalg")
FREE_ATTRIBUTES = {"dim", "keepdim", "ord", "accumulate", "reduce", "include_self"}
TIED = ("cross_entropy", "cross_entropy_backward", "standardize", "standardize_backward", "logsumexp_backward")


def takes_any_length(op: type[Op], sample: Sample) -> bool:
    return op.family in FREE_FAMILIES or (set(sample.attrs) <= FREE_ATTRIBUTES and op.name not in TIED)


def cut(array: Any, axis: int, length: int, shift: int) -> Any:
    """`length` elements along an axis, over and over where it is too short."""
    places = (np.arange(length) + shift) % max(array.shape[axis], 1)
    return array.take(places, axis) if array.shape[axis] or not length else None


def ragged_samples(op: type[Op], sample: Sample) -> Iterator[tuple[int, list[Any], list[list[Any]]]]:
    """(number of rows, inputs, inputs of each row): ragged along each dimension of the first array in turn."""
    arrays = [a for a in sample.inputs if isinstance(a, np.ndarray)]
    if not arrays:
        return
    for from_end in range(1, arrays[0].ndim + 1):
        size = arrays[0].shape[-from_end]
        for lengths in ([size, 0, size + 2, 1], [size, size], [0]) if takes_any_length(op, sample) else ([size, size],):
            inputs: list[Any] = []
            rows: list[list[Any]] = [[] for _ in lengths]
            for a in sample.inputs:
                if not isinstance(a, np.ndarray):
                    inputs.append(a)
                    parts: list[Any] = [a] * len(lengths)
                elif not meets(op, a, arrays[0], from_end):
                    inputs.append(ex.tensor(np.stack([a] * len(lengths))))
                    parts = [ex.tensor(a) for _ in lengths]
                else:
                    axis = arrays[0].ndim - from_end
                    pieces = [cut(a, axis, n, shift) for shift, n in enumerate(lengths)]
                    if any(piece is None for piece in pieces):
                        break
                    values = ex.tensor(np.concatenate(pieces, axis))
                    inputs.append(RaggedTensor(values, Rows.of_lengths(lengths), axis + 1))
                    parts = [ex.tensor(piece) for piece in pieces]
                for row, part in zip(rows, parts, strict=True):
                    row.append(part)
            else:
                if any(isinstance(x, RaggedTensor) for x in inputs):
                    yield len(lengths), inputs, rows


def meets(op: type[Op], array: Any, first: Any, from_end: int) -> bool:
    """Whether an array is as long as the first one in the dimension that becomes ragged, where the op pairs them."""
    axis = first.ndim - from_end
    if op.family == "elementwise":  # which pairs dimensions from the end
        return array.ndim == first.ndim and array.shape[axis] == first.shape[axis]
    return array.ndim > axis and array.shape[axis] == first.shape[axis]


def batched(op: type[Op], n: int, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    """The op on all rows at once."""
    if isinstance(op.batch, Refuse):
        return apply(op, tuple(inputs), attrs)
    if op.batch == "align":
        most = max(x.ndim for x in inputs if isinstance(x, ex.Tensor | RaggedTensor))
        aligned = [
            x.reshape(n, *(1,) * (most - x.ndim), *x.shape[1:]) if isinstance(x, ex.Tensor) else x for x in inputs
        ]
        return apply(op, tuple(aligned), attrs)
    if op.batch == "shift_dim":
        return apply(op, tuple(inputs), {**attrs, "dim": attrs["dim"] + 1})
    if op.batch == "shift_dims":
        return apply(op, tuple(inputs), {**attrs, "dim": tuple(d + 1 for d in attrs["dim"])})
    return op.batch(n, *inputs, **attrs)


def results(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def wants_gradient(x: Any) -> bool:
    return isinstance(x, ex.Tensor | RaggedTensor) and x.is_floating_point()


def check(op: type[Op], n: int, inputs: list[Any], rows: list[list[Any]], attrs: dict[str, Any]) -> bool:
    """Whether the op runs on these; then it must be the loop over rows, values and gradients."""
    for x in [*inputs, *(part for row in rows for part in row)]:
        if wants_gradient(x):
            x.requires_grad_()
    try:
        looped = [results(apply(op, tuple(row), attrs)) for row in rows]
    except Exception as error:  # a row of that length is none for this op; then no answer is right
        with pytest.raises(ExtempoError if isinstance(error, ExtempoError) else Exception):
            batched(op, n, inputs, attrs)
        return False
    try:
        found = results(batched(op, n, inputs, attrs))
    except (ex.errors.UnsupportedError, ex.errors.ShapeError, ex.errors.DtypeError):
        return False
    tracked = []
    for k, y in enumerate(found):
        assert len(y) == n
        for i in range(n):
            ours, theirs = y[i], looped[i][k]
            assert ours.shape == theirs.shape
            assert ours.dtype is theirs.dtype
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-7, atol=1e-9)
            assert ours.requires_grad == theirs.requires_grad or not ours.numel()
            if ours.requires_grad and theirs.requires_grad:
                weights = ex.cos(ex.arange(ours.numel(), dtype=ours.dtype)).reshape(ours.shape)
                tracked.append(((ours * weights).sum(), (theirs * weights).sum()))
    if tracked and not isinstance(op.vjp, Refuse):
        try:
            sum(theirs for _, theirs in tracked).backward()
        except ExtempoError:  # such as a gradient that the op refuses
            return True
        sum(ours for ours, _ in tracked).backward()
        compare_gradients(inputs, rows)
    return True


def compare_gradients(inputs: list[Any], rows: list[list[Any]]) -> None:
    for position, x in enumerate(inputs):
        if not wants_gradient(x):
            continue
        for i, row in enumerate(rows):
            expected = row[position].grad
            found = None if x.grad is None else x.grad[i]
            if expected is None or found is None:
                assert all(g is None or not g.numpy().any() for g in (expected, found))
            else:
                np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("op", OPS)
def test_an_op_of_ragged_tensors_is_that_of_each_row_or_is_refused(op):
    ran = False
    for sample in op.samples(np.random.default_rng(0)):
        if isinstance(op.batch, Refuse) and sample.attrs and op.family != "linalg":
            continue  # nobody says what its attributes are for many
        for n, inputs, rows in ragged_samples(op, sample):
            ran |= check(op, n, inputs, rows, sample.attrs)
    has_rule = op.name in BY_BATCHING or not isinstance(op.ragged, Refuse)
    assert ran == (has_rule and op.name not in OTHERWISE)


@pytest.mark.parametrize("name", RANDOM)
def test_what_is_drawn_for_ragged_tensors_is_what_is_drawn_for_their_values(name):
    op = REGISTRY[name]
    for sample in () if isinstance(op.samples, Refuse) else op.samples(np.random.default_rng(0)):
        given = [a for a in sample.inputs if isinstance(a, np.ndarray)]
        if not given or not all(a.shape == given[0].shape and a.ndim and a.shape[0] for a in given):
            continue
        rows = Rows.of_lengths([1, 0, given[0].shape[0] - 1])
        ragged = [RaggedTensor(ex.tensor(a), rows) if isinstance(a, np.ndarray) else a for a in sample.inputs]
        regular = [ex.tensor(a) if isinstance(a, np.ndarray) else a for a in sample.inputs]
        try:
            found = apply(op, tuple(ragged), sample.attrs)
        except ex.errors.UnsupportedError:
            assert name == "multinomial"
            continue
        np.testing.assert_array_equal(found.values().numpy(), apply(op, tuple(regular), sample.attrs).numpy())
