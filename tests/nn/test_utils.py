"""nn.utils: clipping, parameters as a vector, normalised weights, parametrizations."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError, NumericalError, ShapeError
from extempo.nn import utils
from extempo.nn.utils import parametrizations, parametrize


def with_gradients(*gradients: list[float]) -> list[nn.Parameter]:
    parameters = [nn.Parameter(ex.zeros(len(g))) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = ex.tensor(g)
    return [*parameters, nn.Parameter(ex.zeros(1))]


# ---- clipping


def test_gradients_are_scaled_down_but_never_up():
    ps = with_gradients([3.0], [0.0, 4.0])
    assert utils.clip_grad_norm_(iter(ps), 1.0).item() == 5.0
    assert ps[0].grad.item() == pytest.approx(0.6, rel=1e-5)
    assert utils.clip_grad_norm_(ps, 100.0).item() == pytest.approx(1.0, rel=1e-5)
    assert ps[1].grad[1].item() == pytest.approx(0.8, rel=1e-5)
    assert ps[2].grad is None
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    assert utils.clip_grad_norm_(ps[0], 0.1, norm_type=math.inf, foreach=True).item() == pytest.approx(0.6, rel=1e-5)


def test_a_norm_that_is_not_finite_can_be_an_error():
    ps = with_gradients([math.inf])
    with pytest.raises(NumericalError, match="inf"):
        utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)
    assert ps[0].grad.item() == math.inf
    assert utils.clip_grad_norm_(ps, 1.0).item() == math.inf


def test_values_are_clipped_in_place():
    ps = with_gradients([3.0, -3.0, 0.5])
    gradient = ps[0].grad
    utils.clip_grad_value_(ps, 1)
    assert gradient.tolist() == [1.0, -1.0, 0.5]
    assert ps[0].grad is gradient


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf, 0.0])
def test_clipping_equals_pytorch(norm_type):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    values = [rng.normal(size=s).astype(np.float32) for s in ((3, 4), (5,), ())]
    ours = [nn.Parameter(ex.zeros(v.shape)) for v in values]
    theirs = [torch.nn.Parameter(torch.zeros(v.shape)) for v in values]
    for p, q, v in zip(ours, theirs, values, strict=True):
        p.grad, q.grad = ex.tensor(v), torch.tensor(v)
    a = utils.clip_grad_norm_(ours, 1.5, norm_type)
    b = torch.nn.utils.clip_grad_norm_(theirs, 1.5, norm_type)
    assert a.item() == pytest.approx(b.item(), rel=1e-6)
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-6)


# ---- one vector


def test_parameters_become_a_vector_and_take_values_from_one():
    net = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    (vector * 2).sum().backward()
    assert net.weight.grad.tolist() == [[2.0, 2.0]] * 3
    weight = net.weight
    utils.vector_to_parameters(ex.arange(9.0), net.parameters())
    assert net.weight is weight
    assert net.weight.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert net.bias.tolist() == [6.0, 7.0, 8.0]
    assert weight.requires_grad
    for wrong in (ex.arange(8.0), ex.zeros(3, 3)):
        with pytest.raises(ShapeError, match="9 elements"):
            utils.vector_to_parameters(wrong, net.parameters())
    with pytest.raises(DtypeError):
        utils.vector_to_parameters([1.0], net.parameters())
    with pytest.raises(ShapeError, match="at least one"):
        utils.parameters_to_vector([])


# ---- normalised weights by hooks


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_keeps_the_function_and_trains_both_parts(dim):
    net = nn.Linear(3, 4)
    x = ex.rand(2, 3)
    before, weight = net(x), net.weight.tolist()
    assert utils.weight_norm(net, dim=dim) is net
    assert ex.allclose(net(x), before, atol=1e-6)
    assert [name for name, _ in net.named_parameters()] == ["bias", "weight_g", "weight_v"]
    net(x).sum().backward()
    assert net.weight_g.grad is not None
    assert net.weight_v.grad is not None
    with ex.no_grad():
        net.weight_g.mul_(2.0)
    assert ex.allclose(net(x) - net.bias, 2 * (before - net.bias), atol=1e-5)
    utils.remove_weight_norm(net)
    np.testing.assert_allclose(net.weight.tolist(), 2 * np.array(weight), rtol=1e-5)
    assert sorted(name for name, _ in net.named_parameters()) == ["bias", "weight"]
    assert net(x).requires_grad


def test_normalised_modules_copy_and_pickle_after_a_forward():
    for make in (utils.weight_norm, utils.spectral_norm, parametrizations.weight_norm, parametrizations.spectral_norm):
        net = make(nn.Linear(3, 4)).eval()
        x = ex.rand(2, 3)
        expected = net(x)
        for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            assert ex.equal(other(x), expected)
            assert list(other.state_dict()) == list(net.state_dict())
            other.zero_grad()
            other(x).sum().backward()
            assert all(p.grad is not None for p in other.parameters())


def test_spectral_norm_brings_the_largest_singular_value_to_one():
    ex.manual_seed(0)
    net = utils.spectral_norm(nn.Linear(5, 4), n_power_iterations=50)
    with ex.no_grad():
        net(ex.rand(1, 5))
    assert ex.linalg.matrix_norm(net.weight, 2).item() == pytest.approx(1.0, rel=1e-3)
    net.eval()
    u = net.weight_u.clone()
    net(ex.rand(1, 5)).sum().backward()
    assert ex.equal(net.weight_u, u)
    net.train()
    # Two forwards before one backward, as in training against an adversary.
    (net(ex.rand(1, 5)) - net(ex.rand(1, 5))).sum().backward()
    assert net.weight_orig.grad is not None
    utils.remove_spectral_norm(net)
    assert sorted(net.state_dict()) == ["bias", "weight"]


def test_normalising_twice_or_what_is_not_there_is_an_error():
    for apply, remove in (
        (utils.weight_norm, utils.remove_weight_norm),
        (utils.spectral_norm, utils.remove_spectral_norm),
    ):
        with pytest.raises(ShapeError, match="no parameter 'scale'"):
            apply(nn.Linear(2, 2), "scale")
        with pytest.raises(ShapeError, match="not applied"):
            remove(nn.Linear(2, 2))
        with pytest.raises(ShapeError, match="already"):
            apply(apply(nn.Linear(2, 2)))
    with pytest.raises(DtypeError, match="positive"):
        utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_normalised_weights_equal_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    makers = [
        (utils.weight_norm, torch.nn.utils.weight_norm, {}),
        (utils.weight_norm, torch.nn.utils.weight_norm, {"dim": None}),
        (utils.weight_norm, torch.nn.utils.weight_norm, {"dim": 1}),
        (utils.spectral_norm, torch.nn.utils.spectral_norm, {"n_power_iterations": 2}),
        (parametrizations.weight_norm, torch.nn.utils.parametrizations.weight_norm, {}),
        (parametrizations.spectral_norm, torch.nn.utils.parametrizations.spectral_norm, {}),
    ]
    rng = np.random.default_rng(0)
    layers = (
        ("Conv2d", (2, 3, 3), (4, 2, 5, 5)),
        ("ConvTranspose2d", (2, 3, 3), (4, 2, 5, 5)),
        ("Linear", (3, 4), (2, 3)),
    )
    for ours_by, theirs_by, options in makers:
        for kind, sizes, shape in layers:
            ours = ours_by(getattr(nn, kind)(*sizes), **options)
            theirs = theirs_by(getattr(torch.nn, kind)(*sizes), **options)
            assert set(ours.state_dict()) == set(theirs.state_dict())
            ours.load_state_dict(theirs.state_dict())
            x = rng.normal(size=shape).astype(np.float32)
            for _ in range(2):
                a, b = ours(ex.tensor(x)), theirs(torch.tensor(x))
                np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
            a.square().sum().backward()
            b.square().sum().backward()
            expected = dict(theirs.named_parameters())
            for name, p in ours.named_parameters():
                np.testing.assert_allclose(p.grad.numpy(), expected[name].grad.numpy(), rtol=1e-3, atol=1e-4)


# ---- parametrizations


class Symmetric(nn.Module):
    def forward(self, x: ex.Tensor) -> ex.Tensor:
        return x.triu() + x.triu(1).T


class Double(nn.Module):
    def forward(self, x: ex.Tensor) -> ex.Tensor:
        return 2 * x

    def right_inverse(self, x: ex.Tensor) -> ex.Tensor:
        return x / 2


class Cut(nn.Module):
    def forward(self, x: ex.Tensor) -> ex.Tensor:
        return x[:1]


def test_a_parametrized_tensor_is_computed_when_it_is_read():
    net = nn.Linear(3, 3)
    original = net.weight
    parametrize.register_parametrization(net, "weight", Symmetric())
    assert parametrize.is_parametrized(net)
    assert parametrize.is_parametrized(net, "weight")
    assert not parametrize.is_parametrized(net, "bias")
    assert ex.equal(net.weight, net.weight.T)
    assert list(net.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert net.parametrizations.weight.original is original
    net(ex.rand(2, 3)).sum().backward()
    assert original.grad is not None
    assert type(net) is parametrize.type_before_parametrizations(net) is nn.Linear
    before = net.weight.tolist()
    parametrize.remove_parametrizations(net, "weight")
    assert net.weight is original
    assert net.weight.tolist() == before
    assert list(net.state_dict()) == ["bias", "weight"]


def test_parametrizations_are_chained_and_assignment_goes_through_them():
    net = nn.Linear(2, 2)
    weight = net.weight.detach().clone()
    parametrize.register_parametrization(net, "weight", Double())
    assert ex.equal(net.weight, weight)
    parametrize.register_parametrization(net, "weight", Double())
    assert ex.equal(net.weight, weight)
    assert ex.equal(net.parametrizations.weight.original, weight / 4)
    net.weight = ex.ones(2, 2)
    assert net.parametrizations.weight.original.tolist() == [[0.25] * 2] * 2
    assert net.weight.tolist() == [[1.0] * 2] * 2
    with pytest.raises(ShapeError):
        net.weight = ex.ones(3, 3)
    parametrize.remove_parametrizations(net, "weight", leave_parametrized=False)
    assert net.weight.tolist() == [[0.25] * 2] * 2


def test_a_cached_block_computes_once():
    net = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Double())
    assert net.weight is not net.weight
    with parametrize.cached():
        kept = net.weight
        with parametrize.cached():
            assert net.weight is kept
        assert net.weight is kept
    assert net.weight is not kept


def test_buffers_can_be_parametrized():
    net = nn.Module()
    net.register_buffer("mean", ex.ones(2))
    parametrize.register_parametrization(net, "mean", Double())
    assert net.mean.tolist() == [1.0, 1.0]
    assert list(net.parameters()) == []
    parametrize.remove_parametrizations(net, "mean")
    assert net.get_buffer("mean").tolist() == [1.0, 1.0]


def test_a_parametrization_that_changes_the_shape_is_refused_and_leaves_no_trace():
    net = nn.Linear(2, 2)
    weight = net.weight.tolist()
    with pytest.raises(ShapeError, match="unsafe=True"):
        parametrize.register_parametrization(net, "weight", Cut())
    assert net.weight.tolist() == weight
    assert not parametrize.is_parametrized(net)
    parametrize.register_parametrization(net, "weight", Double())
    with pytest.raises(ShapeError, match="unsafe=True"):
        parametrize.register_parametrization(net, "weight", Cut())
    assert net.weight.tolist() == weight
    parametrize.register_parametrization(nn.Linear(2, 2), "weight", Cut(), unsafe=True)
    for wrong, kind in ((Double, DtypeError), (Double(), ShapeError)):
        with pytest.raises(kind):
            parametrize.register_parametrization(nn.Linear(2, 2), "nothing", wrong)
    with pytest.raises(ShapeError, match="not parametrized"):
        parametrize.remove_parametrizations(nn.Linear(2, 2), "weight")
    with pytest.raises(ShapeError, match="no original"):
        parametrize.remove_parametrizations(parametrizations.weight_norm(nn.Linear(2, 2)), "weight", False)


def test_a_state_of_the_older_weight_norm_can_be_loaded():
    older, newer = utils.weight_norm(nn.Linear(2, 3)), parametrizations.weight_norm(nn.Linear(2, 3))
    newer.load_state_dict(older.state_dict())
    x = ex.rand(4, 2)
    assert ex.equal(older(x), newer(x))
    within = nn.Sequential(parametrizations.weight_norm(nn.Linear(2, 3)))
    within.load_state_dict(nn.Sequential(older).state_dict())
    assert ex.equal(within(x), older(x))


def test_spectral_norm_as_parametrization():
    ex.manual_seed(0)
    net = parametrizations.spectral_norm(nn.Linear(5, 4), n_power_iterations=50)
    with ex.no_grad():
        assert ex.linalg.matrix_norm(net.weight, 2).item() == pytest.approx(1.0, rel=1e-3)
    assert parametrizations.spectral_norm(nn.Linear(5, 4), "bias").bias.norm().item() == pytest.approx(1.0)
    with pytest.raises(ShapeError, match="dim 3"):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=3)
    with pytest.raises(ShapeError, match="no tensor"):
        parametrizations.spectral_norm(nn.Linear(2, 2), "scale")
