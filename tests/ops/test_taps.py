"""Weighted taps: both roads of the kernel agree, infinities stay where they are seen, the adjoint is the gradient."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.ops import taps
from extempo.ops.taps import weighted_taps

from .helpers import normal

POSITIONS = np.array([[0, 1], [1, 1], [3, 0], [2, 3]])
WEIGHTS = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5], [-1.0, 2.0]])


def by_definition(x, dim):
    x = np.moveaxis(x, dim, -1)
    y = np.stack([(x[..., p] * w).sum(-1) for p, w in zip(POSITIONS, WEIGHTS, strict=True)], -1)
    return np.moveaxis(y, -1, dim)


@pytest.mark.parametrize("dense", [0, 100])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_each_output_is_the_weighted_sum_of_its_taps(monkeypatch, dense, dim):
    monkeypatch.setattr(taps, "_DENSE", dense)  # 0: by picking, 100: by a product
    x = normal(4, 4, 4)
    np.testing.assert_allclose(weighted_taps(x, dim, POSITIONS, WEIGHTS).numpy(), by_definition(x.numpy(), dim))


def test_a_tap_of_weight_zero_sees_no_infinity():
    x = ex.tensor([1.0, np.inf, 2.0, 3.0])
    assert weighted_taps(x, 0, np.array([[0, 1], [1, 2]]), np.array([[1.0, 0.0], [1.0, 1.0]])).tolist() == [1, np.inf]


def test_integers_are_added_up_as_integers():
    x = ex.tensor([2**53 + 1, 2, 3, 4])
    assert weighted_taps(x, 0, np.array([[0, 1]]), np.array([[1, 1]])).tolist() == [2**53 + 3]


def test_the_gradient_is_the_same_op_with_the_tables_exchanged():
    x = normal(2, 4).requires_grad_()
    g = normal(2, 4, seed=1)
    (into_x,) = ex.autograd.grad(weighted_taps(x, 1, POSITIONS, WEIGHTS), x, g)
    matrix = by_definition(np.eye(4), 1)  # input -> output
    np.testing.assert_allclose(into_x.numpy(), g.numpy() @ matrix.T)


def test_an_empty_tensor_has_empty_taps():
    assert weighted_taps(ex.zeros(0, 4), 1, POSITIONS, WEIGHTS).shape == (0, 4)
