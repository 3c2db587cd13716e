"""Every distribution against PyTorch's of the same name: shapes, moments, log_prob, cdf, entropy, kl, and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
import extempo.distributions as d

from .cases import CASES, build, names

torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")

pytestmark = [
    pytest.mark.conformance,
    # PyTorch's Wishart says so of every matrix that is not.
    pytest.mark.filterwarnings("ignore:Singular sample detected"),
]

EACH = pytest.mark.parametrize(("name", "arguments"), CASES, ids=names())
TOLERANCE = {"rtol": 1e-9, "atol": 1e-11}
LOOSER = {
    "VonMises": {"rtol": 1e-5},  # PyTorch's Bessel functions are polynomials good to 1e-7
    "Multinomial": {"rtol": 1e-7},  # PyTorch's entropy goes through float32
}
BETTER_HERE = {
    ("Kumaraswamy", "mode"): "PyTorch's is NaN wherever the mode exists",
    ("ContinuousBernoulli", "cdf"): "PyTorch's is the identity near 1/2, so that a draw has no gradient there",
    ("Weibull", "mode"): "PyTorch's is NaN where the mode is 0",
}


def same(ours, theirs, **tolerance):
    theirs = theirs.detach().numpy()
    assert tuple(ours.shape) == theirs.shape
    np.testing.assert_allclose(ours.detach().numpy(), theirs, **{**TOLERANCE, **tolerance})


def ask(distribution, what, *args):
    """An attribute or the result of a method; None where the library does not have it."""
    try:
        found = getattr(distribution, what)
        return found(*args) if callable(found) else found
    except (NotImplementedError, AttributeError):
        return None


def gradients(library, result, leaves):
    if not result.requires_grad:
        return [None for _ in leaves]
    weights = library.linspace(0.5, 1.5, result.numel(), dtype=library.float64).reshape(result.shape)
    return library.autograd.grad((result * weights).sum(), leaves, allow_unused=True, retain_graph=True)


def same_with_gradients(ours, our_leaves, theirs, their_leaves, **tolerance):
    same(ours, theirs, **tolerance)
    tolerance = {"rtol": 1e-8, "atol": 1e-10, **tolerance}
    ours_grad = gradients(ex, ours, our_leaves)
    theirs_grad = gradients(torch, theirs, their_leaves)
    for a, b in zip(ours_grad, theirs_grad, strict=True):
        zero_a, zero_b = (g is None or not g.any() for g in (a, b))
        if zero_a or zero_b:
            assert zero_a == zero_b
        else:
            same(a, b, **tolerance)


def value_of(theirs):
    """Draws of PyTorch's, as a tensor of each library."""
    torch.manual_seed(0)
    drawn = theirs.sample((4,)).detach()
    return ex.tensor(drawn.numpy()), drawn


@EACH
def test_shapes_moments_and_support_are_pytorchs(name, arguments):
    ours, _ = build(ex, name, arguments)
    theirs, _ = build(torch, name, arguments)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert ours.has_rsample == theirs.has_rsample
    assert ours.has_enumerate_support == theirs.has_enumerate_support
    assert ours.support.is_discrete == theirs.support.is_discrete
    assert ours.support.event_dim == theirs.support.event_dim
    assert set(ours.arg_constraints) == set(theirs.arg_constraints)
    for what in ("mean", "mode", "variance", "stddev", "logits", "probs"):
        expected = ask(theirs, what)
        if expected is not None and (name, what) not in BETTER_HERE:
            same(ask(ours, what), expected, **LOOSER.get(name, {}))
    if ours.has_enumerate_support:
        for expand in (True, False):
            same(ours.enumerate_support(expand), theirs.enumerate_support(expand))


@EACH
def test_log_prob_and_its_gradients_are_pytorchs(name, arguments):
    ours, our_leaves = build(ex, name, arguments)
    theirs, their_leaves = build(torch, name, arguments)
    our_value, their_value = value_of(theirs)
    if their_value.is_floating_point() and not theirs.support.is_discrete:
        our_leaves, their_leaves = (
            [*our_leaves, our_value.requires_grad_()],
            [*their_leaves, their_value.requires_grad_()],
        )
    ours, theirs = ours.log_prob(our_value), theirs.log_prob(their_value)
    same_with_gradients(ours, our_leaves, theirs, their_leaves, **LOOSER.get(name, {}))


@EACH
def test_entropy_and_its_gradients_are_pytorchs(name, arguments):
    ours, our_leaves = build(ex, name, arguments)
    theirs, their_leaves = build(torch, name, arguments)
    expected = ask(theirs, "entropy")
    if expected is None:
        pytest.skip("PyTorch has no entropy of it")
    tolerance = LOOSER.get(name, {})
    same_with_gradients(ours.entropy(), our_leaves, expected, their_leaves, **tolerance)
    same(ours.perplexity(), theirs.perplexity(), **tolerance)


