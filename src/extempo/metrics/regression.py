"""How far predicted numbers are from true ones."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..errors import ShapeError
from ..storage import Array
from .base import Metric, pair

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


class RMSE(MSE):
    """The root of the mean squared error, in the unit of the truth.

    >>> ex.metrics.RMSE().update([1.0, 2.0], [4.0, 6.0]).compute()
    3.5355339059327378
    """

    def compute(self) -> float:
        return float(np.sqrt(super().compute()))


class R2(Metric):
    """The share of the truth's variance that is explained: 1 is perfect, 0 is the mean as a guess, less is worse.

    >>> ex.metrics.R2().update([1.0, 2.0, 3.0], [1.0, 2.0, 2.0]).compute()
    0.5
    """

    _state = ()

    def reset(self) -> None:
        self.n, self.mean, self.spread, self.missed = 0, 0.0, 0.0, 0.0

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, found = numbers(self.name, y_true, y_pred, mask)
        if truth.size:
            mean = float(truth.mean())
            self._join(truth.size, mean, float(((truth - mean) ** 2).sum()), float(((truth - found) ** 2).sum()))
        return self

    def merge(self, other: Self) -> Self:
        super().merge(other)
        if other.n:
            self._join(other.n, other.mean, other.spread, other.missed)
        return self

    def _join(self, n: int, mean: float, spread: float, missed: float) -> None:
        """Means and spreads of two lots as those of both, without the loss of digits of sums of squares."""
        both, apart = self.n + n, mean - self.mean
        self.spread += spread + apart**2 * self.n * n / both
        self.mean += apart * n / both
        self.n, self.missed = both, self.missed + missed

    def compute(self) -> float:
        if self.n < 2:
            return float("nan")
        if not self.spread:
            return 1.0 if not self.missed else 0.0
        return 1 - self.missed / self.spread
