"""What all distributions share: shapes, validation and its messages, expand, copies."""

from __future__ import annotations

import copy
import pickle

import pytest

import extempo as ex
import extempo.distributions as d
from extempo.errors import DtypeError, NumericalError, ShapeError, UnsupportedError

from .cases import CASES, build_here, names

EACH = pytest.mark.parametrize(("name", "arguments"), CASES, ids=names())


def test_a_bad_parameter_is_named_with_its_constraint_and_first_bad_value():
    with pytest.raises(NumericalError, match=r"Normal: expected parameter scale of shape \(3,\) to satisfy "
                       r"GreaterThan\(lower_bound=0.0\), but found -2.0 at index \(1,\)"):  # fmt: skip
        d.Normal(0.0, ex.tensor([1.0, -2.0, -3.0]))
    with pytest.raises(NumericalError, match=r"Categorical: expected parameter logits .* but found \[nan, nan\]"):
        d.Categorical(logits=ex.tensor([[0.0, 1.0], [float("nan"), 0.0]]))
    with pytest.raises(NumericalError, match=r"Uniform: expected parameter low .* LessThan\(upper_bound=1.0\)"):
        d.Uniform(2.0, 1.0)
    with pytest.raises(NumericalError, match="HalfNormal: expected parameter scale"):
        d.HalfNormal(-1.0)
    with pytest.raises(NumericalError, match="Chi2: expected parameter df"):
        d.Chi2(-1.0)
    with pytest.raises(NumericalError, match=r"covariance_matrix .* PositiveDefinite"):
        d.MultivariateNormal(ex.zeros(2), covariance_matrix=ex.tensor([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(NumericalError, match="Geometric: expected parameter probs above 0"):
        d.Geometric(probs=0.0)


def test_a_bad_value_is_named_with_the_support():
    with pytest.raises(
        NumericalError, match=r"Exponential: expected the value .* GreaterThanEq\(lower_bound=0.0\), but found -1.0"
    ):
        d.Exponential(1.0).log_prob(ex.tensor([0.5, -1.0]))
    with pytest.raises(NumericalError, match=r"IntegerInterval\(lower_bound=0, upper_bound=2\), but found 3"):
        d.Categorical(probs=ex.ones(3)).log_prob(ex.tensor(3))
    with pytest.raises(ShapeError, match=r"event shape \(2,\) last, got a value of shape \(3,\)"):
        d.MultivariateNormal(ex.zeros(2), ex.eye(2)).log_prob(ex.zeros(3))
    with pytest.raises(ShapeError, match=r"value of shape \(4,\) does not broadcast with batch and event shape \(3,\)"):
        d.Normal(ex.zeros(3), 1.0).log_prob(ex.zeros(4))


def test_validation_is_off_where_it_is_not_wanted():
    assert ex.isnan(d.Normal(0.0, -1.0, validate_args=False).log_prob(ex.tensor(0.0)))
    assert d.Exponential(1.0, validate_args=False).log_prob(ex.tensor(-1.0)).item() == 1.0
    d.Distribution.set_default_validate_args(False)
    try:
        d.Normal(0.0, -1.0)
        with pytest.raises(NumericalError, match="Normal"):
            d.Normal(0.0, -1.0, validate_args=True)
    finally:
        d.Distribution.set_default_validate_args(True)
    with pytest.raises(DtypeError, match="expected True or False"):
        d.Distribution.set_default_validate_args("no")


def test_misuse_says_what_was_expected():
    with pytest.raises(DtypeError, match="Bernoulli: expected either probs or logits, got both"):
        d.Bernoulli(probs=0.5, logits=0.0)
    with pytest.raises(DtypeError, match="Categorical: expected either probs or logits, got neither"):
        d.Categorical()
    with pytest.raises(ShapeError, match="Categorical: expected probs of at least 1 dimension"):
        d.Categorical(probs=ex.tensor(1.0))
    with pytest.raises(DtypeError, match="exactly one of covariance_matrix, precision_matrix, scale_tril, got none"):
        d.MultivariateNormal(ex.zeros(2))
    with pytest.raises(ShapeError, match=r"covariance_matrix of shape \(..., 2, 2\)"):
        d.MultivariateNormal(ex.zeros(2), ex.eye(3))
    with pytest.raises(DtypeError, match=r"expected a sample shape such as \(5,\), got the int 5"):
        d.Normal(0.0, 1.0).sample(5)
    with pytest.raises(DtypeError, match="expected tensors or numbers, got str"):
        d.Normal("0", 1.0)
    with pytest.raises(DtypeError, match="one int for all of the batch"):
        d.Multinomial(ex.tensor(3), probs=ex.ones(2))
    with pytest.raises(ShapeError, match="Independent: expected reinterpreted_batch_ndims from 0 to 1"):
        d.Independent(d.Normal(ex.zeros(2), 1.0), 2)
    with pytest.raises(ShapeError, match="chooses among 3 components"):
        d.MixtureSameFamily(d.Categorical(ex.ones(3)), d.Normal(ex.zeros(2), 1.0))
    with pytest.raises(ShapeError, match="the latter must hold the former"):
        d.MixtureSameFamily(d.Categorical(ex.ones(4, 2)), d.Normal(ex.zeros(3, 2), 1.0))
    with pytest.raises(DtypeError, match="expected a Categorical"):
        d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(ex.zeros(2), 1.0))
    with pytest.raises(UnsupportedError, match="Poisson: entropy is not defined"):
        d.Poisson(1.0).entropy()
    with pytest.raises(UnsupportedError, match="one total_count"):
        d.Binomial(ex.tensor([1.0, 2.0]), probs=0.5).enumerate_support()
    with pytest.raises(AttributeError, match="GeneralizedPareto: not there; use Pareto"):
        d.GeneralizedPareto(0.0, 1.0, 0.5)


def test_numbers_and_lists_are_values_too():
    assert d.Normal(0.0, 1.0).log_prob(0).item() == pytest.approx(-0.9189385)
    assert d.Categorical(probs=ex.tensor([0.25, 0.75])).log_prob(1).exp().item() == pytest.approx(0.75)
    assert d.Bernoulli(probs=0.25).log_prob([0, 1]).exp().tolist() == pytest.approx([0.75, 0.25])


def test_the_dtype_of_the_parameters_is_that_of_the_draws():
    for dtype in (ex.float32, ex.float64):
        one = ex.tensor(1.5, dtype=dtype)
        for made in (d.Normal(0, one), d.Gamma(one, 2), d.Laplace(one, one), d.Poisson(one), d.VonMises(one, 1.0)):
            assert made.sample((2,)).dtype is dtype
            assert made.log_prob(made.sample((2,))).dtype is dtype
    assert d.Categorical(probs=ex.ones(3)).sample().dtype is ex.int64


@EACH
def test_expanded_copies_and_pickles_behave_as_the_original(name, arguments):
    distribution, _ = build_here(name, arguments, requires_grad=False)
    value = distribution.sample()
    expected = distribution.log_prob(value)
    wide = distribution.expand((2, *distribution.batch_shape))
    assert type(wide) is type(distribution)
    assert wide.batch_shape == (2, *distribution.batch_shape)
    assert wide.sample().shape == (2, *value.shape)
    ex.testing.assert_close(wide.log_prob(value), expected.expand((2, *expected.shape)))
    ex.testing.assert_close(copy.deepcopy(distribution).log_prob(value), expected)
    ex.testing.assert_close(pickle.loads(pickle.dumps(distribution)).log_prob(value), expected)


@EACH
def test_every_distribution_has_a_readable_repr(name, arguments):
    distribution, _ = build_here(name, arguments)
    assert repr(distribution).startswith(name + "(")


def test_repr_shows_single_parameters_and_the_shape_of_others():
    assert repr(d.Normal(0.0, 2.0)) == "Normal(loc: 0.0, scale: 2.0)"
    assert repr(d.Normal(ex.zeros(3), 2.0)) == "Normal(loc: (3,), scale: (3,))"
    assert repr(d.Bernoulli(logits=0.0)) == "Bernoulli(logits: 0.0)"


def test_an_empty_sample_shape_and_empty_batches_are_drawn():
    assert d.Categorical(probs=ex.ones(3)).sample((0,)).shape == (0,)
    assert d.Normal(ex.zeros(0), 1.0).sample((2,)).shape == (2, 0)
    assert d.Gamma(ex.ones(0), 1.0).rsample().shape == (0,)


def test_a_users_subclass_expands_and_validates_without_code_of_its_own():
    class Shifted(d.Distribution):
        arg_constraints = {"shift": d.constraints.positive}  # noqa: RUF012 # as users write it
        support = d.constraints.real

        def __init__(self, shift, validate_args=None):
            self.shift = shift
            super().__init__(shift.shape, validate_args=validate_args)

        def rsample(self, sample_shape=()):
            return ex.zeros(self._extended_shape(sample_shape)) + self.shift

    shifted = Shifted(ex.ones(3)).expand((2, 3))
    assert shifted.sample((4,)).shape == (4, 2, 3)
    with pytest.raises(NumericalError, match="Shifted: expected parameter shift"):
        Shifted(-ex.ones(3))


def test_every_public_name_has_a_docstring_with_an_example():
    bare = [n for n in d.__all__ if callable(getattr(d, n)) and ">>>" not in (getattr(d, n).__doc__ or "")]
    assert bare == []
