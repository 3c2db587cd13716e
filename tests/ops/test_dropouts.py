"""Dropout: what is kept, what is scaled, what shares its fate, and when nothing happens."""

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ArgumentError, ShapeError
from extempo.ops import dropouts


def test_dropout_zeroes_about_p_and_scales_the_rest():
    ex.manual_seed(0)
    y = dropouts.dropout(ex.ones(10_000), 0.25).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    assert (y == 0).mean() == pytest.approx(0.25, abs=0.02)


def test_the_gradient_passes_where_elements_were_kept():
    x = ex.ones(100, requires_grad=True)
    y = dropouts.dropout(x, 0.5)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


def test_nothing_is_drawn_in_evaluation_or_with_p_zero():
    x = ex.ones(3)
    assert dropouts.dropout(x, 0.5, training=False) is x
    assert dropouts.dropout(x, 0.0) is x
    assert dropouts.alpha_dropout(x) is x
    assert dropouts.dropout(x, 1.0).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (dropouts.dropout1d, (8, 40, 3)),
        (dropouts.dropout1d, (300, 3)),
        (dropouts.dropout2d, (8, 40, 3, 2)),
        (dropouts.dropout3d, (8, 40, 3, 2, 2)),
        (dropouts.dropout3d, (300, 3, 2, 2)),
    ],
)
def test_a_channel_is_dropped_as_a_whole(function, shape):
    spatial = {dropouts.dropout1d: 1, dropouts.dropout2d: 2, dropouts.dropout3d: 3}[function]
    y = function(ex.ones(shape), 0.5).numpy().reshape(-1, np.prod(shape[-spatial:]))
    assert (y == y[:, :1]).all()
    assert 0 < (y[:, 0] == 0).mean() < 1


def test_alpha_dropout_keeps_mean_and_variance():
    ex.manual_seed(0)
    for function in (dropouts.alpha_dropout, dropouts.feature_alpha_dropout):
        y = function(ex.randn(200, 500), 0.3, True)
        assert y.mean().item() == pytest.approx(0, abs=0.02)
        assert y.var().item() == pytest.approx(1, abs=0.05)


def test_in_place_dropout_writes_into_its_input():
    x = ex.ones(100)
    assert dropouts.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0.0, 2.0}
    y = ex.ones(50, 4)
    assert dropouts.dropout1d(y, 0.5, inplace=True) is y
    assert (y.numpy() == 0).any()


def test_native_dropout_gives_its_mask():
    y, mask = dropouts.native_dropout(ex.ones(100), 0.5, True)
    assert y.tolist() == (mask.float() * 2).tolist()


def test_probabilities_and_shapes_are_checked():
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        dropouts.dropout(ex.ones(3), 1.5)
    with pytest.raises(ShapeError, match="use dropout"):
        dropouts.dropout1d(ex.ones(3), 0.5)
    with pytest.raises(ShapeError, match="use dropout"):
        dropouts.feature_dropout(ex.ones(3), 0.5)
