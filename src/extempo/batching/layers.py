"""Layers on sequences of a sample's own length: recurrent layers, attention, encoders and decoders, on ragged tensors.

A call of such a layer on sequences (length, features) is recorded as it is, whatever the lengths, and the calls of
all samples are one call on the ragged tensors of their sequences. Layers that draw (dropout in training), have hooks
inside, return weights of attention or get states or masks, but for causal ones that are said to be, run as the ops
that they are made of.
"""

from __future__ import annotations

import functools
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
from ..nn.transformer import TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer
from ..ragged_tensors.rows import Rows
from ..ragged_tensors.tensor import RaggedTensor
from .cell_states import CellCall, CellState
from .cells import Cell
from .gradients import Group, Layout
from .kinds import CallKind, Input
from .purity_guards import PurityGuards
from .signatures import rebuilder, structure_of
from .sizes.attention import masks_are_causal
from .sizes.each import run_each
from .sizes.forms import SizedBatch, SizedKind, element_types, no_function
from .sizes.tape import TapeRunner, elements, on_tape, recorded


class LayerOptions(NamedTuple):
    """What a layer is given besides its sequences."""

    names: tuple[str, ...]  # of masks, which are inputs behind the sequences
    others: tuple[tuple[str, Any], ...]  # keyword arguments that are the same for all calls


