"""A tensor's values in one line: shape, range, mean, spread, nan, infinities, zeros, and a tiny histogram."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .storage import Array

_BARS = "▁▂▃▄▅▆▇█"
_EMPTY = "·"  # in a histogram: a range in which there is nothing
_N_BINS = 8


class Look(NamedTuple):
    """What `ex.inspect.look` saw. Printed it is one line; range, mean and spread are those of the finite values.

    >>> seen = ex.inspect.look(ex.tensor([0.0, 1.0, 2.0, float("nan")]))
    >>> seen.shape, seen.n_nan, seen.mean
    ((4,), 1, 1.0)
    """

    dtype: str
    shape: tuple[int, ...]
    low: float
    high: float
    mean: float
    std: float
    n_nan: int
    n_inf: int
    n_zero: int
    histogram: str  # of the finite values, from the lowest to the highest

    def __str__(self) -> str:
        told = [f"{self.dtype} ({', '.join(map(str, self.shape))}{',' * (len(self.shape) == 1)})"]
        n = int(np.prod(self.shape))
        if self.histogram:
            one = self.low == self.high
            told.append(f"all {self.low:.4g}" if one else f"{self.low:.4g} .. {self.high:.4g}")
            if not one:
                told.append(f"mean {self.mean:.4g}, std {self.std:.4g}")
        elif not n:
            told.append("empty")
        for count, what in ((self.n_nan, "nan"), (self.n_inf, "inf"), (self.n_zero, "zeros")):
            if count:
                told.append(f"{count:,} {what}{f' ({count / n:.0%})' if count < n else ''}")
        line = ", ".join(told)
        return f"{line}  {self.histogram}" if self.low != self.high and self.histogram else line

    def __repr__(self) -> str:
        return str(self)


def summarised(array: Array, dtype_name: str) -> Look:
    """The summary of an array; `dtype_name`: such as "float32"."""
    flat = np.asarray(array).reshape(-1)
    wide: Any = flat.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    n_nan = int(np.isnan(wide).sum())
    low = high = mean = std = float("nan")
    bars = ""
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        with np.errstate(all="ignore"):
            mean, std = float(finite.mean()), float(finite.std())
        bars = _histogram(finite, low, high)
    n_inf = flat.size - finite.size - n_nan
    return Look(dtype_name, array.shape, low, high, mean, std, n_nan, n_inf, int((wide == 0).sum()), bars)


def _histogram(values: Any, low: float, high: float) -> str:
    if not np.isfinite(high - low) or low == high:
        scaled = np.clip(values / 2 - low / 2, 0, None) / (high / 2 - low / 2 or 1.0)
    else:
        scaled = (values - low) / (high - low)
    counts = np.bincount(np.minimum((scaled * _N_BINS).astype(np.int64), _N_BINS - 1), minlength=_N_BINS)
    top = counts.max()
    return "".join(_BARS[-(-int(c) * len(_BARS) // int(top)) - 1] if c else _EMPTY for c in counts)