@EACH
def test_cdf_and_icdf_are_pytorchs(name, arguments):
    ours, our_leaves = build(ex, name, arguments)
    theirs, their_leaves = build(torch, name, arguments)
    our_value, their_value = value_of(theirs)
    expected = ask(theirs, "cdf", their_value)
    if expected is None:
        pytest.skip("PyTorch has no cdf of it")
    if (name, "cdf") in BETTER_HERE:
        pytest.skip(BETTER_HERE[name, "cdf"])
    if name in ("Gamma", "Chi2", "InverseGamma"):  # no gradient to the concentration, here and there
        same(ours.cdf(our_value), expected)
    else:
        same_with_gradients(ours.cdf(our_value), our_leaves, expected, their_leaves)
    levels = np.linspace(0.05, 0.95, 6).reshape((6, *(1 for _ in theirs.batch_shape)))
    expected = ask(theirs, "icdf", torch.tensor(levels))
    if expected is not None:
        same_with_gradients(ours.icdf(ex.tensor(levels)), our_leaves, expected, their_leaves)


@EACH
def test_expanding_gives_what_pytorch_gives(name, arguments):
    ours, _ = build(ex, name, arguments)
    theirs, _ = build(torch, name, arguments)
    shape = (2, *theirs.batch_shape)
    ours, theirs = ours.expand(shape), theirs.expand(shape)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    our_value, their_value = value_of(theirs)
    assert ours.sample((3,)).shape == theirs.sample((3,)).shape
    same(ours.log_prob(our_value), theirs.log_prob(their_value), **LOOSER.get(name, {}))


# PyTorch's Kumaraswamy is compared with its equals only, where the divergence is 0.
COMPARED = [i for i, (name, _) in enumerate(CASES) if name != "Kumaraswamy"]
PAIRS = [(p, q) for p in COMPARED for q in COMPARED]


def test_every_divergence_that_pytorch_knows_is_the_same():
    compared = 0
    for i, j in PAIRS:
        if CASES[i][0] == "Wishart":  # PyTorch's is not what the mean over draws is: see test_wishart.py
            continue
        p, q = build(torch, *CASES[i]), build(torch, *CASES[j])
        try:
            expected = torch.distributions.kl_divergence(p[0], q[0])
        except (NotImplementedError, RuntimeError):  # no formula, or shapes that do not broadcast
            continue
        our_p, our_q = build(ex, *CASES[i]), build(ex, *CASES[j])
        ours = d.kl_divergence(our_p[0], our_q[0])
        compared += 1
        try:
            same(ours, expected, rtol=1e-8, atol=1e-9)
            finite = torch.isfinite(expected).all()
            if finite:
                theirs_grad = gradients(torch, expected, [*p[1], *q[1]])
                ours_grad = gradients(ex, ours, [*our_p[1], *our_q[1]])
                for a, b in zip(ours_grad, theirs_grad, strict=True):
                    if b is not None and b.any():
                        same(a, b, rtol=1e-7, atol=1e-8)
        except AssertionError as error:
            raise AssertionError(f"kl_divergence of {names()[i]} and {names()[j]}: {error}") from error
    assert compared > 150


@pytest.mark.parametrize("concentration", [0.05, 0.7, 1.0, 4.0, 60.0])
def test_gamma_draws_have_pytorchs_gradient(concentration):
    """To the accuracy of PyTorch's own approximation."""
    shape = ex.full((200,), concentration, dtype=ex.float64, requires_grad=True)
    drawn = d.Gamma(shape, 1.0).rsample()
    drawn.sum().backward()
    expected = torch._standard_gamma_grad(torch.tensor(shape.detach().numpy()), torch.tensor(drawn.detach().numpy()))
    np.testing.assert_allclose(shape.grad.numpy(), expected.numpy(), rtol=2e-3)


TRANSFORMS = [
    (lambda t, c: t.AbsTransform(), (3,)),
    (lambda t, c: t.AffineTransform(c(0.5), c(-2.0)), (3,)),
    (lambda t, c: t.AffineTransform(c([0.5, 1.0]), 3.0, event_dim=1), (3, 2)),
    (lambda t, c: t.CatTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0)], dim=-1, lengths=[1, 2]), (4, 3)),
    (lambda t, c: t.ComposeTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0), t.PowerTransform(c(2.0))]), (3,)),
    (lambda t, c: t.ComposeTransform([t.StickBreakingTransform(), t.AffineTransform(1.0, 2.0)]), (4, 3)),
    (lambda t, c: t.CorrCholeskyTransform(), (2, 6)),
    (lambda t, c: t.ExpTransform(), (3,)),
    (lambda t, c: t.IndependentTransform(t.ExpTransform(), 1), (4, 3)),
    (lambda t, c: t.LowerCholeskyTransform(), (2, 3, 3)),
    (lambda t, c: t.PositiveDefiniteTransform(), (2, 3, 3)),
    (lambda t, c: t.ReshapeTransform((2, 3), (6,)), (4, 2, 3)),
    (lambda t, c: t.SigmoidTransform(), (3,)),
    (lambda t, c: t.SoftmaxTransform(), (4, 3)),
    (lambda t, c: t.SoftplusTransform(), (3,)),
    (lambda t, c: t.StackTransform([t.ExpTransform(), t.TanhTransform()], dim=1), (4, 2)),
    (lambda t, c: t.StickBreakingTransform(), (4, 3)),
    (lambda t, c: t.TanhTransform(), (3,)),
]