class LayerForm(NamedTuple):
    """A call of a layer on sequences, most often one."""

    layer: LayerCell
    options: LayerOptions

    @property
    def family(self) -> Any:
        return tuple(self)

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        layer, options = batch.kind.family
        inputs = batch.kinds[0].inputs
        n_sequences = len(inputs) - len(options.names)
        if not all(masks_are_causal(batch, j, hides=True) for j in range(n_sequences, len(inputs))):
            return run_each(batch)
        causal = {_FLAGS[name]: True for name in options.names}
        wants_grad = any(batch.kind.tracked)
        flats: list[Tensor | None] = []
        sequences: list[RaggedTensor] = []
        layouts: list[Layout | None] = []
        for j, (t, tracked) in enumerate(inputs[:n_sequences]):
            same = [k for k in range(j) if (batch.refs[:, k] == batch.refs[:, j]).all()]
            if same:  # as where a sequence attends to itself
                flats.append(None)
                layouts.append(None)
                sequences.append(sequences[same[0]])
                continue
            lengths, width = np.array([one.inputs[j].type.shape[0] for one in batch.kinds], np.int64), t.shape[1]
            flat = on_tape(batch.pieces(j, lengths, TensorType((width,), t.dtype)), tracked and wants_grad)
            flats.append(flat if flat.requires_grad else None)
            layouts.append(Layout(lengths * width))
            sequences.append(RaggedTensor(flat, Rows.of_lengths(lengths)))
        others = {**dict(options.others), **causal}
        made = recorded(wants_grad, lambda: _results(layer.module(), sequences, others))
        counts = np.array([[one.results[i].numel() for one in batch.kinds] for i in range(len(made))], np.int64)
        for i, y in enumerate(made):
            batch.leave(i, counts[i], elements(y, y.dtype))
        nothing = [None] * len(options.names)
        saved = ([[y] for y in made], [*[None if x is None else [x] for x in flats], *nothing])
        return batch.group(TapeRunner(batch.kind.captured), saved, counts, [*layouts, *nothing])


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
        self._sized: dict[Any, SizedKind] = {}  # by what is tracked and asked for

    def module(self) -> Module:
        module = None if self._module is None else self._module()
        assert module is not None  # who calls has it
        return module

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool) -> CellCall | None:
        asked = _ARGUMENTS[type(self.module())].taken_apart(args, kwargs)
        if asked is None:
            return self._call_as_cell(args, kwargs, grad)
        tensors, options = asked
        if self._guards is None or not self._guards.same():
            self.forget()
        inputs = tuple([Input(x._type, grad and x.requires_grad) for x in tensors])
        key = inputs, grad, options
        if key not in self._states:
            self._states[key] = self._new_state(*key)
        state = self._states[key]
        if state is None or state.kind is None:
            return self._call_as_cell(args, kwargs, grad)
        call = CellCall()
        call.kind, call.inputs, call.rebuild = state.kind, tensors, state.rebuild
        # Native code takes tensors in the order of the arguments.
        in_order = [id(x) for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        call.state = state if in_order == [id(x) for x in tensors] else None
        return call

    def _call_as_cell(self, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool) -> CellCall | None:
        """A call that is not on sequences alone: of attention what a cell makes of it, of others their ops."""
        return super().call(args, kwargs, grad) if type(self.module()) is MultiheadAttention else None

    def forget(self) -> None:
        super().forget()
        module = self.module()
        self._guards = PurityGuards(module)
        self._states, self._sized = {}, {}

    def _new_state(self, inputs: tuple[Input, ...], grad: bool, options: LayerOptions) -> CellState | None:
        module, guards = self.module(), self._guards
        assert guards is not None  # looked at before
        n_sequences = len(inputs) - len(options.names)
        types, masks = [i.type for i in inputs[:n_sequences]], inputs[n_sequences:]
        is_one = len({t.dtype for t in types}) == 1 and all(t.shape[0] for t in types)
        result = _RESULTS[type(module)](module, *types) if is_one and types[0].dtype.is_floating_point else None
        if result is None or _does_more(module) or any(i.tracked or len(i.type.shape) != 2 for i in masks):
            return None
        made: list[Any] = []
        structure = structure_of(result, made)
        parameters = tuple(module.parameters())
        is_tracked = any(i.tracked for i in inputs) or (grad and any(p.requires_grad for p in parameters))
        kind = LayerKind(
            self.name,
            functools.partial(self._of_one, options),
            inputs,
            tuple([y._type for y in made]),
            (is_tracked,) * len(made),
            parameters,
            n_ops=_n_ops(module),
        )
        kind.form = LayerForm(self, options)
        kind.waits_with = self._sized_kind(kind)
        state = CellState(guards)
        state.kind, state.rebuild = kind, rebuilder(structure)
        return state

    def _of_one(self, options: LayerOptions, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The layer on the sequences of one sample, and what masks it has."""
        n_sequences = len(inputs) - len(options.names)
        masks = dict(zip(options.names, inputs[n_sequences:], strict=True))
        flat: list[Any] = []
        structure_of(self.module()(*inputs[:n_sequences], **masks, **dict(options.others)), flat)
        return tuple(flat)

    def _sized_kind(self, kind: LayerKind) -> SizedKind:
        key = tuple([(i.tracked, i.type.dtype) for i in kind.inputs]), kind.tracked, kind.form.options
        found = self._sized.get(key)
        if found is None:
            inputs, results = element_types(kind)
            found = SizedKind(self.name, no_function, inputs, results, kind.tracked, kind.captured, n_ops=kind.n_ops)
            found.form, found.family, found.lines, found.weights = LayerForm, kind.form.family, set(), []
            found.takes_rows = False
            self._sized[key] = found
        return found


# ---- what they are given


# The flags that say that a mask is causal, which is seen by the mask itself.
_FLAGS = {
    "src_mask": "is_causal",
    "mask": "is_causal",
    "attn_mask": "is_causal",
    "tgt_mask": "tgt_is_causal",
    "memory_mask": "memory_is_causal",
}


class _Arguments(NamedTuple):
    """Of a layer's forward, whose sequences come first."""

    names: tuple[str, ...]
    n_sequences: int
    fixed: tuple[tuple[str, Any], ...] = ()  # what must have these values, if anything

    def taken_apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Tensor], LayerOptions] | None:
        """Sequences and masks, and what else there is; None for a call that cannot be one on ragged tensors."""
        if len(args) > len(self.names):
            return None
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        tensors = [given.pop(name, None) for name in self.names[: self.n_sequences]]
        if not all(isinstance(x, Tensor) and x.ndim == 2 for x in tensors):
            return None
        if any(given.get(name) is not value for name, value in self.fixed):
            return None
        masks, others = [], []
        for name, value in given.items():
            if name in _FLAGS and isinstance(value, Tensor):
                masks.append(name)
                tensors.append(value)
            elif value is None or type(value) is bool:
                others.append((name, value))
            else:
                return None
        flags = [_FLAGS[name] for name in masks]
        if any(value is True and name in _FLAGS.values() and name not in flags for name, value in others):
            return None  # there must be a mask, which the layer itself says
        return tensors, LayerOptions(tuple(masks), tuple(others))


