"""Inputs that lie otherwise than a routine reads them are copied in order, by native code from some size on."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.calls import copies
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

SHAPES = [(3, 5), (64, 70), (5, 16, 33), (2, 3, 4, 5, 6, 7), (1, 2000)]


def laid_out(values):
    """The same values in many layouts."""
    yield values.transpose().copy().transpose()
    yield np.repeat(values, 3, axis=-1)[..., ::3]
    yield values[::-1].copy()[::-1]
    yield values[..., ::-1].copy()[..., ::-1]
    if values.ndim > 2:
        yield np.moveaxis(np.ascontiguousarray(np.moveaxis(values, 1, -1)), -1, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool"])
def test_a_sum_has_the_bits_of_a_contiguous_one_whatever_the_layout(dtype):
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        values = (rng.normal(size=shape) * 10).astype(dtype)
        for x in laid_out(values):
            for dim in range(values.ndim):
                expected = ex.from_numpy(values).sum(dim)
                assert ex.equal(ex.from_numpy(x).sum(dim), expected)


def test_an_input_of_many_dimensions_is_numpys_to_copy():
    deep = np.arange(2.0 ** (copies.MAX_NDIM + 2), dtype=np.float32).reshape((2,) * (copies.MAX_NDIM + 2)).transpose()
    assert deep.nbytes >= copies.SMALLEST
    assert ex.equal(ex.from_numpy(deep).cumsum(0), ex.from_numpy(deep.copy()).cumsum(0))
