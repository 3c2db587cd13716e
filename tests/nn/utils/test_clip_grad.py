"""Gradients scaled or cut before a step."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import NumericalError
from extempo.nn import utils


def with_gradients(*gradients: list[float]) -> list[nn.Parameter]:
    parameters = [nn.Parameter(ex.zeros(len(g))) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = ex.tensor(g)
    return [*parameters, nn.Parameter(ex.zeros(1))]


def test_gradients_are_scaled_down_but_never_up():
    ps = with_gradients([3.0], [0.0, 4.0])
    assert utils.clip_grad_norm_(iter(ps), 1.0).item() == 5.0
    assert ps[0].grad.item() == pytest.approx(0.6, rel=1e-5)
    assert utils.clip_grad_norm_(ps, 100.0).item() == pytest.approx(1.0, rel=1e-5)
    assert ps[1].grad[1].item() == pytest.approx(0.8, rel=1e-5)
    assert ps[2].grad is None
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    assert utils.clip_grad_norm_(ps[0], 0.1, norm_type=math.inf, foreach=True).item() == pytest.approx(0.6, rel=1e-5)


def test_a_norm_that_is_not_finite_can_be_an_error():
    ps = with_gradients([math.inf])
    with pytest.raises(NumericalError, match="inf"):
        utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)
    assert ps[0].grad.item() == math.inf
    assert utils.clip_grad_norm_(ps, 1.0).item() == math.inf


def test_values_are_clipped_in_place():
    ps = with_gradients([3.0, -3.0, 0.5])
    gradient = ps[0].grad
    utils.clip_grad_value_(ps, 1)
    assert gradient.tolist() == [1.0, -1.0, 0.5]
    assert ps[0].grad is gradient


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf, 0.0])
def test_clipping_equals_pytorch(norm_type):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    values = [rng.normal(size=s).astype(np.float32) for s in ((3, 4), (5,), ())]
    ours = [nn.Parameter(ex.zeros(v.shape)) for v in values]
    theirs = [torch.nn.Parameter(torch.zeros(v.shape)) for v in values]
    for p, q, v in zip(ours, theirs, values, strict=True):
        p.grad, q.grad = ex.tensor(v), torch.tensor(v)
    a = utils.clip_grad_norm_(ours, 1.5, norm_type)
    b = torch.nn.utils.clip_grad_norm_(theirs, 1.5, norm_type)
    assert a.item() == pytest.approx(b.item(), rel=1e-6)
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-6)


def test_the_older_name_of_clip_grad_norm_warns_and_clips():
    p = nn.Parameter(ex.zeros(2))
    p.grad = ex.tensor([3.0, 4.0])
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        assert nn.utils.clip_grad_norm([p], 1.0).item() == 5.0
    assert p.grad.norm().item() == pytest.approx(1.0)
