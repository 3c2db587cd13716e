"""Losses, cells of recurrent networks and others that PyTorch has as functions of `torch` itself, beside its layers.

Arguments stand in the order of PyTorch's own kernels. There a reduction is a number: 0 for none, 1 for the mean, 2 for
the sum.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...errors import ArgumentError, UnsupportedError
from ...nn import functional as F

_REDUCTIONS = ("none", "mean", "sum")


def _reduction(number: int, op: str) -> str:
    if number not in (0, 1, 2):
        raise ArgumentError(
            f"torch.{op}: reduction must be 0 (none), 1 (mean) or 2 (sum), got {number!r}; "
            f"torch.nn.functional.{op} takes the words"
        )
    return _REDUCTIONS[number]


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Tensor:
    how = _reduction(reduction, "binary_cross_entropy_with_logits")
    return F.binary_cross_entropy_with_logits(input, target, weight, pos_weight=pos_weight, reduction=how)


def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    return F.kl_div(input, target, reduction=_reduction(reduction, "kl_div"), log_target=log_target)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    how = _reduction(reduction, "hinge_embedding_loss")
    return F.hinge_embedding_loss(input, target, margin=margin, reduction=how)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    how = _reduction(reduction, "cosine_embedding_loss")
    return F.cosine_embedding_loss(input1, input2, target, margin=margin, reduction=how)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    how = _reduction(reduction, "margin_ranking_loss")
    return F.margin_ranking_loss(input1, input2, target, margin=margin, reduction=how)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    how = _reduction(reduction, "triplet_margin_loss")
    return F.triplet_margin_loss(anchor, positive, negative, margin=margin, p=p, eps=eps, swap=swap, reduction=how)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    how = _reduction(reduction, "poisson_nll_loss")
    return F.poisson_nll_loss(input, target, log_input=log_input, full=full, eps=eps, reduction=how)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    how = _reduction(reduction, "ctc_loss")
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.bilinear(input1, input2, weight, bias)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    return F.pdist(input, p)


def _gates(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any) -> tuple[Tensor, Tensor]:
    return F.linear(input, w_ih, b_ih), F.linear(hx, w_hh, b_hh)


def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """The next state of `nn.RNNCell`."""
    of_input, of_state = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    return ops.tanh(of_input + of_state)


def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """The next state of `nn.RNNCell(..., nonlinearity="relu")`."""
    of_input, of_state = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    return ops.relu(of_input + of_state)


def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """The next state of `nn.GRUCell`."""
    of_input, of_state = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    (reset_i, update_i, new_i), (reset_h, update_h, new_h) = of_input.chunk(3, -1), of_state.chunk(3, -1)
    update = ops.sigmoid(update_i + update_h)
    new = ops.tanh(new_i + ops.sigmoid(reset_i + reset_h) * new_h)
    return new + update * (hx - new)


def lstm_cell(
    input: Tensor, hx: tuple[Tensor, Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> tuple[Tensor, Tensor]:
    """The next two states of `nn.LSTMCell`."""
    of_input, of_state = _gates(input, hx[0], w_ih, w_hh, b_ih, b_hh)
    i, f, g, o = (of_input + of_state).chunk(4, -1)
    c = ops.sigmoid(f) * hx[1] + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(c), c


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms of the slices along one dimension; of all elements for dim=-1."""
    if dim == -1:
        return v.norm(pow)
    others = [d for d in range(v.dim()) if d != dim]
    return v.norm(pow, others, keepdim=True)


def detach_copy(input: Tensor) -> Tensor:
    """A copy without a history."""
    return input.detach().clone()


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """How many of `count` tries succeed, each with probability `prob`."""
    from ...distributions import Binomial

    if generator is not None:
        raise UnsupportedError("torch.binomial: draws come from the default generator; seed it by torch.manual_seed")
    return Binomial(count, prob).sample()