@pytest.mark.parametrize(("make", "shape"), TRANSFORMS)
def test_transforms_are_pytorchs(make, shape):
    ours = make(d.transforms, lambda x: ex.tensor(x, dtype=ex.float64))
    theirs = make(torch.distributions.transforms, lambda x: torch.tensor(x, dtype=torch.float64))
    x = np.random.default_rng(0).normal(size=shape)
    our_x, their_x = ex.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    our_y, their_y = ours(our_x), theirs(their_x)
    same_with_gradients(our_y, [our_x], their_y, [their_x])
    same(ours.inv(our_y), theirs.inv(their_y))
    assert ours.bijective == theirs.bijective
    assert ours.domain.event_dim == theirs.domain.event_dim
    assert ours.codomain.event_dim == theirs.codomain.event_dim
    assert tuple(ours.forward_shape(shape)) == tuple(theirs.forward_shape(shape)) == tuple(our_y.shape)
    assert tuple(ours.inverse_shape(tuple(our_y.shape))) == shape
    if theirs.bijective:
        stretch = theirs.log_abs_det_jacobian(their_x, their_y)
        same_with_gradients(ours.log_abs_det_jacobian(our_x, our_y), [our_x], stretch, [their_x])


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize(
    "make",
    [
        lambda c: c.real,
        lambda c: c.real_vector,
        lambda c: c.positive,
        lambda c: c.nonnegative,
        lambda c: c.greater_than(2.0),
        lambda c: c.less_than(-1.0),
        lambda c: c.interval(-1.0, 3.0),
        lambda c: c.half_open_interval(-1.0, 3.0),
        lambda c: c.unit_interval,
        lambda c: c.simplex,
        lambda c: c.lower_cholesky,
        lambda c: c.corr_cholesky,
        lambda c: c.positive_definite,
        lambda c: c.independent(c.positive, 2),
        lambda c: c.cat([c.positive, c.real], -1, [1, 2]),
        lambda c: c.stack([c.positive, c.real, c.unit_interval], -1),
    ],
)
def test_registered_transforms_are_pytorchs(registry, make):
    ours, theirs = make(d.constraints), make(torch.distributions.constraints)
    x = np.random.default_rng(0).normal(size=(3, 3))
    try:
        expected = getattr(torch.distributions, registry)(theirs)(torch.tensor(x))
    except NotImplementedError:
        with pytest.raises(NotImplementedError, match="no transform leads to"):
            getattr(d, registry)(ours)
        return
    image = getattr(d, registry)(ours)(ex.tensor(x))
    same(image, expected)
    assert ours.check(image).all()


CONSTRAINED = [
    (lambda c: c.boolean, [0.0, 1.0, 2.0]),
    (lambda c: c.nonnegative_integer, [0.0, 1.5, -1.0]),
    (lambda c: c.positive_integer, [0.0, 1.0, 2.5]),
    (lambda c: c.integer_interval(0, 2), [0.0, 2.0, 3.0]),
    (lambda c: c.real, [0.0, float("inf"), float("nan")]),
    (lambda c: c.greater_than(1.0), [1.0, 2.0, 0.0]),
    (lambda c: c.greater_than_eq(1.0), [1.0, 2.0, 0.0]),
    (lambda c: c.less_than(1.0), [1.0, 2.0, 0.0]),
    (lambda c: c.half_open_interval(0.0, 1.0), [0.0, 1.0, 0.5]),
    (lambda c: c.simplex, [[0.5, 0.5], [0.5, 0.6], [-0.5, 1.5]]),
    (lambda c: c.one_hot, [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]),
    (lambda c: c.multinomial(3), [[1.0, 2.0], [3.0, 1.0], [-1.0, 2.0]]),
    (lambda c: c.square, [[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]]),
    (lambda c: c.symmetric, [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [3.0, 1.0]]]),
    (lambda c: c.positive_definite, [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]]),
    (lambda c: c.positive_semidefinite, [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]]),
    (lambda c: c.lower_triangular, [[[2.0, 0.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]]),
    (lambda c: c.lower_cholesky, [[[2.0, 0.0], [1.0, 2.0]], [[1.0, 0.0], [2.0, -1.0]]]),
    (lambda c: c.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]]),
    (lambda c: c.independent(c.positive, 1), [[1.0, 2.0], [-1.0, 2.0]]),
]


@pytest.mark.parametrize(("make", "values"), CONSTRAINED)
def test_constraints_are_pytorchs(make, values):
    ours, theirs = make(d.constraints), make(torch.distributions.constraints)
    same(ours.check(ex.tensor(values)), theirs.check(torch.tensor(values)))
    assert ours.is_discrete == theirs.is_discrete
    assert ours.event_dim == theirs.event_dim
