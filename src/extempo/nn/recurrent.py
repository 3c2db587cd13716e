"""Recurrent layers over whole sequences: RNN, LSTM, GRU, with PyTorch's parameters, names and numbers.

Inside, a batch of sequences is one matrix whose rows are all samples of step 0, then of step 1, and so on, with the
number of rows of each step: packed sequences have that form, and equal lengths are the case where all the numbers are
equal. So no padding is ever computed. A layer in one direction is one op (`ops.recurrence`), whatever the lengths; only
an LSTM with proj_size goes step by step.

A sequence of length 0 (PyTorch refuses it) gives an empty output and returns the state it was given, or zeros; an empty
batch gives empty results.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .. import ops
from ..core.tensor import Tensor
from ..core.types import int64
from ..dispatch.dispatcher import apply
from ..errors import ArgumentError, DtypeError, ShapeError
from ..ops.recurrence import GruSequence, LstmSequence, RnnSequence
from ..ragged_tensors.recurrent import forward as ragged_forward
from . import functional as F
from .layer_support import changed, draw_within
from .module import Module
from .parameter import Parameter
from .recurrent_cells import check_nonlinearity, lstm_pair, lstm_update
from .utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

N_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}

State = tuple[Tensor, ...]  # (h,) or, for an LSTM, (h, c)
Step = Callable[[Tensor, State], State]


class _Weights(NamedTuple):
    """The parameters of one layer in one direction."""

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    hr: Tensor | None  # the projection of an LSTM with proj_size


class RNNBase(Module):
    """The common part of RNN, LSTM and GRU; `mode` is "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".

    >>> isinstance(nn.LSTM(3, 4), nn.RNNBase)
    True
    """

    _is_cell = True  # on one sequence

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in N_GATES:
            raise ArgumentError(f"{type(self).__name__}: mode must be one of {', '.join(N_GATES)}, got {mode!r}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_options()
        self.dropout = float(dropout)
        n_rows = N_GATES[mode] * hidden_size
        for layer in range(num_layers):
            n_inputs = self.input_size if layer == 0 else self._output_size * self._n_directions
            for direction in range(self._n_directions):
                weights = (n_rows, n_inputs), (n_rows, self._output_size)
                sizes = *weights, (n_rows,), (n_rows,), (proj_size, hidden_size)
                for name, shape in zip(self._names(layer, direction), sizes, strict=True):
                    if name is not None:
                        self.register_parameter(name, Parameter(ops.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def _check_options(self) -> None:
        name = type(self).__name__
        for option, kind in (("input_size", int), ("hidden_size", int), ("bias", bool), ("batch_first", bool)):
            value = getattr(self, option)
            if not isinstance(value, kind):
                raise DtypeError(f"{name}: {option} must be {kind.__name__}, got {value!r}")
        for option in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, option) <= 0:
                raise ArgumentError(f"{name}: {option} must be at least 1, got {getattr(self, option)}")
        p = self.dropout
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
            raise ArgumentError(f"{name}: dropout is a probability between 0 and 1, got {p!r}")
        if p and self.num_layers == 1:
            warnings.warn(
                f"{name}: dropout={p} has no effect with one layer, it stands between layers; set num_layers too",
                stacklevel=4,
            )
        if self.proj_size and (self.mode != "LSTM" or not 0 < self.proj_size < self.hidden_size):
            raise ArgumentError(
                f"{name}: proj_size is for LSTM and must be between 1 and hidden_size - 1, or 0 for none; got "
                f"proj_size={self.proj_size} with hidden_size={self.hidden_size}"
            )

    @property
    def _n_directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _output_size(self) -> int:
        """Features of h in one direction."""
        return self.proj_size or self.hidden_size

    def _names(self, layer: int, direction: int) -> tuple[str | None, ...]:
        """The names of the parameters in the order of _Weights, None for one that is not there."""
        end = f"_l{layer}{'_reverse' if direction else ''}"
        biases = ("bias_ih" + end, "bias_hh" + end) if self.bias else (None, None)
        return "weight_ih" + end, "weight_hh" + end, *biases, "weight_hr" + end if self.proj_size else None

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters by layer and direction."""
        return [
            [getattr(self, name) for name in self._names(layer, direction) if name is not None]
            for layer in range(self.num_layers)
            for direction in range(self._n_directions)
        ]

    def reset_parameters(self) -> None:
        """Draw every parameter uniformly between -b and b, b = 1 / sqrt(hidden_size)."""
        draw_within(1 / math.sqrt(self.hidden_size), *self.parameters())

    def flatten_parameters(self) -> None:
        """Does nothing: accepted because PyTorch scripts for GPUs call it."""

    def extra_repr(self) -> str:
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False
        }  # fmt: skip
        return f"{self.input_size}, {self.hidden_size}{changed(self, defaults)}"

    # ---- one call

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.is_nested:
            return ragged_forward(self, input, hx)
        self._check_input(input, (2, 3), "(time, input_size), or the same with a batch dimension")
        batched = input.ndim == 3
        x = input if batched else input.unsqueeze(1)
        if batched and self.batch_first:
            x = x.transpose(0, 1)
        n_steps, n_samples = x.shape[:2]
        initial = self._initial(hx, n_samples, x, batched)
        rows = x.reshape(n_steps * n_samples, self.input_size)
        sizes = ops.full((n_steps,), n_samples, dtype=int64)
        output, final = self._through_layers(rows, sizes, initial)
        output = output.reshape(n_steps, n_samples, output.shape[-1])
        if not batched:
            return output.squeeze(1), self._delivered([state.squeeze(1) for state in final])
        return output.transpose(0, 1) if self.batch_first else output, self._delivered(final)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """A packed batch has its sequences sorted by length, states come in the order of the user."""
        self._check_input(input.data, (2,), "packed rows (total length, input_size)")
        order, sizes = input.sorted_indices, input.batch_sizes.to(int64)
        n_samples = max(sizes.tolist(), default=0) if order is None else order.shape[0]
        initial = self._initial(hx, n_samples, input.data, True, order)
        output, final = self._through_layers(input.data, sizes, initial)
        if input.unsorted_indices is not None:
            final = [state.index_select(1, input.unsorted_indices) for state in final]
        packed = PackedSequence(output, input.batch_sizes, input.sorted_indices, input.unsorted_indices)
        return packed, self._delivered(final)

    def _check_input(self, x: Tensor, ndims: tuple[int, ...], expected: str) -> None:
        if x.ndim not in ndims or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: expected input {expected}, with input_size={self.input_size}, "
                f"got shape {tuple(x.shape)}"
            )

    def _initial(self, hx: Any, n_samples: int, x: Tensor, batched: bool, order: Tensor | None = None) -> list[State]:
        """The state that each layer and direction starts from, one after another."""
        n_runs = self.num_layers * self._n_directions
        sizes = {"h": self._output_size, "c": self.hidden_size} if self.mode == "LSTM" else {"hx": self.hidden_size}
        if hx is None:
            zeros = tuple(ops.zeros(n_samples, size, dtype=x.dtype) for size in sizes.values())
            return [zeros] * n_runs
        given = lstm_pair(type(self).__name__, hx) if self.mode == "LSTM" else (hx,)
        states = []
        for (name, size), state in zip(sizes.items(), given, strict=True):
            shape = (n_runs, n_samples, size) if batched else (n_runs, size)
            if state.shape != shape:
                raise ShapeError(
                    f"{type(self).__name__}: {name} must be {shape}, that is (layers * directions, "
                    f"{'batch, ' if batched else ''}features), got {tuple(state.shape)}"
                )
            state = state if batched else state.unsqueeze(1)
            states.append((state if order is None else state.index_select(1, order)).unbind(0))
        return list(zip(*states, strict=True))

    def _delivered(self, final: list[Tensor]) -> Any:
        return tuple(final) if self.mode == "LSTM" else final[0]

    # ---- layers, directions, steps

    def _through_layers(self, rows: Tensor, sizes: Tensor, initial: list[State]) -> tuple[Tensor, list[Tensor]]:
        """The last layer's output rows, and the final states (layers * directions, batch, features).

        `sizes`: how many samples have each step; a sample of no step stands last, in `initial` only, and so does a
        step of no sample in `sizes`.
        """
        finals: list[State] = []
        for layer in range(self.num_layers):
            if layer:
                rows = F.dropout(rows, self.dropout, self.training)
            outputs = []
            for direction in range(self._n_directions):
                names = self._names(layer, direction)
                weights = _Weights(*(None if name is None else getattr(self, name) for name in names))  # type: ignore[arg-type] # only those that may be None are
                output, final = self._run(rows, sizes, initial[len(finals)], weights, backwards=direction == 1)
                outputs.append(output)
                finals.append(final)
            rows = outputs[0] if len(outputs) == 1 else ops.cat(outputs, -1)
        return rows, [s[0].unsqueeze(0) if len(s) == 1 else ops.stack(s) for s in zip(*finals, strict=True)]

    def _run(
        self, rows: Tensor, sizes: Tensor, state: State, weights: _Weights, backwards: bool
    ) -> tuple[Tensor, State]:
        """One layer in one direction: its output rows and final state."""
        bias, bias_hh = weights.bias_ih, weights.bias_hh
        if bias is not None and bias_hh is not None and self.mode != "GRU":
            bias = bias + bias_hh  # a GRU's reset gate stands between the two
        inputs, attributes = (rows, weights.ih, bias, weights.hh), {"backwards": backwards}
        if self.mode == "GRU":
            output, h, *_ = apply(GruSequence, (*inputs, bias_hh, *state, sizes), attributes)
            return output, (h,)
        if self.mode != "LSTM":
            attributes["relu"] = self.mode == "RNN_RELU"
            output, h, _ = apply(RnnSequence, (*inputs, *state, sizes), attributes)
            return output, (h,)
        if weights.hr is not None:
            x = F.linear(rows, weights.ih, bias)
            there = [n for n in sizes.tolist() if n]
            return _with_projection(x, there, state, weights.hh, weights.hr, backwards)
        output, h, c, *_ = apply(LstmSequence, (*inputs, *state, sizes), attributes)
        return output, (h, c)


