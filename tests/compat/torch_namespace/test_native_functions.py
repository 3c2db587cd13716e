"""Losses and cells that PyTorch has as functions of `torch`, in the order of arguments of its own kernels."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.compat.torch_namespace import native_functions as native
from extempo.nn import functional as F

X, Y = ex.tensor([[0.5, -1.0], [2.0, 0.25]]), ex.tensor([[1.0, 0.0], [0.0, 1.0]])
SIGNS = ex.tensor([1.0, -1.0])


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize(("number", "word"), [(0, "none"), (1, "mean"), (2, "sum")])
def test_a_reduction_is_a_number(number, word):
    same(native.kl_div(X, Y, number), F.kl_div(X, Y, reduction=word))
    same(native.hinge_embedding_loss(X, SIGNS, 0.5, number), F.hinge_embedding_loss(X, SIGNS, 0.5, reduction=word))
    same(native.poisson_nll_loss(X, Y, True, False, 1e-8, number), F.poisson_nll_loss(X, Y, reduction=word))
    same(
        native.binary_cross_entropy_with_logits(X, Y, None, SIGNS + 2, number),
        F.binary_cross_entropy_with_logits(X, Y, pos_weight=SIGNS + 2, reduction=word),
    )
    for name in ("cosine_embedding_loss", "margin_ranking_loss"):
        arguments = (X, Y, SIGNS, 0.1)
        same(getattr(native, name)(*arguments, number), getattr(F, name)(*arguments, reduction=word))
    same(
        native.triplet_margin_loss(X, Y, Y + 1, 0.3, 2, 1e-6, True, number),
        F.triplet_margin_loss(X, Y, Y + 1, 0.3, 2, 1e-6, True, reduction=word),
    )


def test_a_reduction_in_words_is_told_where_it_belongs():
    with pytest.raises(ex.errors.ArgumentError, match=r"reduction must be 0 .* torch.nn.functional.kl_div takes"):
        native.kl_div(X, Y, "mean")


def test_ctc_loss():
    ex.manual_seed(0)
    log_probs, targets = ex.randn(6, 2, 4).log_softmax(-1), ex.tensor([[1, 2], [3, 1]])
    same(native.ctc_loss(log_probs, targets, [6, 6], [2, 2]), F.ctc_loss(log_probs, targets, [6, 6], [2, 2]))


@pytest.mark.parametrize(
    ("cell", "function"),
    [
        (nn.RNNCell(3, 4), native.rnn_tanh_cell),
        (nn.RNNCell(3, 4, nonlinearity="relu"), native.rnn_relu_cell),
        (nn.GRUCell(3, 4), native.gru_cell),
        (nn.LSTMCell(3, 4), native.lstm_cell),
    ],
)
def test_cells_are_those_of_the_layers(cell, function):
    x, h = ex.randn(2, 3), ex.randn(2, 4)
    state = (h, h * 2) if isinstance(cell, nn.LSTMCell) else h
    expected, found = cell(x, state), function(x, state, *(p for p in cell.parameters()))
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (expected, found)), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-6)


def test_norms_of_slices():
    v = ex.randn(3, 4, 5)
    assert native.norm_except_dim(v, 2, 1).shape == (1, 4, 1)
    same(native.norm_except_dim(v, 2, 0)[1, 0, 0], v[1].norm())
    same(native.norm_except_dim(v, 2, -1), v.norm())


def test_functions_of_one_form_are_those_of_nn_functional():
    same(native.pdist(X, 1.0), F.pdist(X, 1.0))
    weight = ex.ones(3, 2, 2)
    same(native.bilinear(X, Y, weight), F.bilinear(X, Y, weight))


def test_a_copy_has_no_history():
    x = ex.ones(2, requires_grad=True)
    copied = native.detach_copy(x)
    assert not copied.requires_grad
    assert copied.data_ptr() != x.data_ptr()


def test_binomial_draws_are_between_none_and_all():
    drawn = native.binomial(ex.full((50,), 4.0), ex.full((50,), 0.5))
    assert drawn.min() >= 0
    assert drawn.max() <= 4
    with pytest.raises(ex.errors.UnsupportedError, match="default generator"):
        native.binomial(ex.ones(1), ex.ones(1), generator=ex.Generator())
