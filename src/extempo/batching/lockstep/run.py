"""A call of `ex.batch` in lockstep: which samples a program holds for, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...core.types import TensorType
from ...ragged_tensors.tensor import RaggedTensor
from .lanes import Lanes
from .results import taken_apart
from .trace import SampleProgram
from .values import EACH, form_of, open_dims, together

Columns = Sequence[Sequence[Tensor]]  # of each input, those of all samples


def run_program(program: SampleProgram, columns: Columns, lanes: Lanes) -> list[Any]:
    """What the function returns for each sample."""
    order = _longest_first(lanes) if program.has_loops else None
    if order is not None:
        lanes = lanes.some(order)
        columns = [[column[i] for i in order.tolist()] for column in columns]
    given = zip(columns, program.types, program.tracked, strict=True)
    inputs = [_input(column, t, is_tracked, lanes) for column, t, is_tracked in given]
    outputs = program.steps.run(lanes, [*inputs, *program.weights])
    steps = program.steps
    forms = zip(outputs, steps.output_forms, steps.output_types, strict=True)
    parts = [taken_apart(x, form, t, lanes) for x, form, t in forms]
    if program.returns_tensor:
        (results,) = parts
    else:
        results = [program.rebuild(list(values)) for values in zip(*parts, strict=True)]
    if order is None:
        return results
    ordered: list[Any] = [None] * lanes.n
    for place, result in zip(order.tolist(), results, strict=True):
        ordered[place] = result
    return ordered


def _longest_first(lanes: Lanes) -> Array | None:
    """An order in which loops find the samples that go on first; None if it is the present one."""
    for lengths in lanes.sizes.values():
        return np.argsort(-lengths, kind="stable") if (np.diff(lengths) > 0).any() else None
    return None


def _input(column: Sequence[Tensor], t: TensorType, is_tracked: bool, lanes: Lanes) -> Any:
    """An argument of all samples as one value."""
    dims = open_dims(t)
    if form_of(t) == EACH:
        return list(column)
    if len(dims) == 2:
        return together(column, t, lanes)
    arrays = [x._data for x in column]
    if not dims:
        return ops.stack(list(column)) if is_tracked else from_array(_stacked(arrays))
    (dim,) = dims
    flat = ops.cat(list(column), dim) if is_tracked else from_array(np.concatenate(arrays, dim))
    return RaggedTensor(flat, lanes.rows(t.shape[dim]), dim + 1)


def _stacked(arrays: list[Array]) -> Array:
    """The same as np.stack, which takes its time."""
    first = arrays[0]
    if not first.ndim:
        return np.array(arrays, first.dtype)
    out = np.empty((len(arrays), *first.shape), first.dtype)
    for i, array in enumerate(arrays):
        out[i] = array
    return out
