"""softmax, log_softmax and logsumexp where exponentials overflow, vanish or have nothing to sum."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.core.graph import Graph
from extempo.testing import check_grad

INF = float("inf")


def test_large_inputs_do_not_overflow():
    x = ex.tensor([[1e4, 1e4], [-1e4, 0.0]])
    assert x.softmax(1).tolist() == [[0.5, 0.5], [0, 1]]
    assert x.log_softmax(1)[1].tolist() == [-1e4, 0]
    assert x.logsumexp(1).tolist() == pytest.approx([1e4 + math.log(2), 0])


def test_a_slice_of_minus_infinity_has_no_softmax():
    x = ex.tensor([[-INF, -INF], [-INF, 1.0]])
    assert x.softmax(1).isnan().tolist() == x.log_softmax(1).isnan().tolist() == [[True, True], [False, False]]
    assert x.softmax(1)[1].tolist() == [0, 1]
    assert x.logsumexp(1).tolist() == [-INF, 1]
    assert ex.tensor([INF, 1.0]).logsumexp(0).item() == INF


def test_masked_scores_get_no_gradient():
    x = ex.tensor([-INF, 1.0, 2.0], requires_grad=True)
    x.softmax(0)[1].backward()
    assert x.grad[0].item() == 0
    assert x.grad.isfinite().all()


def test_empty_and_0_dim_inputs():
    assert ex.zeros(2, 0).softmax(1).shape == (2, 0)
    assert ex.zeros(0, 2).log_softmax(-1).shape == (0, 2)
    assert ex.tensor(3.0).softmax(0).item() == 1
    assert ex.tensor(3.0).log_softmax(-1).item() == 0
    assert ex.tensor(3.0).logsumexp(0).item() == 3
    assert ex.zeros(0, 2).logsumexp(0).tolist() == [-INF, -INF]


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16])
def test_half_precision_is_rounded_once(dtype):
    x = ex.randn(4, 50).to(dtype)
    exact = x.float().softmax(1).to(dtype)
    assert x.softmax(1).dtype is dtype
    assert x.softmax(1).float().tolist() == exact.float().tolist()
    assert ex.zeros(70000, dtype=dtype).softmax(0).float().max().item() > 0


def test_integers_are_refused_unless_a_dtype_is_given():
    x = ex.tensor([1, 2])
    for name in ("softmax", "log_softmax"):
        with pytest.raises(
            ex.errors.DtypeError, match=f"^{name}: expected a floating tensor, got extempo.int64; use x.float"
        ):
            getattr(ex, name)(x, 0)
    assert x.softmax(0, dtype=ex.float64).dtype is ex.float64
    assert x.logsumexp(0).dtype is ex.float32


def test_a_wrong_dim_names_the_op():
    with pytest.raises(ex.errors.IndexRangeError, match="log_softmax: dim 2 is out of range"):
        ex.zeros(2, 3).log_softmax(2)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_only_the_result_is_saved(name):
    x = ex.randn(2, 3, requires_grad=True)
    y = getattr(x * 1.0, name)(1)
    (entry,) = y._node.saved
    assert entry[0] == 0
    assert entry[1] is y._array


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients_to_second_order_along_any_dim_of_strided_inputs(name):
    x = ex.randn(3, 2, 4).permute(2, 0, 1)
    for dim in (0, 1, -1):
        check_grad(lambda t, dim=dim: getattr(t, name)(dim), [x])


def test_logsumexp_over_several_dimensions():
    x = ex.randn(2, 3, 4, dtype=ex.float64)
    expected = np.log(np.exp(x.numpy()).sum((0, 2), keepdims=True))
    assert x.logsumexp((0, -1), keepdim=True).numpy() == pytest.approx(expected)
    check_grad(lambda t: t.logsumexp((0, -1)), [x])


def test_the_graph_of_a_softmax_has_one_op():
    x = ex.randn(3, requires_grad=True)
    assert [node.op.name for node in Graph.of(x.softmax(0)).nodes if node.op.name != "leaf"] == ["softmax"]
