"""Divergences in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
import extempo.distributions as d

from .cases import NUMBERED, build_here


def kl_pairs():
    for i, (_, p) in enumerate(NUMBERED):
        for j, (_, q) in enumerate(NUMBERED):
            if p[0] <= q[0] or i != j:
                yield p, q


def test_divergences_are_the_expected_difference_of_log_probs():
    ex.manual_seed(3)
    checked = 0
    for p_case, q_case in kl_pairs():
        p, q = build_here(*p_case)[0], build_here(*q_case)[0]
        try:
            divergence = d.kl_divergence(p, q).detach().double().numpy()
        except (NotImplementedError, ValueError):  # no formula, or shapes that do not fit each other
            continue
        heavy = "Pareto" in (p_case[0], q_case[0]) or q_case[0] == "Gumbel"  # their means converge too slowly
        if heavy or p.batch_shape != q.batch_shape or not np.isfinite(divergence).all():
            continue
        drawn = p.sample((3000,))
        q._validate_args = False
        ratio = (p.log_prob(drawn) - q.log_prob(drawn)).detach().double().numpy()
        error = np.abs(ratio.mean(0) - divergence)
        assert (error < 6 * ratio.std(0) / math.sqrt(3000) + 1e-6).all(), (p_case[0], q_case[0], error)
        checked += 1
    assert checked > 80


def test_the_divergence_from_itself_is_zero():
    for name, case in NUMBERED:
        p = build_here(*case)[0]
        try:
            divergence = d.kl_divergence(p, p)
        except NotImplementedError:
            continue
        assert divergence.abs().max().item() < 1e-12, name
        assert divergence.shape == p.batch_shape, name


def test_divergences_are_infinite_where_q_excludes_what_p_allows():
    assert d.kl_divergence(d.Normal(0.0, 1.0), d.Exponential(1.0)).item() == math.inf
    assert d.kl_divergence(d.Uniform(-1.0, 1.0), d.Beta(1.0, 1.0)).item() == math.inf
    assert d.kl_divergence(d.Uniform(0.0, 1.0), d.Uniform(0.5, 2.0)).item() == math.inf
    assert d.kl_divergence(d.Bernoulli(probs=0.5), d.Bernoulli(probs=0.0)).item() == math.inf
    assert d.kl_divergence(d.Bernoulli(probs=0.0), d.Bernoulli(probs=0.0)).item() == 0.0
    impossible = d.Categorical(probs=ex.tensor([0.0, 1.0]))
    assert d.kl_divergence(d.Categorical(probs=ex.tensor([0.5, 0.5])), impossible).item() == math.inf
    assert d.kl_divergence(impossible, d.Categorical(probs=ex.tensor([0.5, 0.5]))).item() == pytest.approx(math.log(2))
