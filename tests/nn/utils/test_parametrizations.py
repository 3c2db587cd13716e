"""The parametrizations that come with the library."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, ShapeError
from extempo.nn import utils
from extempo.nn.utils import parametrizations


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
    with pytest.raises(ArgumentError, match="no tensor"):
        parametrizations.spectral_norm(nn.Linear(2, 2), "scale")
