"""RNN, LSTM and GRU layers on sequences of a call's own length: all first steps, then all second steps, longest first.

That is how they run on ragged tensors: the same op, over packed rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...core.tensor import Tensor
from ...core.types import TensorType
from ...dispatch.dispatcher import apply
from ...ragged_tensors.recurrent import packing_of
from ...ragged_tensors.rows import Rows
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .each import run_each
from .forms import SizedBatch
from .tape import TapeRunner, elements, on_tape, recorded

# The layers' ops: how many states are among the inputs, before the sizes, and among the results, behind the outputs.
_STATES = {"lstm_sequence": 2, "gru_sequence": 1, "rnn_sequence": 1}


class SequenceForm(NamedTuple):
    """One sequence (length, features), from states (1, hidden)."""

    op: type[Op]
    attrs: tuple[tuple[str, Any], ...]
    inputs: tuple[Any, ...]  # of the operands but for the sizes: row types, and which of them want a gradient
    slots: tuple[Any, ...]  # of weights and of what is left out: ids and None; of operands their positions
    length: int

    @property
    def family(self) -> Any:
        return self[:4]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        op, attrs, inputs, _ = batch.kind.family
        n_states = _STATES[op.name]
        n_shared = len(inputs) - n_states - 1  # operands between the sequence and its states: biases
        if not all((batch.refs[:, j] == batch.refs[0, j]).all() for j in range(1, 1 + n_shared)):
            return run_each(batch)
        lengths = np.array([one.form.length for one in batch.kinds], np.int64)
        ones = np.ones(len(lengths), np.int64)
        counts = [lengths, *[ones[:1]] * n_shared, *[ones] * n_states]
        wants_grad = any(batch.kind.tracked)
        given = []
        for j, (n, (row, tracked)) in enumerate(zip(counts, inputs, strict=True)):
            values = batch.refs[: len(n), j]
            array = batch.run.values.gather_pieces(values, n, row.shape, row.dtype.numpy)
            is_shared = 1 <= j <= n_shared
            given.append(on_tape(array.reshape(row.shape) if is_shared else array, tracked and wants_grad))
        packing = packing_of(Rows.of_lengths(lengths))
        made = recorded(wants_grad, lambda: _packed(op, attrs, batch.kinds[0], given, n_shared, packing))
        of_results = []
        for i, t in enumerate(batch.kind.results):
            if i < len(made):
                width = made[i].shape[-1]
                of_results.append((lengths if i == 0 else ones) * width)
                batch.leave(i, of_results[i], elements(made[i], t.dtype))
            else:  # what only gradients of the op itself read
                of_results.append(ones * 0)
        layouts: list[Layout | None] = []
        for j, (n, (row, _)) in enumerate(zip(counts, inputs, strict=True)):
            layouts.append(Layout(n * row.numel(), values=batch.refs[: len(n), j]))
        captured = list({id(t): t for one in batch.kinds for t in one.captured}.values())
        results = [[y] for y in made] + [[] for _ in batch.kind.results[len(made) :]]
        saved = (results, [*[[x] if x.requires_grad else None for x in given], None])
        return batch.group(TapeRunner(captured), saved, np.array(of_results), [*layouts, None])


def _packed(op: type[Op], attrs: Any, kind: OpKind, given: list[Tensor], n_shared: int, packing: Any) -> list[Tensor]:
    """The outputs in the order of the sequences, and their final states."""
    x, shared, states = given[0], given[1 : 1 + n_shared], given[1 + n_shared :]
    operands = iter([x.index_select(0, packing.elements), *shared, *[s.index_select(0, packing.order) for s in states]])
    inputs = [next(operands) if slot is None else slot[0] for slot in kind.slots[:-1]]
    output, *others = apply(op, (*inputs, packing.sizes), dict(attrs))
    finals = [state.index_select(0, packing.ranks) for state in others[: len(states)]]
    return [output.index_select(0, packing.places), *finals]


def sequence_form(kind: OpKind) -> SequenceForm | None:
    n_states = _STATES.get(kind.op.name)
    if n_states is None or len(kind.inputs) < n_states + 2 or kind.slots[0] is not None or kind.slots[-1] is not None:
        return None
    x, *between, _ = kind.inputs
    states = between[len(between) - n_states :]
    if any(not isinstance(i.type, TensorType) for i in kind.inputs) or any(s.type.shape[0] != 1 for s in states):
        return None
    if any(slot is not None for slot in kind.slots[-1 - n_states :]) or not x.type.shape[0]:
        return None
    rows = [x, *states]
    inputs = tuple(
        [
            (TensorType(i.type.shape[1:], i.type.dtype) if any(i is r for r in rows) else i.type, i.tracked)
            for i in kind.inputs[:-1]
        ]
    )
    slots = tuple([-1 if s is None else (None if s[0] is None else id(s[0])) for s in kind.slots])
    return SequenceForm(kind.op, tuple(kind.attrs.items()), inputs, slots, x.type.shape[0])
