"""Transforms and windows beside NumPy and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.errors import ArgumentError, ShapeError


def parts(z):
    return np.stack([z.real, z.imag], -1)


@pytest.mark.parametrize("n", [1, 5, 8])
def test_a_transform_is_that_of_numpy(run_node, normal, n):
    x = normal(2, n, 2)
    z = x[..., 0] + 1j * x[..., 1]
    np.testing.assert_allclose(run_node("DFT", [x])[0], parts(np.fft.fft(z)), atol=1e-5)
    np.testing.assert_allclose(run_node("DFT", [x], inverse=1)[0], parts(np.fft.ifft(z)), atol=1e-5)
    real = x[..., :1].copy()
    np.testing.assert_allclose(run_node("DFT", [real], onesided=1)[0], parts(np.fft.rfft(real[..., 0])), atol=1e-5)
    np.testing.assert_allclose(
        run_node("DFT", [real, np.array(n + 2)])[0], parts(np.fft.fft(real[..., 0], n + 2)), atol=1e-5
    )


def test_half_a_spectrum_gives_real_numbers_back(run_node, normal):
    for n in (6, 7):
        x = normal(2, n)
        half = parts(np.fft.rfft(x)).astype(np.float32)
        (y,) = run_node("DFT", [half, np.array(n)], inverse=1, onesided=1)
        np.testing.assert_allclose(y[..., 0], x, atol=1e-5)


def test_an_axis_is_chosen_by_input_or_attribute(agrees, run_node, normal):
    x = normal(3, 4, 1)
    agrees("DFT", [x], axis=0, opset=17)
    np.testing.assert_allclose(
        run_node("DFT", [x, None, np.array(0)])[0], parts(np.fft.fft(x[..., 0], axis=0)), atol=1e-5
    )
    with pytest.raises(ArgumentError, match="holds the parts of a number"):
        run_node("DFT", [x, None, np.array(-1)])
    with pytest.raises(ShapeError, match=r"expected \(..., 1\) or \(..., 2\)"):
        run_node("DFT", [normal(3, 4)])
    with pytest.raises(ArgumentError, match="dft_length must be positive"):
        run_node("DFT", [x, np.array(-3)])


def test_frames_are_transformed_one_by_one(agrees, run_node, normal):
    signal, window = normal(2, 12, 1), np.abs(normal(4))
    agrees("STFT", [signal, np.array(2), window], opset=17)
    agrees("STFT", [signal, np.array(3), None, np.array(5)], opset=17, onesided=0)
    with pytest.raises(ArgumentError, match="frames of 50 every 2 do not fit"):
        run_node("STFT", [signal, np.array(2), None, np.array(50)])


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_are_periodic_or_symmetric(agrees, op):
    for periodic in (0, 1):
        agrees(op, [np.array(9)], periodic=periodic, atol=1e-5)
    assert agrees(op, [np.array(7)], types=[11], output_datatype=11)[0].dtype == np.float64


def test_triangles_in_mel(agrees):
    bounds = [np.array(v, np.int64) for v in (6, 32, 8000)] + [np.array(v, np.float32) for v in (0, 4000)]
    agrees("MelWeightMatrix", bounds)
