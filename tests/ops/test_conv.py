"""Convolutions against a definition in loops, their gradients against finite differences, their messages."""

import itertools

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.numerical import gradcheck, gradgradcheck
from extempo.errors import DtypeError, ShapeError
from extempo.nn import functional as F


def by_definition(x, w, stride, padding, dilation, groups):
    """conv2d in loops over the output."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    outputs, channels, kh, kw = w.shape
    height = (x.shape[2] - dilation * (kh - 1) - 1) // stride + 1
    width = (x.shape[3] - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((x.shape[0], outputs, height, width))
    for o, i, j in itertools.product(range(outputs), range(height), range(width)):
        first = o // (outputs // groups) * channels
        rows = slice(i * stride, i * stride + dilation * (kh - 1) + 1, dilation)
        columns = slice(j * stride, j * stride + dilation * (kw - 1) + 1, dilation)
        y[:, o, i, j] = (x[:, first : first + channels, rows, columns] * w[o]).sum((1, 2, 3))
    return y


def normal(*shape, requires_grad=False, seed=0):
    return ex.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=requires_grad)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv2d_is_what_its_definition_says(stride, padding, dilation, groups):
    x, w = normal(2, 4, 7, 6), normal(8, 4 // groups, 3, 2, seed=1)
    y = ex.conv2d(x, w, None, stride, padding, dilation, groups)
    np.testing.assert_allclose(
        y.numpy(), by_definition(x.numpy(), w.numpy(), stride, padding, dilation, groups), atol=1e-12
    )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_transposed_convolution_is_the_adjoint_of_the_convolution(n):
    conv, transposed = getattr(ex, f"conv{n}d"), getattr(ex, f"conv_transpose{n}d")
    x, w = normal(2, 4, *(7, 5, 5)[:n]), normal(6, 2, *(3, 2, 1)[:n], seed=1)
    y = conv(x, w, stride=2, padding=1, groups=2)
    z = normal(*y.shape, seed=2)
    missing = [
        a - b for a, b in zip(x.shape[2:], transposed(z, w, stride=2, padding=1, groups=2).shape[2:], strict=True)
    ]
    back = transposed(z, w, stride=2, padding=1, groups=2, output_padding=missing)
    assert (y * z).sum().item() == pytest.approx((x * back).sum().item())


@pytest.mark.parametrize(
    ("function", "shape", "options"),
    [
        (ex.conv1d, (4, 1, 3), {"padding": "same", "groups": 2}),
        (ex.conv1d, (2, 2, 3), {"stride": 2, "dilation": 2, "padding": 3}),
        (ex.conv_transpose1d, (2, 3, 3), {"stride": 3, "output_padding": 1, "padding": 1}),
        (ex.conv_transpose1d, (2, 2, 2), {"groups": 2, "dilation": 2}),
    ],
)
def test_gradients_of_first_and_second_order_are_right(function, shape, options):
    x, w = normal(2, 2, 5, requires_grad=True), normal(*shape, requires_grad=True, seed=1)
    assert gradcheck(lambda x, w: function(x, w, **options), (x, w))
    assert gradgradcheck(lambda x, w: function(x, w, **options), (x, w))


def test_many_channels_and_few_outputs_take_the_other_road_to_the_same_numbers():
    x, w = normal(2, 16, 6, 6), normal(2, 16, 3, 3, seed=1)
    np.testing.assert_allclose(ex.conv2d(x, w).numpy(), by_definition(x.numpy(), w.numpy(), 1, 0, 1, 1), atol=1e-12)


def test_a_large_batch_is_cut_into_parts_without_a_seam():
    x, w = normal(70, 8, 20, 20), normal(4, 8, 3, 3, seed=1)
    whole = ex.conv2d(x, w)
    np.testing.assert_allclose(whole[33:35].numpy(), ex.conv2d(x[33:35], w).numpy(), atol=1e-12)


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


def test_half_precision_adds_up_in_float32():
    x = ex.ones(1, 4096, 1, dtype=ex.float16)
    assert ex.conv1d(x, ex.ones(1, 4096, 1, dtype=ex.float16)).item() == 4096
    assert ex.conv1d(x.bfloat16(), ex.ones(1, 4096, 1, dtype=ex.bfloat16)).dtype is ex.bfloat16


def test_integers_convolve_exactly():
    y = ex.conv1d(ex.tensor([[[1, 2, 3]]]), ex.tensor([[[1, -1]]]))
    assert y.dtype is ex.int64
    assert y.tolist() == [[[-1, -1]]]


def test_a_nan_reaches_only_the_windows_that_see_it():
    x = ex.zeros(1, 1, 6)
    x[0, 0, 0] = float("nan")
    assert ex.isnan(ex.conv1d(x, ex.ones(1, 1, 3))).tolist() == [[[True, False, False, False]]]


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
