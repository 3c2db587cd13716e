"""What all metrics have in common: they are fed batch by batch, can be merged, and tell a number at any time.

Every function and method takes the truth first, then what was predicted. Both may be tensors, ragged tensors, arrays or
lists. `mask` says which elements count (True) where sequences are padded; ragged tensors need none.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..core.wording import counted
from ..errors import DtypeError, IndexRangeError, ShapeError
from ..ragged_tensors.tensor import RaggedTensor


class Metric:
    """A figure over all that it was fed. `update` adds a batch, `compute` tells the figure, `merge` adds another's.

    One of your own defines `reset`, `update` and `compute`, and names in `_state` the attributes that `merge` adds:

    >>> class CloseEnough(ex.metrics.Metric):
    ...     higher_is_better = True
    ...     _state = ("n_close", "n")
    ...
    ...     def reset(self):
    ...         self.n_close, self.n = 0, 0
    ...
    ...     def update(self, y_true, y_pred, mask=None):
    ...         self.n_close += int(((y_true - y_pred).abs() < 0.1).sum())
    ...         self.n += len(y_true)
    ...         return self
    ...
    ...     def compute(self):
    ...         return self.n_close / self.n
    >>> CloseEnough().update(ex.tensor([1.0, 2.0]), ex.tensor([1.5, 2.0])).compute()
    0.5
    """

    higher_is_better: bool | None = None  # whether a model with a greater figure is the better one; None: who knows
    _state: tuple[str, ...] = ()  # the names of the attributes that hold what was seen; they add up

    def __init__(self) -> None:
        self._settings = dict(self.__dict__)  # what a kind of metric sets before it has seen anything
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
        for name, value in self._settings.items():
            if other._settings.get(name) != value:
                raise DtypeError(
                    f"merge: one {self.name} has {name}={value!r}, the other {name}={other._settings.get(name)!r}"
                )
        for name in self._state:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def state_dict(self) -> dict[str, Any]:
        """What was seen, for a checkpoint."""
        return {name: _stored(value) for name, value in self.__dict__.items() if name != "_settings"}

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


class Mean(Metric):
    """The mean of something of each sample: updates add to `total` and `n`."""

    _state = ("total", "n")

    def reset(self) -> None:
        self.total, self.n = 0.0, 0

    def compute(self) -> float:
        return self.total / self.n if self.n else float("nan")


def pair(metric: str, y_true: Any, y_pred: Any, mask: Any = None) -> tuple[Array, Array]:
    """Truth and predictions as arrays in which everything counts: ragged ones as their values, masked ones without
    what the mask leaves out. Predictions may have one dimension more than the truth, of scores."""
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
    if found.shape[: truth.ndim] != truth.shape or found.ndim > truth.ndim + 1:
        raise ShapeError(
            f"{metric}: predictions of shape {found.shape} do not fit a truth of shape {truth.shape}; they have the "
            "same shape, or one dimension more, of scores for each class, at the end"
        )
    if found.ndim > truth.ndim and found.shape[-1] == 1:
        raise ShapeError(
            f"{metric}: predictions of shape {found.shape} and a truth of shape {truth.shape} would broadcast, or be "
            "scores of a single class, which is hardly meant: squeeze(-1) the predictions"
        )
    return truth, found


def require_classes(metric: str, truth: Array, n_classes: int | None = None) -> Array:
    """A truth as numbers of classes, 0 and up; `n_classes`: of which there are so many."""
    if truth.dtype.kind == "f":
        broken = truth[~(np.isfinite(truth) & (truth == np.floor(truth)))]
        if broken.size:
            raise DtypeError(f"{metric}: the truth must be numbers of classes, got floats such as {broken[0]}")
    classes = truth.astype(np.int64)
    if classes.size and classes.min() < 0:
        raise IndexRangeError(
            f"{metric}: class {classes.min()} in the truth; classes count from 0 (leave ignored ones out by a mask)"
        )
    if n_classes is not None and classes.size and classes.max() >= n_classes:
        raise IndexRangeError(
            f"{metric}: class {classes.max()} in the truth, and predictions for "
            f"{counted(n_classes, 'class', 'classes')}, 0 to "
            f"{n_classes - 1}"
        )
    return classes


def require_labels(metric: str, truth: Array) -> Array:
    """A truth of 0 and 1, as bools."""
    if truth.dtype.kind != "b" and not np.isin(truth, (0, 1)).all():
        other = truth[~np.isin(truth, (0, 1))][0]
        raise DtypeError(f"{metric}: a truth of labels must be 0 and 1, got {other}")
    return truth.astype(bool)


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
        if array.dtype.kind not in "cSU":
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    got = type(given).__name__ if array.ndim == 0 else array.dtype
    raise DtypeError(f"{metric}: expected numbers, got {got}; number the classes first")


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
