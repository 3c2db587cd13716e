"""Anomaly detection: the first NaN of a backward is named with its op and line."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import autograd, nn
from extempo.errors import AutogradError


def leaf(*values: float) -> ex.Tensor:
    return ex.tensor(values, requires_grad=True)


def test_detect_anomaly_names_the_operation_and_its_line() -> None:
    x = leaf(0.0, 1.0)
    with autograd.detect_anomaly():
        assert autograd.is_anomaly_enabled()
        y = x.sqrt() * 0.0
        with pytest.raises(AutogradError, match=r"gradient of sqrt \(recorded at .*test_anomaly.py:\d+\).* NaN"):
            y.sum().backward()
    assert not autograd.is_anomaly_enabled()
    (x.sqrt() * 0.0).sum().backward()
    assert np.isnan(x.grad.tolist()[0])


def test_detect_anomaly_lets_sound_gradients_pass() -> None:
    x = leaf(1.0, 2.0)
    with autograd.set_detect_anomaly(True):
        (g,) = autograd.grad((x * x + x.sort().values).sum(), x, create_graph=True)
        g.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    autograd.set_detect_anomaly(False)


def test_detect_anomaly_looks_at_gradients_of_ops_with_several_results() -> None:
    x = leaf(1.0, 2.0, 4.0)
    with autograd.detect_anomaly():
        (nn.functional.layer_norm(x, (3,)) * 2.0).sum().backward()
        x.grad = None
        values, _ = x.reshape(1, 3).max(1)
        values.sum().backward()
        assert x.grad.tolist() == [0.0, 0.0, 1.0]
        values, _ = x.reshape(1, 3).max(1)
        with pytest.raises(AutogradError, match="NaN"):
            (values * float("inf") - values * float("inf")).sum().backward()
