"""Cells: one step of a recurrent network, as modules and as the functions that the whole layers share.

A cell takes (batch, input_size), or (input_size) of one unbatched sample, and a state of the same form; without a state
it starts from zeros. The weights of all gates are one matrix, one block of rows per gate, in PyTorch's order: r, z, n
in a GRU, i, f, g, o in an LSTM.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..errors import ArgumentError, DtypeError, ShapeError
from . import functional as F
from .layer_support import changed, draw_within
from .module import Module
from .parameter import Parameter

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]

ACTIVATIONS = {"tanh": ops.tanh, "relu": F.relu}

LstmState = tuple[Tensor, Tensor]


def check_nonlinearity(layer: str, nonlinearity: str) -> None:
    if nonlinearity not in ACTIVATIONS:
        raise ArgumentError(f"{layer}: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")


def lstm_update(gates: Tensor, cell: Tensor) -> LstmState:
    """(h, c) from the summed gates (..., 4 * hidden) and the last c."""
    i, f, g, o = gates.chunk(4, -1)
    cell = ops.sigmoid(f) * cell + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(cell), cell


def gru_update(from_input: Tensor, from_hidden: Tensor, hidden: Tensor) -> Tensor:
    """The next h from both projections (..., 3 * hidden), which meet only after the reset gate in the third block."""
    size = hidden.shape[-1]
    both_in, new_in = from_input.split((2 * size, size), -1)
    both_hidden, new_hidden = from_hidden.split((2 * size, size), -1)
    reset, update = ops.sigmoid(both_in + both_hidden).chunk(2, -1)
    new = ops.tanh(new_in + reset * new_hidden)
    return new + update * (hidden - new)


class RNNCellBase(Module):
    """What the three cells share: `num_chunks` blocks of `hidden_size` rows in each weight, and the checks of inputs.

    All parameters start uniform between -b and b, b = 1 / sqrt(hidden_size).

    >>> isinstance(nn.GRUCell(3, 4), nn.RNNCellBase)
    True
    """

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(ops.empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(ops.empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(ops.empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter anew."""
        draw_within(1 / math.sqrt(max(self.hidden_size, 1)), *self.parameters())

    def extra_repr(self) -> str:
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        shown = f", nonlinearity={nonlinearity}" if nonlinearity != "tanh" else ""
        return f"{self.input_size}, {self.hidden_size}{changed(self, {'bias': True})}{shown}"

    def _checked_input(self, input: Tensor) -> Tensor:
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: expected input (batch, input_size={self.input_size}) or ({self.input_size},), "
                f"got shape {tuple(input.shape)}"
            )
        return input

    def _checked_state(self, name: str, state: Tensor | None, input: Tensor) -> Tensor:
        """The state given, or zeros."""
        shape = (*input.shape[:-1], self.hidden_size)
        if state is None:
            return ops.zeros(shape, dtype=input.dtype)
        if state.shape != shape:
            raise ShapeError(
                f"{type(self).__name__}: {name} must be {shape} for an input {tuple(input.shape)} and "
                f"hidden_size={self.hidden_size}, got {tuple(state.shape)}"
            )
        return state

    def _projected(self, input: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return F.linear(input, self.weight_ih, self.bias_ih), F.linear(hidden, self.weight_hh, self.bias_hh)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it with `nonlinearity="relu"`.

    >>> nn.RNNCell(3, 4)(ex.zeros(2, 3)).shape
    extempo.Size([2, 4])
    """

    _is_cell = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check_nonlinearity("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        hidden = self._checked_state("hx", hx, self._checked_input(input))
        from_input, from_hidden = self._projected(input, hidden)
        return ACTIVATIONS[self.nonlinearity](from_input + from_hidden)


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory, (h, c) -> (h', c').

        i, f, o = sigmoid(W x + b + U h + b'), g = tanh(...)    each with its own rows of the weights
        c' = f * c + i * g
        h' = o * tanh(c')

    >>> h, c = nn.LSTMCell(3, 4)(ex.zeros(2, 3))
    >>> h, c = nn.LSTMCell(3, 4)(ex.zeros(2, 3), (h, c))
    >>> c.shape
    extempo.Size([2, 4])
    """

    _is_cell = True

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: LstmState | None = None) -> LstmState:
        self._checked_input(input)
        h, c = (None, None) if hx is None else lstm_pair("LSTMCell", hx)
        hidden = self._checked_state("h", h, input)
        cell = self._checked_state("c", c, input)
        from_input, from_hidden = self._projected(input, hidden)
        return lstm_update(from_input + from_hidden, cell)


def lstm_pair(layer: str, hx: Any) -> LstmState:
    """hx if it is a pair (h, c)."""
    if not isinstance(hx, (tuple, list)) or len(hx) != 2 or not all(isinstance(part, Tensor) for part in hx):
        got = f"{len(hx)} things" if isinstance(hx, (tuple, list)) else type(hx).__name__
        raise DtypeError(f"{layer}: the state must be a pair of tensors (h, c), got {got}")
    return hx[0], hx[1]


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit.

        r, z = sigmoid(W x + b + U h + b')     each with its own rows of the weights
        n = tanh(W_n x + b_n + r * (U_n h + b'_n))
        h' = (1 - z) * n + z * h

    >>> nn.GRUCell(3, 4)(ex.zeros(3), ex.ones(4)).shape
    extempo.Size([4])
    """

    _is_cell = True

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        hidden = self._checked_state("hx", hx, self._checked_input(input))
        return gru_update(*self._projected(input, hidden), hidden)
