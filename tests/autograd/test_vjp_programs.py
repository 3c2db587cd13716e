"""Gradients as lists of kernel calls: what of them is shared by all sizes, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.vjp_programs import _KernelCall
from extempo.backends.selection import native


@pytest.mark.skipif(native() is None, reason="needs native kernels")
def test_a_size_that_has_no_native_kernel_says_nothing_of_others():
    empty = ex.ones(0, 2, dtype=ex.float64, requires_grad=True) @ ex.ones(2, 3, dtype=ex.float64)
    call = _KernelCall(empty.grad_fn, set())
    call.call((0, 2, 2, 3), {})
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 200)), rng.normal(size=(300, 200)).T
    made = call.call((5, 200, 200, 300), {})
    assert "numpy_call" not in repr(made)
    assert made(a, b).tobytes() == (ex.tensor(a) @ ex.tensor(b.T).T).numpy().tobytes()
