"""Transforms of vectors and matrices."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.distributions import transforms as t
from extempo.errors import ShapeError


@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        (t.AbsTransform(), (3,)),
        (t.SoftmaxTransform(), (3,)),
        (t.LowerCholeskyTransform(), (3, 3)),
        (t.PositiveDefiniteTransform(), (3, 3)),
    ],
    ids=lambda x: type(x).__name__,
)
def test_other_transforms_reach_their_codomain_and_return_to_the_same_image(transform, shape):
    assert not transform.bijective
    ex.manual_seed(0)
    y = transform(ex.randn(shape, dtype=ex.float64))
    assert transform.codomain.check(y).all()
    ex.testing.assert_close(transform(transform.inv(y)), y)
    with pytest.raises(NotImplementedError, match="no Jacobian determinant"):
        transform.log_abs_det_jacobian(y, y)


def test_stick_breaking_makes_one_probability_more_and_equal_ones_of_zeros():
    broken = t.StickBreakingTransform()
    assert broken(ex.zeros(3)).tolist() == pytest.approx([0.25] * 4)
    assert broken.forward_shape((5, 3)) == (5, 4)
    assert broken.inverse_shape((5, 4)) == (5, 3)
    with pytest.raises(ShapeError, match="expected at least 1 dimensions"):
        broken.forward_shape(())


def test_a_correlation_factor_has_rows_of_length_one():
    ex.manual_seed(0)
    factor = t.CorrCholeskyTransform()(ex.randn(2, 6))
    assert factor.shape == (2, 4, 4)
    ex.testing.assert_close(factor.square().sum(-1), ex.ones(2, 4))
    with pytest.raises(ShapeError, match="5 numbers do not fill the triangle"):
        t.CorrCholeskyTransform().forward_shape((5,))
