"""Elementwise operators where versions and types differ; the rest is in the node tests."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex


def test_whole_numbers_are_divided_towards_zero(agrees):
    x, y = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    assert agrees("Div", [x, y], types=[7])[0].tolist() == [3, -3, -3, 3]
    assert agrees("Mod", [x, y], types=[7])[0].tolist() == [1, 1, -1, -1]


def test_a_power_has_the_type_of_its_base(agrees, normal):
    assert agrees("Pow", [np.array([2, 3]), np.array([2.0, 0.5], np.float32)], types=[7])[0].tolist() == [4, 1]
    agrees("Pow", [np.abs(normal(3)), np.array([2])])


def test_bounds_that_cross_give_the_upper_one(agrees, normal):
    low, high = np.array(1.0, np.float32), np.array(-1.0, np.float32)
    assert (agrees("Clip", [normal(4), low, high])[0] == -1.0).all()
    agrees("Clip", [normal(4), None, high])
    agrees("Clip", [normal(4)], min=-0.5, max=0.5, opset=6)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_before_opset_13_axes_were_flattened(agrees, normal, op):
    x = normal(2, 3, 4)
    old, new = agrees(op, [x], opset=11), agrees(op, [x], opset=13)
    assert not np.allclose(old, new)
    agrees(op, [x], axis=2, opset=11)
    agrees(op, [x], axis=0, opset=13)


def test_infinities_are_told_by_sign(agrees):
    x = np.array([np.inf, -np.inf, 1.0, np.nan], np.float32)
    assert agrees("IsInf", [x], types=[9], detect_negative=0)[0].tolist() == [True, False, False, False]
    assert agrees("IsInf", [x], types=[9], detect_positive=0)[0].tolist() == [False, True, False, False]


def test_a_cast_to_a_type_that_is_not_there_names_the_type(run_node, normal):
    with pytest.raises(ex.errors.UnsupportedError, match=r"Cast \('y0'\): the element type FLOAT8E5M2 has no tensors"):
        run_node("Cast", [normal(2)], to=19)


def test_dropout_drops_in_training_mode_if_the_file_says_so(node_model):
    arrays = [np.ones(1000, np.float32), np.array(0.25, np.float32), np.array(True)]
    module = ex.from_onnx(node_model("Dropout", arrays, 2, types=[1, 9]))
    x, *rest = (ex.from_numpy(a) for a in arrays)
    y, mask = module(x, *rest)
    assert 650 < mask.sum().item() < 850
    assert y.unique().tolist() == pytest.approx([0.0, 4 / 3])
    y, mask = module.eval()(x, *rest)
    assert ex.equal(y, x)
    assert mask.all()


def test_many_inputs_are_broadcast_together(agrees, normal):
    for op in ("Max", "Min", "Sum", "Mean"):
        agrees(op, [normal(3, 1), normal(4), normal(1, 1)])
        agrees(op, [normal(3)])


def test_activations_have_gradients(node_model, normal):
    for op in ("Celu", "Elu", "Gelu", "HardSigmoid", "LeakyRelu", "Mish", "Selu", "Shrink", "ThresholdedRelu"):
        module = ex.from_onnx(node_model(op, [normal(5)]))
        x = ex.from_numpy(np.array([-1.7, -0.6, 0.2, 0.7, 1.9])).requires_grad_()
        module._inputs[0] = module._inputs[0]._replace(dtype=ex.float64)
        assert ex.autograd.gradcheck(module, (x,)), op


def test_optional_values_that_are_tensors(run_node, normal):
    x = normal(2)
    assert run_node("OptionalHasElement", [x], types=[9])[0].item() is True
    np.testing.assert_array_equal(run_node("OptionalGetElement", [x])[0], x)