# ---- an LSTM whose h is a projection, step by step


def _with_projection(
    x: Tensor, sizes: list[int], state: State, hh: Tensor, hr: Tensor, backwards: bool
) -> tuple[Tensor, State]:
    def step(x: Tensor, state: State) -> State:
        """The product with h takes the projected input as its bias."""
        h, c = lstm_update(F.linear(state[0], hh, x), state[1])
        return F.linear(h, hr), c

    parts = x.split(sizes) if sizes else ()
    outputs, final = (_backwards if backwards else _forwards)(parts, state, step)
    return ops.cat(outputs) if outputs else x.new_zeros(0, state[0].shape[1]), final


def _rows_of(states: Iterable[Tensor], start: int, stop: int | None) -> State:
    return tuple(state[start:stop] for state in states)


def _forwards(parts: Sequence[Tensor], state: State, step: Step) -> tuple[list[Tensor], State]:
    """From the first step to the last. Sequences that have ended are the last rows: their state is put aside."""
    outputs = []
    ended: list[State] = []
    n_rows = state[0].shape[0]
    for x in parts:
        n = x.shape[0]
        if n < n_rows:
            ended.append(_rows_of(state, n, None))
            state = _rows_of(state, 0, n)
            n_rows = n
        state = step(x, state)
        outputs.append(state[0])
    if ended:
        state = tuple(ops.cat(rows) for rows in zip(state, *reversed(ended), strict=True))
    return outputs, state


