"""Convolution and pooling of ragged tensors are those of each row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError
from extempo.nn import functional as F

from .looped import FEW, LENGTHS, check_rows, leaf, ragged_leaf


@FEW
@given(
    st.lists(st.integers(5, 9), max_size=4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(1, 2),
    st.sampled_from([1, 2]),
)
def test_conv1d_is_that_of_each_row(lengths, width, stride, padding, dilation, groups):
    def conv(x, weight, bias):
        return F.conv1d(x, weight, bias, stride, padding, dilation, groups)

    check_rows(conv, ragged_leaf(lengths, 4, dim=2), leaf(6, 4 // groups, width), leaf(6, seed=3))


@FEW
@given(LENGTHS)
def test_padding_that_keeps_lengths(lengths):
    def conv(x, weight):
        return F.conv1d(x, weight, padding="same", dilation=2)

    x, weight = ragged_leaf(lengths, 4, dim=2), leaf(3, 4, 3)
    y = check_rows(conv, x, weight, of_row=lambda i, r, w: conv(r, w) if r.shape[1] else r.new_zeros(3, 0))
    assert y.lengths().tolist() == lengths


def test_an_empty_row_stays_one_unless_padding_makes_a_window():
    x, weight, bias = ragged_leaf([0, 2], 4, dim=2), leaf(3, 4, 3), leaf(3)
    assert F.conv1d(x, weight, bias, padding=1).lengths().tolist() == [0, 2]
    y = check_rows(lambda *given: F.conv1d(*given, padding=2), x, weight, bias)
    assert y.lengths().tolist() == [2, 4]


def test_a_row_that_is_too_short_is_named():
    with pytest.raises(ShapeError, match=r"row 1 of length 2.*x.lengths\(\) >= 3"):
        F.conv1d(ragged_leaf([4, 2], 4, dim=2), leaf(3, 4, 3))
    with pytest.raises(ShapeError, match="row 1"):
        F.max_pool1d(ragged_leaf([4, 2], 4, dim=2), 3)


def test_channels_come_before_the_rows_elements():
    with pytest.raises(ShapeError, match=r"x.transpose\(1, 2\)"):
        F.conv1d(ragged_leaf([4, 2], 4), leaf(3, 4, 3))
    with pytest.raises(ShapeError, match="channels"):
        F.conv1d(ragged_leaf([4, 2], 4, dim=2), leaf(3, 5, 1))


def test_infinite_values_of_one_row_stay_there():
    x = ex.ragged([ex.full((1, 2), float("inf")), ex.ones(1, 3)], dim=2)
    y = F.conv1d(x, ex.ones(1, 1, 3), padding=1)
    assert y[1].tolist() == [[2.0, 3.0, 2.0]]


def test_conv1d_multiplies_nothing_but_windows(monkeypatch):
    from extempo import ops
    from extempo.ragged_tensors import convolution

    seen = []
    real = ops.linear
    monkeypatch.setattr(convolution.ops, "linear", lambda x, w, b: seen.append((x.shape, w.shape)) or real(x, w, b))
    F.conv1d(ragged_leaf([4, 0, 7], 4, dim=2), leaf(3, 4, 3))
    assert seen == [((2 + 0 + 5, 12), (3, 12))]


@FEW
@given(LENGTHS)
def test_transposed_convolution(lengths):
    def conv(x, weight):
        return F.conv_transpose1d(x, weight, stride=2)

    x = ragged_leaf(lengths, 4, dim=2)
    check_rows(conv, x, leaf(4, 3, 2), of_row=lambda i, r, w: conv(r, w) if r.shape[1] else r.new_zeros(3, 0))


POOLS = {
    "max": lambda x: F.max_pool1d(x, 2),
    "max places": lambda x: F.max_pool1d(x, 2, stride=1, return_indices=True)[1],
    "mean": lambda x: F.avg_pool1d(x, 3, 2, padding=1, count_include_pad=False),
    "norm": lambda x: F.lp_pool1d(x, 2.0, 2, ceil_mode=True),
}


@pytest.mark.parametrize("name", POOLS)
@FEW
@given(lengths=st.lists(st.sampled_from([0, 2, 3, 4, 7]), max_size=4))
def test_pooling_along_rows(name, lengths):
    pool = POOLS[name]
    kind = ex.int64 if name == "max places" else ex.float64
    x = ragged_leaf(lengths, 3, dim=2)
    check_rows(pool, x, of_row=lambda i, r: pool(r) if r.shape[1] else ex.zeros(3, 0, dtype=kind))


@pytest.mark.parametrize("pool", [F.adaptive_avg_pool1d, F.adaptive_max_pool1d])
@pytest.mark.parametrize("lengths", [[3, 5, 2], [1], []])
def test_adaptive_pooling_makes_rows_equal(pool, lengths):
    y = check_rows(lambda x: pool(x, 2), ragged_leaf(lengths, 3, dim=2))
    assert y.shape == (len(lengths), 3, 2)
    assert pool(ragged_leaf(lengths, 3, dim=2), None).lengths().tolist() == lengths


def test_images_of_different_width():
    x = ragged_leaf([5, 4, 7], 2, 6, dim=3)  # (B, channels, height, *)
    check_rows(lambda x, w: F.conv2d(x, w, padding=1), x, leaf(3, 2, 3, 3), of_row=None)
    check_rows(lambda x: F.max_pool2d(x, 2), x)
    assert F.conv2d(x[:0], leaf(3, 2, 3, 3)).shape[:3] == (0, 3, 4)


def test_a_convolutional_stack_with_an_empty_row():
    model = nn.Sequential(
        nn.Conv1d(4, 6, 3, padding=1), nn.BatchNorm1d(6), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(6, 2, 1)
    )  # fmt: skip
    y = model(ex.ragged([ex.randn(4, length) for length in (6, 0, 3)], dim=2))
    assert y.lengths().tolist() == [3, 0, 1]
    assert y.shape[1] == 2
