"""`ex.signal.windows`: weights of M samples that fade in and out, by the names of torch.signal.windows.

With `sym` the window is symmetric (for filters); without it, one period of a periodic window (for spectra). Values are
computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..backends.numpy.bessel import i0
from ..core import types
from ..core.absent_names import explain_absent
from ..core.device import require_cpu
from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..errors import DtypeError, ShapeError

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _window(
    name: str,
    M: int,
    sym: bool,
    shape: Callable[[Array, int], Any],
    dtype: types.dtype | None,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """`shape(n, period)` at n = 0 .. M - 1; the period is M - 1 for a symmetric window, M for a periodic one."""
    require_cpu(device, "window")
    if M < 0:
        raise ShapeError(f"signal.windows.{name}: M is a number of samples and must not be negative, got {M}")
    if layout is not None and "strided" not in str(layout):
        raise DtypeError(f"signal.windows.{name}: only strided tensors exist, got layout {layout}; leave layout out")
    d = types.get_default_dtype() if dtype is None else types.as_dtype(dtype)
    if d not in (types.float32, types.float64):
        raise DtypeError(f"signal.windows.{name}: expected float32 or float64, got {d}")
    # One sample is in the middle of its window, whatever the shape: the first of a symmetric one of period 0.
    period = M - 1 if sym or M == 1 else M
    values = np.asarray(shape(np.arange(M, dtype=np.float64), period) if M else [], np.float64)
    window = from_array(values.astype(d.numpy))
    return window.requires_grad_() if requires_grad else window


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: types.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines with alternating signs: a[0] - a[1] cos(t) + a[2] cos(2 t) - ..., t from 0 to 2 pi.

    >>> ex.signal.windows.general_cosine(5, a=[0.5, 0.4, 0.1])
    tensor([0.2000, 0.4000, 1.0000, 0.4000, 0.2000])
    """
    if not isinstance(a, Iterable) or not (coefficients := list(a)):
        raise ShapeError(f"signal.windows.general_cosine: a must hold at least one coefficient, got {a!r}")

    def shape(n: Array, period: int) -> Any:
        if n.size == 1:
            return np.ones(1)
        angle = n * (2.0 * math.pi / period)
        return sum((-1.0) ** i * w * np.cos(i * angle) for i, w in enumerate(coefficients))

    return _window("general_cosine", M, sym, shape, dtype, layout, device, requires_grad)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: types.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(t), t from 0 to 2 pi.

    >>> ex.signal.windows.general_hamming(5, alpha=0.6)
    tensor([0.2000, 0.6000, 1.0000, 0.6000, 0.2000])
    """
    a = [alpha, 1.0 - alpha]
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def _cosine_window(name: str, a: list[float], text: str) -> Callable[..., Tensor]:
    """`general_cosine` with fixed coefficients."""

    def window(
        M: int,
        *,
        sym: bool = True,
        dtype: types.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = text
    return window


hamming = _cosine_window(
    "hamming",
    [0.54, 0.46],
    """0.54 - 0.46 cos(t), t from 0 to 2 pi.

    >>> ex.signal.windows.hamming(5)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """,
)
hann = _cosine_window(
    "hann",
    [0.5, 0.5],
    """(1 - cos(t)) / 2, t from 0 to 2 pi: it begins and ends at 0.

    >>> ex.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """,
)
blackman = _cosine_window(
    "blackman",
    [0.42, 0.5, 0.08],
    """Three cosine terms: lower side lobes than `hann`, a wider main lobe.

    >>> ex.signal.windows.blackman(5)[1:4]
    tensor([0.3400, 1.0000, 0.3400])
    """,
)
nuttall = _cosine_window(
    "nuttall",
    [0.3635819, 0.4891775, 0.1365995, 0.0106411],
    """Four cosine terms: side lobes below -98 dB.

    >>> ex.signal.windows.nuttall(5)[1:4]
    tensor([0.2270, 1.0000, 0.2270])
    """,
)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: types.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle that begins and ends at 0.

    >>> ex.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """

    def shape(n: Array, period: int) -> Any:
        return 1.0 - np.abs(n * (2.0 / period) - 1.0) if period else np.ones(n.size)

    return _window("bartlett", M, sym, shape, dtype, layout, device, requires_grad)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: types.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a period of a sine, from just above 0 to just above 0.

    >>> ex.signal.windows.cosine(4)
    tensor([0.3827, 0.9239, 0.9239, 0.3827])
    """

    def shape(n: Array, period: int) -> Any:
        return np.sin((n + 0.5) * (math.pi / (period + 1)))

    return _window("cosine", M, sym, shape, dtype, layout, device, requires_grad)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: types.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|n - center| / tau); the centre of a symmetric window is its middle.

    >>> ex.signal.windows.exponential(5)
    tensor([0.1353, 0.3679, 1.0000, 0.3679, 0.1353])
    """
    if tau <= 0:
        raise ShapeError(f"signal.windows.exponential: tau must be positive, got {tau}")
    if sym and center is not None:
        raise ShapeError("signal.windows.exponential: a symmetric window has its centre in the middle; pass sym=False")

    def shape(n: Array, period: int) -> Any:
        return np.exp(-np.abs(n - (period / 2.0 if center is None else center)) / tau)

    return _window("exponential", M, sym, shape, dtype, layout, device, requires_grad)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: types.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-((n - middle) / std)**2 / 2).

    >>> ex.signal.windows.gaussian(5)
    tensor([0.1353, 0.6065, 1.0000, 0.6065, 0.1353])
    """
    if std <= 0:
        raise ShapeError(f"signal.windows.gaussian: std must be positive, got {std}")

    def shape(n: Array, period: int) -> Any:
        return np.exp(-0.5 * ((n - period / 2.0) / std) ** 2)

    return _window("gaussian", M, sym, shape, dtype, layout, device, requires_grad)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: types.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """i0(beta * sqrt(1 - r**2)) / i0(beta), r from -1 to 1: beta trades the main lobe for the side lobes.

    >>> ex.signal.windows.kaiser(5, beta=3.0)
    tensor([0.2049, 0.7269, 1.0000, 0.7269, 0.2049])
    """
    if beta < 0:
        raise ShapeError(f"signal.windows.kaiser: beta must not be negative, got {beta}")

    def shape(n: Array, period: int) -> Any:
        r = n * (2.0 / period) - 1.0 if period else np.zeros(n.size)
        return i0(beta * np.sqrt(np.maximum(1.0 - r * r, 0.0))) / i0(np.float64(beta))

    return _window("kaiser", M, sym, shape, dtype, layout, device, requires_grad)


explain_absent(__name__)
