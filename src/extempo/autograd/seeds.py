"""What `backward` and `grad` are given, as nodes with the gradients that come in there; and results as they were asked.

Of ragged tensors, what is differentiated is the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.graph import Node
from ..core.tensor import LazySource, Tensor, TensorLike, wrap
from ..core.wording import counted
from ..errors import DtypeError, NoGradientPathError, ShapeError
from .messages import no_path_message


def as_list(value: Any, what: str) -> list[Tensor]:
    """One tensor or several; `what` they are called where they were given."""
    values: list[Any] = [value] if isinstance(value, Tensor | TensorLike) else list(value)
    for i, v in enumerate(values):
        if isinstance(v, TensorLike):
            values[i] = v._flat
        elif not isinstance(v, Tensor):
            raise DtypeError(f"{what}: expected tensors, got {type(v).__name__}")
    return values


def values_of(given: Any, outputs: Any = None) -> Any:
    """Tensors as they are, of ragged ones the values; one, or several of them. `outputs`: whose gradients they are."""
    if isinstance(given, list | tuple):
        paired = isinstance(outputs, list | tuple) and len(outputs) == len(given)
        return [values_of(x, y) for x, y in zip(given, outputs if paired else [None] * len(given), strict=True)]
    if not isinstance(given, TensorLike):
        return given
    if isinstance(outputs, TensorLike) and outputs.shape != given.shape:
        raise ShapeError(
            f"the gradient of a ragged tensor has the same rows: got {given._described()} for {outputs._described()}"
        )
    return given._flat


def like_inputs(inputs: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients of inputs, each of the kind of its input."""
    asked = inputs if isinstance(inputs, list) else [inputs]
    pairs = zip(asked, gradients, strict=True)
    return tuple([x._maker()(g) if isinstance(x, TensorLike) and g is not None else g for x, g in pairs])


def roots_of(outputs: list[Tensor], gradients: Any, name: str, create_graph: bool) -> list[tuple[Node, Tensor]]:
    """Where backward starts: each output's node with the gradient that comes in there."""
    if gradients is None or isinstance(gradients, Tensor):
        gradients = [gradients] * len(outputs)
    if not isinstance(gradients, list | tuple):
        raise DtypeError(f"{name}: the gradient must be a tensor, got {type(gradients).__name__}; use ex.tensor(...)")
    gradients = list(gradients)
    if len(gradients) != len(outputs):
        raise ShapeError(
            f"{name}: {counted(len(outputs), 'tensor')} but {counted(len(gradients), 'gradient')}; give one "
            "gradient (or None) for each"
        )
    roots = []
    for y, g in zip(outputs, gradients, strict=True):
        seed = incoming(y, g, name)
        # One that was made here is nobody's; one that was given may be tracked.
        roots.append((y._own_node(), seed if create_graph or g is None else seed.detach()))
    return roots


def incoming(y: Tensor, g: Tensor | None, name: str) -> Tensor:
    """The gradient that comes in at `y`: the given one, or 1 for a tensor with one element."""
    if not y.requires_grad:
        raise NoGradientPathError(no_path_message(y, name))
    if g is None:
        if y._type.numel() != 1:
            raise ShapeError(
                f"{name}: the tensor has shape {tuple(y.shape)}, so its gradient is not unique; reduce it first "
                "(loss.sum() or loss.mean()), or pass gradient= of that shape"
            )
        if y._data is None and not isinstance(y._source, LazySource):
            return y.new_ones(y.shape)
        ones = np.array(1, y._type.dtype.numpy)  # a third of the time of np.ones
        return wrap(ones.reshape(y._type.shape) if y._type.shape else ones, y._type)
    if g._type.shape != y._type.shape:
        raise ShapeError(
            f"{name}: the gradient has shape {tuple(g.shape)}, the tensor {tuple(y.shape)}; they must be equal"
        )
    return g if g._type.dtype is y._type.dtype else g.to(y._type.dtype)
