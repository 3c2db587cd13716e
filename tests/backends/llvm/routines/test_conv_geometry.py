"""The numbers of a convolution: axes, phases, bands, and what is read of the source."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import conv_geometry, convolution, pooling  # noqa: F401 - pooling registers routines

from .convolutions import anything, check_all


@pytest.mark.parametrize("seed", range(40))
def test_images_cut_into_bands_have_no_seams(seed, monkeypatch):
    monkeypatch.setattr(conv_geometry, "_CHUNK_WORK", 500)
    monkeypatch.setattr(conv_geometry, "_COPY_BYTES", 3000)
    monkeypatch.setattr(conv_geometry, "_ROWS_WANTED", 5)
    planned, seen = conv_geometry.planned, []
    monkeypatch.setattr(convolution, "planned", lambda *args: seen.append(planned(*args)) or seen[-1])
    rng = np.random.default_rng(1000 + seed)
    for _ in range(3):
        x_shape, w_shape, options = anything(rng)
        check_all(x_shape, w_shape, bool(seed % 2), np.float32, **options)
    check_all((2, 3, 40, 30), (4, 3, 3, 3), True, np.float32, padding=1, stride=(1, 2))
    assert any(plan.n_bands > 1 and plan.n_chunks > 1 for plan in seen)
