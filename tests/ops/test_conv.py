"""Convolutions against a definition in loops, their gradients against finite differences, their messages."""

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError
from extempo.nn import functional as F

from .helpers import normal


def test_an_input_without_batch_gives_a_result_without_batch():
    x, w = normal(3, 5, 5), normal(2, 3, 2, 2)
    assert ex.conv2d(x, w).shape == (2, 4, 4)
    np.testing.assert_array_equal(ex.conv2d(x, w).numpy(), ex.conv2d(x.unsqueeze(0), w)[0].numpy())


def test_an_empty_batch_gives_an_empty_result_and_zero_gradients():
    x, w = ex.zeros(0, 3, 5, 5, requires_grad=True), normal(2, 3, 2, 2).float().requires_grad_()
    y = ex.conv2d(x, w)
    assert y.shape == (0, 2, 4, 4)
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert not w.grad.numpy().any()


def test_a_result_is_contiguous_also_with_groups():
    assert ex.conv2d(normal(3, 4, 5, 5), normal(4, 2, 2, 2), groups=2).is_contiguous()
    assert ex.conv_transpose2d(normal(3, 4, 5, 5), normal(4, 2, 2, 2), stride=2, padding=1, groups=2).is_contiguous()


def test_a_transposed_view_convolves_like_its_copy():
    x, w = normal(5, 4, 3, 2).permute(3, 2, 1, 0), normal(2, 2, 3, 3).transpose(0, 1)
    w = normal(4, 3, 3, 3, seed=2).transpose(2, 3)
    np.testing.assert_array_equal(ex.conv2d(x, w).numpy(), ex.conv2d(x.contiguous(), w.contiguous()).numpy())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ex.conv2d(ex.ones(1, 3, 8, 8), ex.ones(4, 1, 3, 3)), "has 3 channels.*expects 1"),
        (lambda: ex.conv2d(ex.ones(2, 3, 8, 8), ex.ones(6, 1, 3, 3)), "did you mean groups=3"),
        (lambda: ex.conv2d(ex.ones(1, 8, 8, 3), ex.ones(4, 3, 3, 3)), "movedim"),
        (lambda: ex.conv2d(ex.ones(3, 2, 2), ex.ones(4, 3, 3, 3)), r"the kernel spans \(3, 3\).*\(2, 2\)"),
        (lambda: ex.conv1d(ex.ones(4), ex.ones(1, 1, 1)), "conv1d: expected 3 dimensions"),
        (lambda: ex.conv1d(ex.ones(1, 1, 4), ex.ones(1, 1)), "weight with 3 dimensions"),
        (lambda: ex.conv1d(ex.ones(1, 1, 4), ex.ones(2, 1, 1), ex.ones(3)), r"bias of shape \(2,\)"),
        (lambda: ex.conv1d(ex.ones(1, 1, 4), ex.ones(2, 1, 2), padding="same", stride=2), "needs stride 1"),
        (lambda: ex.conv1d(ex.ones(1, 1, 4), ex.ones(2, 1, 2), padding="full"), "'same' or 'valid'"),
        (lambda: ex.conv1d(ex.ones(1, 1, 4), ex.ones(2, 1, 2), stride=0), "stride must be at least 1"),
        (lambda: ex.conv1d(ex.ones(1, 2, 4), ex.ones(3, 1, 2), groups=2), "not a multiple of groups=2"),
        (lambda: ex.conv_transpose1d(ex.ones(1, 2, 4), ex.ones(2, 1, 2), output_padding=1), "output_padding"),
        (lambda: ex.conv_transpose1d(ex.ones(1, 2, 2), ex.ones(2, 1, 2), padding=3), "use less padding"),
    ],
)
def test_what_does_not_fit_is_said_before_the_kernel_runs(make, text):
    with pytest.raises(ShapeError, match=text):
        make()


def test_dtypes_must_agree():
    with pytest.raises(DtypeError, match=r"weight is extempo.float64"):
        ex.conv1d(ex.ones(1, 1, 4), ex.ones(1, 1, 2, dtype=ex.float64))
    with pytest.raises(DtypeError, match="bool"):
        ex.conv1d(ex.ones(1, 1, 4).bool(), ex.ones(1, 1, 2).bool())


@pytest.mark.parametrize("groups", [1.0, ex.tensor(1.0), "1", None])
def test_groups_must_be_an_int(groups):
    for convolve in (F.conv2d, F.conv_transpose2d):
        with pytest.raises(DtypeError, match="groups"):
            convolve(ex.ones(1, 2, 4, 4), ex.ones(2, 2, 1, 1), groups=groups)
