"""How far predicted numbers are from true ones."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..core.storage import Array
from ..errors import ShapeError
from .base import Metric, pair, ratio

__all__ = ["MAE", "MSE", "R2", "RMSE"]


class _Errors(Metric):
    """Sums over errors."""

    _state = ("total", "n")

    def reset(self) -> None:
        self.total, self.n = 0.0, 0

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, found = numbers(self.name, y_true, y_pred, mask)
        self.total += float(self._of(truth - found).sum())
        self.n += truth.size
        return self

    @staticmethod
    def _of(error: Array) -> Array:
        raise NotImplementedError

    def compute(self) -> float:
        return self.total / self.n if self.n else float("nan")


def numbers(metric: str, y_true: Any, y_pred: Any, mask: Any) -> tuple[Array, Array]:
    truth, found = pair(metric, y_true, y_pred, mask)
    if truth.shape != found.shape:
        raise ShapeError(
            f"{metric}: the truth has shape {truth.shape}, the predictions {found.shape}; they would broadcast, which "
            "is hardly meant: squeeze one of them"
        )
    return truth.astype(np.float64), found.astype(np.float64)


class MAE(_Errors):
    """The mean absolute error.

    >>> ex.metrics.MAE().update([1.0, 2.0], [1.5, 2.0]).compute()
    0.25
    """

    @staticmethod
    def _of(error: Array) -> Array:
        return np.abs(error)


class MSE(_Errors):
    """The mean squared error.

    >>> ex.metrics.MSE().update([1.0, 2.0], [1.5, 2.0]).compute()
    0.125
    """

    @staticmethod
    def _of(error: Array) -> Array:
        return error**2


class _OfColumns(Metric):
    """A figure of each column of (samples, outputs), whose mean is told; sequences of numbers are one column where a
    mask or ragged tensors say which count."""

    n_columns: int

    def _as_columns(self, y_true: Any, y_pred: Any, mask: Any) -> tuple[Array, Array]:
        truth, found = numbers(self.name, y_true, y_pred, mask)
        n_columns = truth.shape[-1] if truth.ndim > 1 else 1
        if truth.size:
            self._require_columns(n_columns)
        return truth.reshape(-1, n_columns), found.reshape(-1, n_columns)

    def _require_columns(self, n_columns: int) -> None:
        if self.n_columns not in (0, n_columns):
            raise ShapeError(
                f"{self.name}: {n_columns} outputs for each sample, before there were {self.n_columns}; for sequences "
                "of different length pass a mask, or ragged tensors"
            )


class RMSE(_OfColumns):
    """The root of the mean squared error, in the unit of the truth; of several outputs the mean of their roots.

    >>> ex.metrics.RMSE().update([1.0, 2.0], [4.0, 6.0]).compute()
    3.5355339059327378
    """

    def reset(self) -> None:
        self.n, self.n_columns = 0, 0
        self.total: Array = np.zeros(1)

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, found = self._as_columns(y_true, y_pred, mask)
        if truth.size:
            self._join(len(truth), ((truth - found) ** 2).sum(0))
        return self

    def merge(self, other: Self) -> Self:
        super().merge(other)
        if other.n:
            self._require_columns(other.n_columns)
            self._join(other.n, other.total)
        return self

    def _join(self, n: int, total: Array) -> None:
        self.n, self.n_columns, self.total = self.n + n, len(total), self.total + total

    def compute(self) -> float:
        return float(np.sqrt(self.total / self.n).mean()) if self.n else float("nan")


class R2(_OfColumns):
    """The share of the truth's variance that is explained: 1 is perfect, 0 is the mean as a guess, less is worse.

    Of several outputs the mean of their shares.

    >>> ex.metrics.R2().update([1.0, 2.0, 3.0], [1.0, 2.0, 2.0]).compute()
    0.5
    """

    def reset(self) -> None:
        self.n, self.n_columns = 0, 0
        self.mean, self.spread, self.missed = np.zeros(1), np.zeros(1), np.zeros(1)

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, found = self._as_columns(y_true, y_pred, mask)
        if truth.size:
            mean = truth.mean(0)
            self._join(len(truth), mean, ((truth - mean) ** 2).sum(0), ((truth - found) ** 2).sum(0))
        return self

    def merge(self, other: Self) -> Self:
        super().merge(other)
        if other.n:
            self._require_columns(other.n_columns)
            self._join(other.n, other.mean, other.spread, other.missed)
        return self

    def _join(self, n: int, mean: Array, spread: Array, missed: Array) -> None:
        """Means and spreads of two lots as those of both, without the loss of digits of sums of squares."""
        both, apart = self.n + n, mean - self.mean
        self.spread = self.spread + spread + apart**2 * self.n * n / both
        self.mean = self.mean + apart * n / both
        self.missed = self.missed + missed
        self.n, self.n_columns = both, len(mean)

    def compute(self) -> float:
        if self.n < 2:
            return float("nan")
        unexplained = ratio(self.missed, self.spread, 1.0)
        return float(np.where((self.spread == 0) & (self.missed == 0), 1.0, 1 - unexplained).mean())