def _backwards(parts: Sequence[Tensor], initial: State, step: Step) -> tuple[list[Tensor], State]:
    """From the last step to the first. Each sequence joins, with its initial state, at its own last step."""
    outputs = []
    state = initial
    n_rows = initial[0].shape[0]
    if parts and parts[-1].shape[0] < n_rows:
        n_rows = parts[-1].shape[0]
        state = _rows_of(initial, 0, n_rows)
    for x in reversed(parts):
        n = x.shape[0]
        if n > n_rows:
            joining = _rows_of(initial, n_rows, n)
            state = tuple(ops.cat(rows) for rows in zip(state, joining, strict=True))
            n_rows = n
        state = step(x, state)
        outputs.append(state[0])
    outputs.reverse()
    return outputs, state


class RNN(RNNBase):
    """h[t] = tanh(W_ih x[t] + b_ih + W_hh h[t-1] + b_hh) over a sequence, in `num_layers` layers; or relu.

    Input: (time, batch, input_size), (batch, time, input_size) with `batch_first`, (time, input_size) of one sample, a
    `PackedSequence`, or a ragged tensor (batch, *, input_size), in any order of lengths. Returns the outputs of the
    last layer in the same form and the final states (layers * directions, batch, hidden_size). `dropout` stands between
    layers. Parameters: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, the same with _reverse, then _l1.

    >>> output, h = nn.RNN(3, 4, num_layers=2, nonlinearity="relu")(ex.zeros(5, 2, 3))
    >>> output.shape, h.shape
    (extempo.Size([5, 2, 4]), extempo.Size([2, 2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check_nonlinearity("RNN", nonlinearity)
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, *options)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """A long short-term memory over a sequence; see LSTMCell for the equations and RNN for the forms of input.

    The state is a pair (h, c). `proj_size` makes h a projection of that size: h = W_hr (o * tanh(c)).

    >>> output, (h, c) = nn.LSTM(3, 4, bidirectional=True)(ex.zeros(5, 2, 3))
    >>> output.shape, c.shape
    (extempo.Size([5, 2, 8]), extempo.Size([2, 2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = (num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)
        super().__init__("LSTM", input_size, hidden_size, *options)


class GRU(RNNBase):
    """A gated recurrent unit over a sequence; see GRUCell for the equations and RNN for the forms of input.

    >>> sentence = ex.zeros(7, 3)
    >>> output, h = nn.GRU(3, 4)(sentence)
    >>> output.shape, h.shape
    (extempo.Size([7, 4]), extempo.Size([1, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__("GRU", input_size, hidden_size, *options)
