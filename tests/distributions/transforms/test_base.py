"""Transforms: inverses, Jacobians against automatic ones, composition, caches, and distributions through them."""

from __future__ import annotations

import copy
import pickle

import pytest

import extempo as ex
import extempo.distributions as d
from extempo.distributions import transforms as t
from extempo.errors import DtypeError, ShapeError

BIJECTIONS = [
    (t.ExpTransform(), (3,)),
    (t.PowerTransform(ex.tensor(2.0)), (3,)),
    (t.SigmoidTransform(), (3,)),
    (t.SoftplusTransform(), (3,)),
    (t.TanhTransform(), (3,)),
    (t.AffineTransform(1.0, -2.0), (3,)),
    (t.AffineTransform(ex.tensor(1.0), ex.tensor(-2.0), event_dim=1), (3,)),
    (t.StickBreakingTransform(), (3,)),
    (t.CorrCholeskyTransform(), (6,)),
    (t.ReshapeTransform((3, 2), (6,)), (3, 2)),
    (t.ComposeTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0)]), (3,)),
    (t.IndependentTransform(t.ExpTransform(), 1), (3,)),
    (t.CatTransform([t.ExpTransform(), t.TanhTransform()], -1, [1, 2]), (3,)),
    (t.StackTransform([t.ExpTransform(), t.TanhTransform()], -1), (2,)),
    (t.CumulativeDistributionTransform(d.Normal(0.0, 1.0)), (3,)),
    (t.identity_transform, (3,)),
]


def points(transform, shape):
    ex.manual_seed(0)
    x = ex.randn(shape, dtype=ex.float64)
    return x.abs() + 0.1 if transform.domain is d.constraints.positive else x


@pytest.mark.parametrize(("transform", "shape"), BIJECTIONS, ids=lambda x: type(x).__name__)
def test_bijections_invert_and_stretch_as_their_jacobian_says(transform, shape):
    assert transform.bijective
    x = points(transform, shape)
    y = transform(x)
    assert transform.codomain.check(y).all()
    ex.testing.assert_close(transform.inv(y), x, rtol=1e-6)
    ex.testing.assert_close(transform.inv.inv(x), y)
    assert tuple(y.shape) == tuple(transform.forward_shape(shape))
    assert tuple(transform.inverse_shape(tuple(y.shape))) == shape
    jacobian = ex.func.jacrev(lambda v: _free_part(transform, transform(v)))(x).reshape(x.numel(), x.numel())
    expected = ex.linalg.slogdet(jacobian)[1]
    stretch = transform.log_abs_det_jacobian(x, y)
    ex.testing.assert_close(stretch.sum(), expected, rtol=1e-6)
    ex.testing.assert_close(transform.inv.log_abs_det_jacobian(y, x).sum(), -expected, rtol=1e-6)


def _free_part(transform, y):
    """The entries that the others determine are left out."""
    if isinstance(transform, t.CorrCholeskyTransform):
        return d.utils.tril_matrix_to_vec(y, -1)
    return y[..., :-1] if transform.codomain is d.constraints.simplex else y


def test_a_cache_returns_the_very_tensor_and_without_one_rounding_shows():
    x = ex.tensor([9.0, 20.0])
    cached = t.TanhTransform(cache_size=1)
    y = cached(x)
    assert cached.inv(y) is x
    assert cached.inv.inv(x) is y
    assert t.TanhTransform().inv(t.TanhTransform()(x))[1].item() == float("inf")
    chain = t.ComposeTransform([t.TanhTransform(), t.AffineTransform(0.0, 2.0)], cache_size=1)
    assert chain.inv(chain(x)) is x
    assert t.TanhTransform().with_cache(1)._cache_size == 1
    with pytest.raises(DtypeError, match="cache_size must be 0 or 1"):
        t.ExpTransform(cache_size=2)


def test_transforms_are_equal_by_class_and_parameters():
    assert t.ExpTransform() == t.ExpTransform()
    assert t.ExpTransform() != t.TanhTransform()
    assert t.AffineTransform(0.0, 1.0) == t.AffineTransform(0.0, ex.tensor(1.0))
    assert t.AffineTransform(0.0, 1.0) != t.AffineTransform(0.0, 2.0)
    assert t.PowerTransform(2.0) == t.PowerTransform(2.0)
    assert t.ExpTransform().inv == t.ExpTransform().inv
    assert t.ComposeTransform([t.ExpTransform()]) == t.ComposeTransform([t.ExpTransform()])
    assert t.ReshapeTransform((2,), (2, 1)) != t.ReshapeTransform((2,), (1, 2))
    assert len({t.ExpTransform(), t.ExpTransform()}) == 1


@pytest.mark.parametrize(("transform", "shape"), BIJECTIONS, ids=lambda x: type(x).__name__)
def test_transforms_copy_and_pickle(transform, shape):
    x = points(transform, shape)
    expected = transform(x)
    assert transform.inv is not None
    ex.testing.assert_close(copy.deepcopy(transform)(x), expected)
    ex.testing.assert_close(pickle.loads(pickle.dumps(transform))(x), expected)
    ex.testing.assert_close(pickle.loads(pickle.dumps(transform.inv))(expected), x, rtol=1e-6)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="equally many"):
        t.ReshapeTransform((2, 3), (5,))
    with pytest.raises(ShapeError, match="ends in"):
        t.ReshapeTransform((2, 3), (6,))(ex.zeros(3, 2))
    with pytest.raises(ShapeError, match="do not fill the triangle"):
        t.CorrCholeskyTransform()(ex.zeros(5))
    with pytest.raises(ShapeError, match="do not fill the triangle"):
        t.CorrCholeskyTransform().forward_shape((5,))
    with pytest.raises(ShapeError, match="one length for each"):
        t.CatTransform([t.ExpTransform()], lengths=[1, 2])
    with pytest.raises(ShapeError, match="the sum of its lengths"):
        t.CatTransform([t.ExpTransform()], lengths=[2])(ex.zeros(3))
    with pytest.raises(ShapeError, match="one for each transform"):
        t.StackTransform([t.ExpTransform()])(ex.zeros(3))
    with pytest.raises(ShapeError, match="at least 1 dimensions"):
        t.IndependentTransform(t.ExpTransform(), 1)(ex.tensor(1.0))
    with pytest.raises(ShapeError, match="takes events of 1 dimensions"):
        d.TransformedDistribution(d.Normal(0.0, 1.0), t.StickBreakingTransform())
    with pytest.raises(DtypeError, match="expected a transform or a list"):
        d.TransformedDistribution(d.Normal(0.0, 1.0), [ex.exp])
