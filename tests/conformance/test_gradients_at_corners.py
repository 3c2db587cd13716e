"""Gradients against PyTorch's where formulas part: zeros, infinities, NaN, ties, upstream ones, later writes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.conformance
torch = pytest.importorskip("torch", reason="conformance needs PyTorch: pip install -e '.[conformance]'")

import extempo as ex  # noqa: E402 - after the check for PyTorch

inf, nan = math.inf, math.nan
POINTS = [[0.0, -0.0, 1.0, -1.0], [0.5, 2.0, -3.0, 2.0], [inf, -inf, nan, 1.0], [0.0, 0.0, 5.0, 5.0]]
FUNCTIONS = {"torch": torch.nn.functional, "extempo": ex.nn.functional}

OF_ONE = [
    *("2 / x", "0 / x", "inf / x", "-1.5 / x", "1 / x", "x.reciprocal()", "x / 0.0", "x / inf"),
    *("T.div(x, 0, rounding_mode='trunc')", "T.div(x, x, rounding_mode='trunc')", "x % 2", "x.fmod(2)"),
    *("T.remainder(T.full((4, 4), 0.5), x)", "T.xlogy(x, x)", "T.xlogy(0.0, x)", "T.special.xlog1py(x, x)"),
    *("T.copysign(x, x)", "T.pow(0.0, x)", "x**x", "x**0", "x**2", "x.angle()", "x.sinc()", "x.erfinv()"),
    *("x.max()", "x.min()", "x.median()", "x.nanmedian()", "x.max(1)[0]", "x.min(1)[0]", "x.median(1)[0]"),
    *("F.elu(x)", "F.selu(x)", "F.celu(x)", "F.relu(x)", "F.leaky_relu(x)", "F.softplus(x)", "F.silu(x)"),
    *(
        f"F.{loss}(x, T.full((4, 4), {target}), reduction='{reduction}')"
        for loss in ("smooth_l1_loss", "huber_loss", "l1_loss", "mse_loss")
        for target in ("0.0", "inf")
        for reduction in ("none", "mean")
    ),
    *("F.lp_pool1d(x.relu(), 2.0, 2)", "F.gaussian_nll_loss(T.ones(4, 4), T.zeros(4, 4), x.abs())"),
]
AT_TIES = [
    *("F.multi_margin_loss(x, T.tensor([0, 1, 2]))", "F.multilabel_margin_loss(x, T.tensor([[0, -1, 0]] * 3))"),
    *("x.amax()", "x.amin(1)", "x.max()", "x.aminmax(dim=1)[0]", "T.maximum(x, x.flip(0))", "x.clamp(0, 1)", "x.abs()"),
    *("F.hardtanh(x)", "F.relu6(x)", "F.hinge_embedding_loss(x, T.ones(3, 3))"),
]


def gradient(T: Any, expression: str, points: list[list[float]], upstream: float) -> Any:
    x = T.tensor(points, requires_grad=True)
    y = eval(expression, {"T": T, "F": FUNCTIONS[T.__name__], "x": x, "inf": inf})
    (g,) = T.autograd.grad(y, x, T.full(tuple(y.shape), upstream))
    return g.numpy()


@pytest.mark.parametrize("upstream", [1.0, 0.0, -2.0, inf, nan])
@pytest.mark.parametrize("expression", OF_ONE)
def test_gradients_at_special_points_are_pytorchs(expression: str, upstream: float) -> None:
    expected = gradient(torch, expression, POINTS, upstream)
    np.testing.assert_allclose(gradient(ex, expression, POINTS, upstream), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("expression", AT_TIES)
def test_gradients_at_ties_are_pytorchs(expression: str) -> None:
    points = [[0.0, 1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, -1.0, 0.0]]
    expected = gradient(torch, expression, points, 1.0)
    np.testing.assert_allclose(gradient(ex, expression, points, 1.0), expected, rtol=1e-5, atol=1e-6)


RESULT_IS_ENOUGH = [
    *("1 / x", "2 / x", "x.reciprocal()", "x.exp()", "x.sqrt()", "x.rsqrt()", "x.sigmoid()", "x.tanh()", "x.expm1()"),
    *(
        "x.relu()",
        "x.softmax(0)",
        "x.log_softmax(0)",
        "x.exp2()",
        "x.tan()",
        "x.cumsum(0)",
        "x + 1",
        "x * 2",
        "x.sum()",
    ),
]
INPUT_IS_ENOUGH = [
    *("x.erfinv()", "x.sinc()", "T.frexp(x)[0]", "x.log()", "x.sin()", "x.cos()", "x.square()", "x.abs()", "x**3"),
    *(
        "x.erf()",
        "x.lgamma()",
        "F.gelu(x)",
        "F.silu(x)",
        "F.softplus(x)",
        "x.atan()",
        "x.logit()",
        "x / 2",
    ),
]


@pytest.mark.parametrize(
    ("written", "expression"), [("x", e) for e in RESULT_IS_ENOUGH] + [("y", e) for e in INPUT_IS_ENOUGH]
)
def test_a_write_spoils_no_gradient_that_pytorch_finds_after_it(written: str, expression: str) -> None:
    found = []
    for T in (torch, ex):
        leaf = T.tensor([[0.3, 0.7], [0.55, 0.2]], requires_grad=True)
        x = leaf * 1.0
        y = eval(expression, {"T": T, "F": FUNCTIONS[T.__name__], "x": x})
        (x if written == "x" else y).add_(1.0)
        y.sum().backward()
        found.append(leaf.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_the_logarithm_of_a_negative_determinant_has_no_gradient() -> None:
    expected = gradient(torch, "x.logdet()", [[0.0, 2.0], [3.0, 0.0]], 1.0)
    np.testing.assert_array_equal(gradient(ex, "x.logdet()", [[0.0, 2.0], [3.0, 0.0]], 1.0), expected)
