"""Weight norm and spectral norm in their older form, as hooks."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, DtypeError
from extempo.nn import utils
from extempo.nn.utils import parametrizations


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
        with pytest.raises(ArgumentError, match="no parameter 'scale'"):
            apply(nn.Linear(2, 2), "scale")
        with pytest.raises(ArgumentError, match="not applied"):
            remove(nn.Linear(2, 2))
        with pytest.raises(ArgumentError, match="already"):
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
