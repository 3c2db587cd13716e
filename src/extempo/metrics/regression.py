"""How far predicted numbers are from true ones."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..core.storage import Array
from ..errors import ShapeError
from .base import Mean, Metric, pair, ratio

__all__ = ["MAE", "MSE", "R2", "RMSE"]


class _Errors(Mean):
    """The mean over errors."""

    higher_is_better = False

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, found = numbers(self.name, y_true, y_pred, mask)
        self.total += float(self._of(truth - found).sum())
        self.n += truth.size
        return self

    @staticmethod
    def _of(error: Array) -> Array:
        raise NotImplementedError


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

    _kept: tuple[str, ...] = ()  # the attributes that `_sums` are joined to
    n: int
    n_columns: int

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, found = numbers(self.name, y_true, y_pred, mask)
        n_columns = truth.shape[-1] if truth.ndim > 1 else 1
        if truth.size:
            self._require_columns(n_columns)
            truth, found = truth.reshape(-1, n_columns), found.reshape(-1, n_columns)
            self._join(len(truth), *self._sums(truth, found))
        return self

    def merge(self, other: Self) -> Self:
        super().merge(other)
        if other.n:
            self._require_columns(other.n_columns)
            self._join(other.n, *[getattr(other, name) for name in self._kept])
        return self

    def _sums(self, truth: Array, found: Array) -> tuple[Array, ...]:
        """What is kept of some samples, for each column."""
        raise NotImplementedError

    def _join(self, n: int, *sums: Array) -> None:
        """Take what was kept of n samples into account."""
        raise NotImplementedError

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

    higher_is_better = False

    _kept = ("total",)

    def reset(self) -> None:
        self.n, self.n_columns = 0, 0
        self.total: Array = np.zeros(1)

    def _sums(self, truth: Array, found: Array) -> tuple[Array, ...]:
        return (((truth - found) ** 2).sum(0),)

    def _join(self, n: int, *sums: Array) -> None:
        (total,) = sums
        self.n, self.n_columns, self.total = self.n + n, len(total), self.total + total

    def compute(self) -> float:
        return float(np.sqrt(self.total / self.n).mean()) if self.n else float("nan")


class R2(_OfColumns):
    """The share of the truth's variance that is explained: 1 is perfect, 0 is the mean as a guess, less is worse.

    Of several outputs the mean of their shares.

    >>> ex.metrics.R2().update([1.0, 2.0, 3.0], [1.0, 2.0, 2.0]).compute()
    0.5
    """

    higher_is_better = True

    _kept = ("mean", "spread", "missed")

    def reset(self) -> None:
        self.n, self.n_columns = 0, 0
        self.mean, self.spread, self.missed = np.zeros(1), np.zeros(1), np.zeros(1)

    def _sums(self, truth: Array, found: Array) -> tuple[Array, ...]:
        mean = truth.mean(0)
        return mean, ((truth - mean) ** 2).sum(0), ((truth - found) ** 2).sum(0)

    def _join(self, n: int, *sums: Array) -> None:
        """Means and spreads of two lots as those of both, without the loss of digits of sums of squares."""
        mean, spread, missed = sums
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