_OF_RECURRENT = _Arguments(("input",), 1)
_OF_DECODER = _Arguments(
    (
        *("tgt", "memory", "tgt_mask", "memory_mask", "tgt_key_padding_mask", "memory_key_padding_mask"),
        *("tgt_is_causal", "memory_is_causal"),
    ),
    2,
)
_ARGUMENTS: dict[type[Module], _Arguments] = {
    **dict.fromkeys((RNN, LSTM, GRU), _OF_RECURRENT),
    TransformerEncoderLayer: _Arguments(("src", "src_mask", "src_key_padding_mask", "is_causal"), 1),
    TransformerEncoder: _Arguments(("src", "mask", "src_key_padding_mask", "is_causal"), 1),
    TransformerDecoderLayer: _OF_DECODER,
    TransformerDecoder: _OF_DECODER,
    MultiheadAttention: _Arguments(
        ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights", "is_causal"),
        3,
        (("need_weights", False),),
    ),
}


# ---- which layers, and what they give


def _of_recurrent(module: Any, t: TensorType) -> Any:
    """Outputs and final states; None for what only the layer itself can say."""
    if t.shape[1] != module.input_size or module.proj_size or t.dtype is not module.weight_ih_l0.dtype:
        return None
    n_directions = 2 if module.bidirectional else 1
    output = TensorType((t.shape[0], n_directions * module.hidden_size), t.dtype)
    state = TensorType((module.num_layers * n_directions, module.hidden_size), t.dtype)
    return (_typed(output), (_typed(state), _typed(state)) if isinstance(module, LSTM) else _typed(state))


def _of_transformer(module: Any, *types: TensorType) -> Any:
    """The result of an encoder or a decoder, which is of the type of its first sequence."""
    layers = module.layers if isinstance(module, TransformerEncoder | TransformerDecoder) else [module]
    own = TransformerEncoderLayer if len(types) == 1 else TransformerDecoderLayer
    widths = {t.shape[1] for t in types}
    fits = all(type(layer) is own and widths == {layer.self_attn.embed_dim} for layer in layers)
    fits &= type(getattr(module, "norm", None)) in (LayerNorm, type(None)) and bool(layers)
    return _typed(types[0]) if fits and types[0].dtype is layers[0].linear1.weight.dtype else None


def _of_attention(module: Any, query: TensorType, key: TensorType, value: TensorType) -> Any:
    """The result, and no weights."""
    widths = (query.shape[1], key.shape[1], value.shape[1])
    fits = widths == (module.embed_dim, module.kdim, module.vdim) and key.shape[0] == value.shape[0]
    fits &= module.bias_k is None and not module.add_zero_attn
    return (_typed(query), None) if fits and query.dtype is module.out_proj.weight.dtype else None


def _typed(t: TensorType) -> Tensor:
    return symbol(t, None, None)


_RESULTS: dict[type[Module], Callable[..., Any]] = {
    RNN: _of_recurrent,
    LSTM: _of_recurrent,
    GRU: _of_recurrent,
    **dict.fromkeys(
        (TransformerEncoderLayer, TransformerEncoder, TransformerDecoderLayer, TransformerDecoder), _of_transformer
    ),
    MultiheadAttention: _of_attention,
}


def _n_ops(module: Any) -> int:
    """As many ops as take about as long as the layer, in a plain loop over samples."""
    if isinstance(module, RNNBase):
        return 50 * module.num_layers * (2 if module.bidirectional else 1)
    if isinstance(module, MultiheadAttention):
        return 40
    n_layers = len(module.layers) if isinstance(module, TransformerEncoder | TransformerDecoder) else 1
    return (150 if isinstance(module, TransformerDecoder | TransformerDecoderLayer) else 100) * n_layers


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


def _results(module: Any, sequences: list[RaggedTensor], options: dict[str, Any]) -> list[Tensor]:
    """The results of all rows, each one's end to end."""
    made = module(*sequences, **options)
    if not isinstance(made, tuple):
        return [made.values()]
    output, states = made
    if states is None:
        return [output.values()]
    finals = states if isinstance(states, tuple) else (states,)
    return [output.values(), *[state.transpose(0, 1) for state in finals]]
