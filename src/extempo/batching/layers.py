"""Layers on sequences of a sample's own length: recurrent layers and encoders, which run on ragged tensors.

A call of such a layer on one sequence (length, features) is recorded as it is, whatever the length, and the calls of
all samples are one call on the ragged tensor of their sequences. Layers that draw (dropout in training), have hooks
inside or get masks or states run as the ops that they are made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.tensor import Tensor, symbol
from ..core.types import TensorType
from ..nn.attention import MultiheadAttention
from ..nn.dropout_layers import _DropoutNd
from ..nn.module import Module
from ..nn.norm_layers import LayerNorm
from ..nn.recurrent import GRU, LSTM, RNN, RNNBase
from ..nn.transformer import TransformerEncoder, TransformerEncoderLayer
from ..ragged_tensors.rows import Rows
from ..ragged_tensors.tensor import RaggedTensor
from .cell_states import CellCall, CellState
from .cells import Cell
from .gradients import Group, Layout
from .kinds import CallKind, Input
from .purity_guards import PurityGuards
from .signatures import rebuilder, structure_of
from .sizes.forms import SizedBatch, SizedKind, element_types, no_function
from .sizes.tape import TapeRunner, elements, on_tape, recorded


class LayerForm(NamedTuple):
    """A call of a layer on one sequence."""

    layer: LayerCell
    length: int

    @property
    def family(self) -> Any:
        return self.layer

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        module = batch.kind.family.module()
        lengths = np.array([one.form.length for one in batch.kinds], np.int64)
        t, tracked = batch.kinds[0].inputs[0]
        wants_grad, width = any(batch.kind.tracked), t.shape[1]
        flat = on_tape(batch.pieces(0, lengths, TensorType((width,), t.dtype)), tracked and wants_grad)
        made = recorded(wants_grad, lambda: _results(module, RaggedTensor(flat, Rows.of_lengths(lengths))))
        counts = np.array([[one.results[i].numel() for one in batch.kinds] for i in range(len(made))], np.int64)
        for i, y in enumerate(made):
            batch.leave(i, counts[i], elements(y, y.dtype))
        saved = ([[y] for y in made], [[flat] if flat.requires_grad else None])
        return batch.group(TapeRunner(batch.kind.captured), saved, counts, [Layout(lengths * width)])


class LayerKind(CallKind):
    """Calls of a layer on sequences of one length."""

    __slots__ = ("form",)

    form: LayerForm


class LayerCell(Cell):
    """A layer, as something that samples call."""

    def __init__(self, module: Module) -> None:
        super().__init__(None, module, False)
        self._guards: PurityGuards | None = None
        self._states: dict[Any, CellState | None] = {}
        self._sized: dict[Any, SizedKind] = {}  # by what is tracked

    def module(self) -> Module:
        module = None if self._module is None else self._module()
        assert module is not None  # who calls has it
        return module

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool) -> CellCall | None:
        if kwargs or len(args) != 1 or not isinstance(args[0], Tensor) or args[0].ndim != 2:
            return None
        if self._guards is None or not self._guards.same():
            self.forget()
        x = args[0]
        key = x._type, grad and x.requires_grad, grad
        if key not in self._states:
            self._states[key] = self._new_state(x._type, *key[1:])
        state = self._states[key]
        if state is None or state.kind is None:
            return None
        call = CellCall()
        call.kind, call.inputs, call.rebuild, call.state = state.kind, [x], state.rebuild, state
        return call

    def forget(self) -> None:
        super().forget()
        module = self.module()
        self._guards = PurityGuards(module)
        self._states, self._sized = {}, {}

    def _new_state(self, t: TensorType, tracked: bool, grad: bool) -> CellState | None:
        module, guards = self.module(), self._guards
        assert guards is not None  # looked at before
        result = _RESULTS[type(module)](module, t) if t.shape[0] and t.dtype.is_floating_point else None
        if result is None or _does_more(module):
            return None
        types: list[Any] = []
        structure = structure_of(result, types)
        parameters = tuple(module.parameters())
        is_tracked = tracked or (grad and any(p.requires_grad for p in parameters))
        kind = LayerKind(
            self.name,
            no_function,
            (Input(t, tracked),),
            tuple([y._type for y in types]),
            (is_tracked,) * len(types),
            parameters,
            n_ops=_n_ops(module),
        )
        kind.form = LayerForm(self, t.shape[0])
        kind.waits_with = self._sized_kind(kind, tracked)
        state = CellState(guards)
        state.kind, state.rebuild = kind, rebuilder(structure)
        return state

    def _sized_kind(self, kind: LayerKind, tracked: bool) -> SizedKind:
        key = tracked, kind.tracked, kind.inputs[0].type.dtype
        found = self._sized.get(key)
        if found is None:
            inputs, results = element_types(kind)
            found = SizedKind(self.name, no_function, inputs, results, kind.tracked, kind.captured, n_ops=kind.n_ops)
            found.form, found.family, found.lines, found.weights, found.takes_rows = LayerForm, self, set(), [], False
            self._sized[key] = found
        return found


# ---- which layers, and what they give


def _of_recurrent(module: Any, t: TensorType) -> Any:
    """Outputs and final states; None for what only the layer itself can say."""
    if t.shape[1] != module.input_size or module.proj_size or t.dtype is not module.weight_ih_l0.dtype:
        return None
    n_directions = 2 if module.bidirectional else 1
    output = TensorType((t.shape[0], n_directions * module.hidden_size), t.dtype)
    state = TensorType((module.num_layers * n_directions, module.hidden_size), t.dtype)
    return (_typed(output), (_typed(state), _typed(state)) if isinstance(module, LSTM) else _typed(state))


def _of_encoder(module: Any, t: TensorType) -> Any:
    layers = module.layers if isinstance(module, TransformerEncoder) else [module]
    fits = all(type(layer) is TransformerEncoderLayer and layer.self_attn.embed_dim == t.shape[1] for layer in layers)
    fits &= type(getattr(module, "norm", None)) in (LayerNorm, type(None)) and bool(layers)
    return _typed(t) if fits and t.dtype is layers[0].linear1.weight.dtype else None


def _typed(t: TensorType) -> Tensor:
    return symbol(t, None, None)


_RESULTS: dict[type[Module], Callable[[Any, TensorType], Any]] = {
    RNN: _of_recurrent,
    LSTM: _of_recurrent,
    GRU: _of_recurrent,
    TransformerEncoderLayer: _of_encoder,
    TransformerEncoder: _of_encoder,
}


def _n_ops(module: Any) -> int:
    """As many ops as take about as long as the layer, in a plain loop over samples."""
    if isinstance(module, RNNBase):
        return 50 * module.num_layers * (2 if module.bidirectional else 1)
    return 100 * (len(module.layers) if isinstance(module, TransformerEncoder) else 1)


def is_layer(module: Any) -> bool:
    return type(module) in _RESULTS


def _does_more(module: Module) -> bool:
    """Whether a call draws, or somebody listens inside."""
    for one in module.modules():
        hooks = one._call_hooks
        if hooks is not None and any(vars(hooks).values()):
            return True
        p = one.p if isinstance(one, _DropoutNd) else getattr(one, "dropout", 0.0)
        if one.training and isinstance(one, (_DropoutNd, MultiheadAttention, RNNBase)) and p:
            return True
    return False


def _results(module: Any, x: RaggedTensor) -> list[Tensor]:
    """The results of all rows, each one's end to end."""
    made = module(x)
    if not isinstance(made, tuple):
        return [made.values()]
    output, states = made
    finals = states if isinstance(states, tuple) else (states,)
    return [output.values(), *[state.transpose(0, 1) for state in finals]]
