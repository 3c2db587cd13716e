"""Relaxed draws: continuous, with a gradient."""

from __future__ import annotations

import numpy as np

import extempo as ex
import extempo.distributions as d


def test_relaxed_draws_have_a_gradient_and_get_close_to_the_corners():
    logits = ex.tensor([0.5, -0.5, 0.0], requires_grad=True)
    drawn = d.RelaxedOneHotCategorical(ex.tensor(0.01), logits=logits).rsample((100,))
    assert (drawn.max(-1).values > 0.9).float().mean() > 0.9
    (drawn * ex.arange(3)).sum().backward()
    assert logits.grad is not None
    coins = d.RelaxedBernoulli(ex.tensor(0.01), logits=logits).rsample((100,))
    assert ((coins < 0.1) | (coins > 0.9)).float().mean() > 0.9
    assert coins.requires_grad


def test_relaxed_draws_choose_in_proportion_to_the_probabilities():
    ex.manual_seed(0)
    probs = ex.tensor([0.2, 0.5, 0.3])
    chosen = d.RelaxedOneHotCategorical(ex.tensor(0.5), probs=probs).sample((20000,)).argmax(-1)
    np.testing.assert_allclose(ex.bincount(chosen).numpy() / 20000, probs.numpy(), atol=0.02)
