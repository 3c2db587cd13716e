"""What all metrics have in common: they are fed batch by batch, can be merged, and tell a number at any time.

Every function and method takes the truth first, then what was predicted. Both may be tensors, ragged tensors, arrays or
lists. `mask` says which elements count (True) where sequences are padded; ragged tensors need none.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from .._tensor import Tensor, from_array
from ..errors import DtypeError, ShapeError
from ..ragged_tensors.tensor import RaggedTensor
from ..storage import Array


class Metric:
    """A figure over all that it was fed. `update` adds a batch, `compute` tells the figure, `merge` adds another's."""

    _state: tuple[str, ...] = ()  # the names of the attributes that hold what was seen; they add up

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything that was seen."""
        raise NotImplementedError

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        """Take a batch into account."""
        raise NotImplementedError

    def compute(self) -> Any:
        """The figure over all batches so far; nan if there were none."""
        raise NotImplementedError

    def merge(self, other: Self) -> Self:
        """Take into account what another metric of the same kind has seen, in another process for example."""
        if type(other) is not type(self):
            raise DtypeError(f"merge: expected another {type(self).__name__}, got {type(other).__name__}")
        for name in self._state:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def state_dict(self) -> dict[str, Any]:
        """What was seen, for a checkpoint."""
        return {name: _stored(value) for name, value in self.__dict__.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what was seen from a checkpoint."""
        for name, value in state.items():
            self.__dict__[name] = _taken(self.__dict__.get(name), value)

    def __call__(self, y_true: Any, y_pred: Any, mask: Any = None) -> Any:
        """The figure of one batch by itself, which is also taken into account."""
        alone = copy.deepcopy(self)
        alone.reset()
        alone.update(y_true, y_pred, mask)
        self.merge(alone)
        return alone.compute()

    @property
    def name(self) -> str:
        """How it is called in tables."""
        letters = type(self).__name__
        return "".join(
            f"_{c.lower()}" if c.isupper() and i and not letters[i - 1].isupper() else c.lower()
            for i, c in enumerate(letters)
        )

    def __repr__(self) -> str:
        value = self.compute()
        return f"{type(self).__name__}({value:.4f})" if isinstance(value, float) else f"{type(self).__name__}({value})"


def pair(metric: str, y_true: Any, y_pred: Any, mask: Any = None) -> tuple[Array, Array]:
    """Truth and predictions as arrays in which everything counts: ragged ones as their values, masked ones without
    what the mask leaves out. Predictions may have one dimension more than the truth."""
    if isinstance(y_true, RaggedTensor) != isinstance(y_pred, RaggedTensor):
        raise DtypeError(f"{metric}: truth and predictions must both be ragged, or neither")
    if isinstance(y_true, RaggedTensor):
        if not y_true._rows.same(y_pred._rows):
            raise ShapeError(
                f"{metric}: the rows of truth and predictions have different lengths, "
                f"{y_true.lengths().tolist()[:8]} and {y_pred.lengths().tolist()[:8]}"
            )
        if mask is not None and not isinstance(mask, RaggedTensor):
            raise DtypeError(f"{metric}: the mask of ragged tensors must be ragged, too")
        y_true, y_pred = y_true.values(), y_pred.values()
        mask = None if mask is None else mask.values()
    truth, found = as_array(metric, y_true), as_array(metric, y_pred)
    if mask is not None:
        kept = as_array(metric, mask).astype(bool)
        if kept.shape != truth.shape[: kept.ndim]:
            raise ShapeError(f"{metric}: the mask has shape {kept.shape}, the truth {truth.shape}")
        truth, found = truth[kept], found[kept]
    if found.shape[: truth.ndim] != truth.shape:
        raise ShapeError(
            f"{metric}: predictions of shape {found.shape} do not fit a truth of shape {truth.shape}; they have the "
            "same shape, or one dimension more, of scores for each class, at the end"
        )
    return truth, found


def as_array(metric: str, given: Any) -> Array:
    """An array, of float64, int64 or bool."""
    if isinstance(given, Tensor):
        given = given.detach().numpy()
    try:
        array = np.asarray(given)
    except ValueError:
        raise ShapeError(f"{metric}: lists of different lengths; use ex.ragged(...) for both") from None
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "b":
        return array
    if array.size == 0 and not isinstance(given, np.ndarray):
        return array.astype(np.int64)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise DtypeError(f"{metric}: expected numbers, got {array.dtype}; number the classes first") from None


def ratio(part: Any, whole: Any, otherwise: float = 0.0) -> Array:
    """part / whole, `otherwise` where the whole is 0."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full(np.broadcast(part, whole).shape, otherwise), where=whole != 0)


def _stored(value: Any) -> Any:
    """Arrays as tensors, metrics as what they keep."""
    if isinstance(value, Metric):
        return value.state_dict()
    if isinstance(value, np.ndarray):
        return from_array(value.copy())
    return [_stored(part) for part in value] if isinstance(value, list) else value


def _taken(now: Any, value: Any) -> Any:
    if isinstance(now, Metric):
        now.load_state_dict(value)
        return now
    if isinstance(value, Tensor):
        return value.numpy().copy()
    return [_taken(None, part) for part in value] if isinstance(value, list) else value
