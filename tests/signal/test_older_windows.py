"""Windows by their older names."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError
from extempo.signal import older_windows

FLOATING = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.conformance
@pytest.mark.parametrize("name", older_windows.__all__)
def test_older_windows_are_pytorchs_in_every_dtype(name):
    torch = pytest.importorskip("torch", reason="compares windows with PyTorch: pip install -e '.[conformance]'")
    for length in (0, 1, 2, 5, 8):
        for periodic in (True, False):
            for d in FLOATING:
                expected = getattr(torch, name)(length, periodic, dtype=getattr(torch, d))
                found = getattr(ex, name)(length, periodic, dtype=getattr(ex, d))
                assert str(found.dtype) == f"extempo.{d}"
                # PyTorch rounds every step of its computation to the dtype.
                near = 1e-6 if expected.element_size() > 2 else 1e-2
                np.testing.assert_allclose(found.float().numpy(), expected.float().numpy(), atol=near)


def test_the_numbers_of_a_window_can_be_given():
    assert ex.hamming_window(2, False, 0.6, 0.3).tolist() == pytest.approx([0.3, 0.3])
    assert ex.kaiser_window(3, periodic=False, beta=0.0).tolist() == [1.0, 1.0, 1.0]
    assert ex.hann_window(4, requires_grad=True).requires_grad


def test_a_window_is_floating():
    with pytest.raises(DtypeError, match=r"expected a floating dtype, got extempo\.int64"):
        ex.hann_window(4, dtype=ex.int64)
