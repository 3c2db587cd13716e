"""Native pooling against the NumPy kernels of its ops, with guards around everything written."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import pooling

from ..guarded import bind
from .oracle import FLOATS
from .pools import check_avg, check_max, geometry


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", range(60))
def test_any_window_is_pooled_within_its_operands(seed, dtype):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3))
    for _ in range(4):
        lead = tuple(int(i) for i in rng.integers(1, 5, rng.integers(0, 3)))
        sizes, kernel, stride = (tuple(int(i) for i in rng.integers(1, high, n)) for high in (45, 5, 5))
        dilation = tuple(int(i) for i in rng.integers(1, 4, n))
        spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
        padding = tuple(int(rng.integers(0, span // 2 + 1)) for span in spans)
        attrs = geometry(sizes, kernel, stride, padding, dilation, bool(rng.integers(2)))
        x = rng.normal(size=(*lead, *sizes)).astype(dtype)
        if rng.random() < 0.5:
            x = np.round(x)  # many equal elements
        if min(attrs["counts"]) > 0:
            check_max(x, attrs)
        padding = tuple(min(p, k // 2) for p, k in zip(padding, kernel, strict=True))
        attrs = geometry(sizes, kernel, stride, padding, 1, bool(rng.integers(2)))
        if min(attrs["counts"]) > 0:
            check_avg(x, attrs, bool(rng.integers(2)), int(rng.integers(1, 9)) if rng.random() < 0.3 else None)


@pytest.mark.parametrize("shape", [(5, 6, 4), (40, 28, 28), (3, 7, 15)])
def test_planes_in_several_chunks_have_no_seams(shape, monkeypatch):
    monkeypatch.setattr(pooling, "_CHUNK_ELEMENTS", 30)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 1)):
        attrs = geometry(shape[1:], kernel, stride, padding)
        check_max(x, attrs)
        check_avg(x, attrs, True, None)


def test_what_has_no_native_code_is_left_to_numpy():
    attrs = geometry((4, 4), 2, 2)
    assert bind("max_pool", (np.zeros((1, 4, 4), np.float32),), attrs) is not None
    assert bind("max_pool", (np.zeros((1, 4, 4), np.int64),), attrs) is None
    assert bind("max_pool", (np.zeros((0, 4, 4), np.float32),), attrs) is None
    assert bind("max_pool", (np.zeros((1, 4, 4, 4), np.float32),), geometry((4, 4, 4), 2, 2)) is None
