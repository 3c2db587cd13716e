"""Normalizations beside onnxruntime, and batches that are their own statistics."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ArgumentError, ShapeError


def test_batches_are_normalised_by_running_statistics(agrees, normal):
    for shape in ((4, 3), (4, 3, 5), (4, 3, 5, 2)):
        agrees("BatchNormalization", [normal(*shape), normal(3), normal(3), normal(3), np.abs(normal(3))])


def test_in_training_mode_a_batch_is_its_own_statistics(node_model, normal):
    arrays = [normal(8, 3, 4), normal(3), normal(3), np.zeros(3, np.float32), np.ones(3, np.float32)]
    module = ex.from_onnx(node_model("BatchNormalization", arrays, 3, training_mode=1))
    x, *rest = (ex.from_numpy(a) for a in arrays)
    y, mean, _ = module(x, *rest)
    expected = ex.nn.functional.batch_norm(x, None, None, rest[0], rest[1], training=True)
    assert ex.allclose(y, expected, atol=1e-5)
    assert ex.allclose(mean, 0.1 * x.mean((0, 2)), atol=1e-6)
    y, mean, _ = module.eval()(x, *rest)
    assert ex.equal(mean, rest[2])
    assert ex.allclose(y, ex.nn.functional.batch_norm(x, rest[2], rest[3], rest[0], rest[1]), atol=1e-5)


def test_instances_groups_and_layers(agrees, normal):
    x = normal(2, 4, 3, 5)
    agrees("InstanceNormalization", [x, normal(4), normal(4)])
    agrees("GroupNormalization", [x, normal(4), normal(4)], num_groups=2)
    agrees("GroupNormalization", [x, normal(2), normal(2)], num_groups=2, opset=18)
    agrees("LayerNormalization", [x, normal(3, 5), normal(3, 5)], axis=2)
    agrees("LayerNormalization", [x, normal(5)], 3)
    with pytest.raises(ShapeError, match="4 channels cannot be split into 3 groups"):
        agrees("GroupNormalization", [x, normal(4), normal(4)], num_groups=3)


def test_channels_windows_and_norms(agrees, run_node, normal):
    agrees("LRN", [normal(2, 5, 3, 3)], size=3, alpha=0.5)
    agrees("LRN", [normal(2, 5, 3, 3)], size=5, beta=0.5, bias=2.0)
    with pytest.raises(ArgumentError, match="size must be positive, got 0"):
        run_node("LRN", [normal(2, 5, 3, 3)], size=0)
    agrees("LpNormalization", [normal(3, 4)], p=1, axis=0)
    agrees("LpNormalization", [normal(3, 4)])
    assert (run_node("LpNormalization", [np.zeros((2, 3), np.float32)])[0] == 0).all()
    agrees("MeanVarianceNormalization", [normal(2, 3, 4, 5)])


def test_root_mean_squares(run_node, normal):
    x, scale = normal(2, 4), normal(4)
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(run_node("RMSNormalization", [x, scale], opset=23)[0], expected, rtol=1e-5)


def test_halves_are_normalised_in_float32(run_node, normal):
    x = (normal(2, 64) * 100).astype(np.float16)
    one = np.ones(64, np.float16)
    (y,) = run_node("LayerNormalization", [x, one], types=[10])
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, expected, atol=2e-3)
