"""Constraints of vectors, of matrices and of tensors part by part."""

from __future__ import annotations

import pytest

import extempo as ex
import extempo.distributions as d
from extempo.errors import ShapeError


def test_simplex_validation_allows_for_the_rounding_of_many_categories():
    probs = ex.randn(4, 50000).softmax(-1)
    d.Categorical(probs=probs)
    assert d.constraints.simplex.check(probs).all()


def test_matrices_are_checked_one_by_one():
    c = d.constraints
    matrices = ex.tensor([[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]])
    assert c.symmetric.check(matrices).tolist() == [True, True]
    assert c.positive_definite.check(matrices).tolist() == [True, False]
    assert c.positive_semidefinite.check(ex.ones(2, 2)).item()
    assert c.square.check(ex.zeros(3, 2, 3)).tolist() == [False] * 3
    assert not c.symmetric.check(ex.zeros(2, 3)).item()


def test_factors_are_lower_triangular_with_a_positive_diagonal():
    c = d.constraints
    factor = ex.tensor([[1.0, 0.0], [0.6, 0.8]])
    assert c.lower_cholesky.check(factor).item()
    assert c.corr_cholesky.check(factor).item()
    assert not c.corr_cholesky.check(2 * factor).item()
    assert not c.lower_triangular.check(factor.T).item()
    assert not c.lower_cholesky.check(-factor).item()


def test_parts_have_constraints_of_their_own():
    c = d.constraints
    cat = c.cat([c.positive, c.real], dim=0, lengths=[1, 2])
    assert cat.check(ex.tensor([-1.0, -1.0, 0.0])).tolist() == [False, True, True]
    stack = c.stack([c.boolean, c.simplex], dim=0)
    assert (stack.is_discrete, stack.event_dim) == (True, 1)
    with pytest.raises(ShapeError, match="expected one length for each of 2 parts"):
        c.cat([c.positive, c.real], lengths=[1])


def test_counts_add_up_to_at_most_their_number():
    assert d.constraints.multinomial(3).check(ex.tensor([[1, 2], [2, 2], [-1, 2]])).tolist() == [True, False, False]
    assert d.constraints.one_hot.check(ex.tensor([[0, 1], [1, 1], [0, 0]])).tolist() == [True, False, False]
