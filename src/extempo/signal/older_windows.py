"""`ex.hann_window` and its fellows: windows by the names they had before `ex.signal.windows`.

`periodic` is the opposite of `sym` there, and the default here: one period of a window that repeats, for spectra.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..core.types import as_dtype, dtype, float64, get_default_dtype
from ..errors import DtypeError
from . import windows

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _made(
    make: Callable[..., Tensor], length: int, periodic: bool, dtype: Any, requires_grad: bool, **options: Any
) -> Tensor:
    """The window in any floating dtype, computed in float64 and rounded once."""
    d = get_default_dtype() if dtype is None else as_dtype(dtype)
    if not d.is_floating_point:
        raise DtypeError(f"window: expected a floating dtype, got {d}; use ex.float32")
    window = make(length, sym=not periodic, dtype=float64, **options).to(d)
    return window.requires_grad_() if requires_grad else window


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle that begins at 0.

    >>> ex.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _made(windows.bartlett, window_length, periodic, dtype, requires_grad, layout=layout, device=device)


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Three cosine terms: lower side lobes than `hann_window`, a wider main lobe.

    >>> ex.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return _made(windows.blackman, window_length, periodic, dtype, requires_grad, layout=layout, device=device)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - beta cos(t), t from 0 to 2 pi.

    >>> ex.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _made(
        windows.general_cosine,
        window_length,
        periodic,
        dtype,
        requires_grad,
        a=[alpha, beta],
        layout=layout,
        device=device,
    )


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """(1 - cos(t)) / 2, t from 0 to 2 pi: it begins at 0, and without `periodic` ends there.

    >>> ex.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    >>> ex.hann_window(3, periodic=False)
    tensor([0., 1., 0.])
    """
    return _made(windows.hann, window_length, periodic, dtype, requires_grad, layout=layout, device=device)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """i0(beta * sqrt(1 - r**2)) / i0(beta), r from -1 to 1: beta trades the main lobe for the side lobes.

    >>> ex.kaiser_window(4, beta=3.0)
    tensor([0.2049, 0.7269, 1.0000, 0.7269])
    """
    return _made(windows.kaiser, window_length, periodic, dtype, requires_grad, beta=beta, layout=layout, device=device)
