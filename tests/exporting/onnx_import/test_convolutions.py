"""Convolutions beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ShapeError, UnsupportedError


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pads": [1, 0, 2, 1]},
        {"pads": [1, 1, 1, 1], "strides": [2, 1], "dilations": [1, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "VALID"},
    ],
)
def test_convolutions_pad_step_and_dilate(agrees, normal, options):
    agrees("Conv", [normal(2, 4, 7, 6), normal(6, 2, 3, 3), normal(6)], group=2, **options)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_convolutions_have_one_to_three_dimensions(agrees, normal, n):
    agrees("Conv", [normal(1, 2, *[5] * n), normal(3, 2, *[3] * n)])
    agrees("ConvTranspose", [normal(1, 2, *[4] * n), normal(2, 3, *[3] * n)], strides=[2] * n)


def test_four_dimensions_are_refused(run_node, normal):
    with pytest.raises(UnsupportedError, match=r"Conv \('y0'\): convolutions have 1 to 3 spatial dimensions here"):
        run_node("Conv", [normal(1, 1, 2, 2, 2, 2), normal(1, 1, 1, 1, 1, 1)])


@pytest.mark.parametrize(
    "options",
    [
        {"pads": [1, 0, 0, 1]},
        {"output_padding": [1, 0], "pads": [1, 1, 1, 1]},
        {"output_shape": [10, 8]},
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_LOWER"},
        {"dilations": [2, 1]},
    ],
)
def test_transposed_convolutions_cut_and_widen(agrees, normal, options):
    agrees("ConvTranspose", [normal(2, 4, 5, 4), normal(4, 3, 3, 3), normal(6)], group=2, strides=[2, 2], **options)


def test_blocks_are_summed_where_windows_were(run_node, normal):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    x = normal(2, 3 * 4, 12)
    (y,) = run_node("Col2Im", [x, np.array([5, 4]), np.array([2, 2])], pads=[0, 0, 0, 0])
    np.testing.assert_allclose(y, torch.nn.functional.fold(torch.from_numpy(x), (5, 4), (2, 2)).numpy(), atol=1e-6)
    with pytest.raises(ShapeError, match=r"expected \(batch, channels \* 4, 12\)"):
        run_node("Col2Im", [normal(2, 12, 11), np.array([5, 4]), np.array([2, 2])])


def test_offsets_of_nothing_make_a_deformed_convolution_a_plain_one(run_node, normal):
    x, w, b = normal(2, 4, 6, 5), normal(4, 2, 3, 3), normal(4)
    offset = np.zeros((2, 2 * 2 * 9, 6, 5), np.float32)
    (plain,) = run_node("Conv", [x, w, b], group=2, pads=[1, 1, 1, 1])
    (deformed,) = run_node("DeformConv", [x, w, offset, b], group=2, offset_group=2, pads=[1, 1, 1, 1])
    np.testing.assert_allclose(deformed, plain, atol=1e-5)
    (row,) = run_node("DeformConv", [x[:, :2, :1], w[:2, :, :1], offset[:, :6, :1]], pads=[0, 1, 0, 1])
    (expected,) = run_node("Conv", [x[:, :2, :1].copy(), w[:2, :, :1].copy()], pads=[0, 1, 0, 1])
    np.testing.assert_allclose(row, expected, atol=1e-5)


def test_weights_and_inputs_have_gradients(node_model, normal):
    arrays = [normal(1, 2, 4, 4), normal(3, 2, 2, 2)]
    module = ex.from_onnx(node_model("Conv", arrays, pads=[1, 0, 0, 1]))
    x, w = (ex.from_numpy(a).requires_grad_() for a in arrays)
    module(x, w).sum().backward()
    assert x.grad.shape == x.shape
    assert w.grad.abs().sum() > 0
