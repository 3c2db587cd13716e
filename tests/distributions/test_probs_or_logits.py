"""Distributions that take probabilities or logits."""

from __future__ import annotations

import pytest

import extempo as ex
import extempo.distributions as d
from extempo.errors import DtypeError


def test_probabilities_computed_under_no_grad_still_have_their_gradient():
    logits = ex.zeros(2, requires_grad=True)
    coin = d.Bernoulli(logits=logits)
    coin.sample()
    coin.probs.sum().backward()
    assert logits.grad.tolist() == pytest.approx([0.25, 0.25])


def test_one_of_both_is_kept_and_the_other_computed_when_asked_for():
    coin = d.Bernoulli(logits=ex.zeros(2))
    assert "probs" not in vars(coin)
    assert repr(coin) == "Bernoulli(logits: (2,))"
    assert coin.probs.tolist() == [0.5, 0.5]
    assert coin.probs is coin.probs
    assert coin.param_shape == (2,)


def test_neither_and_both_are_refused():
    with pytest.raises(DtypeError, match="Geometric: expected either probs or logits, got neither"):
        d.Geometric()
    with pytest.raises(DtypeError, match="Categorical: expected either probs or logits, got both"):
        d.Categorical(ex.ones(2), ex.ones(2))


def test_certain_outcomes_have_finite_logits():
    assert ex.isfinite(d.Bernoulli(probs=ex.tensor([0.0, 1.0])).logits).all()


def test_a_count_broadcasts_with_the_probabilities_and_takes_their_dtype():
    draws = d.Binomial(ex.tensor([3, 5]), probs=ex.tensor(0.5, dtype=ex.float64))
    assert (draws.batch_shape, draws.total_count.dtype) == ((2,), ex.float64)
