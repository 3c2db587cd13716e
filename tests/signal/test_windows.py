"""ex.signal.windows: shapes at any length, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import signal
from extempo.errors import DtypeError, ShapeError


@pytest.mark.parametrize("name", signal.windows.__all__)
def test_windows_are_symmetric_periodic_and_defined_for_no_and_one_sample(name):
    fn = getattr(signal.windows, name)
    options = {"a": [0.6, 0.4]} if name == "general_cosine" else {}
    window = fn(9, dtype=ex.float64, **options).numpy()
    np.testing.assert_allclose(window, window[::-1], atol=1e-15)
    # A periodic window is the symmetric one that is one longer, without its last sample.
    np.testing.assert_allclose(fn(8, sym=False, dtype=ex.float64, **options).numpy(), window[:-1], atol=1e-15)
    assert fn(0, **options).shape == (0,)
    assert fn(1, **options).tolist() == [1.0]
    assert fn(3, requires_grad=True, **options).requires_grad
    assert fn(3, **options).dtype is ex.float32


def test_windows_refuse_what_makes_no_sense():
    with pytest.raises(ShapeError, match="must not be negative"):
        signal.windows.hann(-1)
    with pytest.raises(DtypeError, match="float32 or float64"):
        signal.windows.hann(3, dtype=ex.int64)
    with pytest.raises(ShapeError, match="tau must be positive"):
        signal.windows.exponential(3, tau=0.0)
    with pytest.raises(ShapeError, match="sym=False"):
        signal.windows.exponential(3, center=1.0)
    with pytest.raises(ShapeError, match="at least one coefficient"):
        signal.windows.general_cosine(3, a=[])
