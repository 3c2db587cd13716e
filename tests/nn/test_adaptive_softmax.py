"""AdaptiveLogSoftmaxWithLoss: clusters of rare classes behind a short list."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, DtypeError, ShapeError


def adaptive() -> nn.AdaptiveLogSoftmaxWithLoss:
    ex.manual_seed(0)
    return nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True)


def test_adaptive_softmax_agrees_with_its_full_log_probabilities():
    layer, x = adaptive(), ex.randn(20, 8)
    target = ex.arange(20)
    full = layer.log_prob(x)
    np.testing.assert_allclose(full.exp().sum(-1).detach().numpy(), np.ones(20), rtol=1e-5)
    output, loss = layer(x, target)
    np.testing.assert_allclose(output.detach().numpy(), full.detach().numpy()[np.arange(20), np.arange(20)], rtol=1e-5)
    assert loss.item() == pytest.approx(-output.mean().item())


def test_adaptive_softmax_predicts_the_most_probable_class():
    layer = adaptive()
    x = ex.randn(50, 8) * 5
    assert layer.predict(x).tolist() == layer.log_prob(x).argmax(-1).tolist()


def test_adaptive_softmax_takes_one_sample_and_python_targets():
    layer, x = adaptive(), ex.randn(8)
    assert layer(x, 15).output.item() == pytest.approx(layer(x.unsqueeze(0), [15]).output.item())


def test_adaptive_softmax_refuses_what_names_no_class():
    layer = adaptive()
    with pytest.raises(ArgumentError, match="between 0 and 19"):
        layer(ex.zeros(2, 8), [1, 20])
    with pytest.raises(ShapeError, match=r"in_features=8.*\(2, 8\) and \(3,\)"):
        layer(ex.zeros(2, 8), [1, 2, 3])
    with pytest.raises(DtypeError, match="class indices"):
        layer(ex.zeros(1, 8), ex.zeros(1))
