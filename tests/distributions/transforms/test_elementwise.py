"""Transforms of single numbers."""

from __future__ import annotations

import math

import pytest

import extempo as ex
import extempo.distributions as d
from extempo.distributions import transforms as t


def test_a_cached_tanh_keeps_log_prob_finite_at_the_ends():
    squashed = d.TransformedDistribution(d.Normal(ex.tensor(15.0), 1.0), [t.TanhTransform(cache_size=1)])
    action = squashed.rsample()
    assert ex.isfinite(squashed.log_prob(action))


def test_increasing_transforms_say_so_and_others_by_the_sign_of_their_scale():
    for transform in (t.ExpTransform(), t.SigmoidTransform(), t.SoftplusTransform(), t.TanhTransform()):
        assert (transform.sign, transform.bijective, transform.domain) == (1, True, d.constraints.real)
    assert [t.AffineTransform(0.0, scale).sign for scale in (2.0, -2.0, 0.0)] == [1, -1, 0]
    assert t.PowerTransform(ex.tensor([-1.0, 2.0])).sign.tolist() == [-1.0, 1.0]


def test_a_sigmoid_stays_inside_so_that_its_inverse_is_finite():
    squash = t.SigmoidTransform()
    y = squash(ex.tensor([-1000.0, 1000.0]))
    assert (y > 0).all()
    assert (y < 1).all()
    assert ex.isfinite(squash.inv(y)).all()


def test_an_affine_transform_adds_up_the_stretch_of_its_event():
    stretch = t.AffineTransform(ex.zeros(3), 2.0, event_dim=1).log_abs_det_jacobian(ex.zeros(5, 3), ex.zeros(5, 3))
    assert stretch.shape == (5,)
    assert stretch[0].item() == pytest.approx(3 * math.log(2))
    assert t.AffineTransform(ex.zeros(3), 2.0).forward_shape((5, 1)) == (5, 3)
