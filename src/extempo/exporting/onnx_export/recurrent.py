"""Recurrent layers over packed rows as ONNX's LSTM, GRU and RNN.

ONNX reads (time, batch, features) with a length for each sequence. Rows of a full batch are that already; others are
spread out, by places that follow from `sizes`, and gathered again. onnxruntime ends the process on a batch of no
sequences or steps, so those are told apart by an If.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.types import int32, int64
from .builder import Builder, OnnxValue

# The order of ONNX's gates among ours: i, f, g, o -> i, o, f, c; r, z, n -> z, r, h.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def sequence(
    b: Builder,
    kind: str,
    x: OnnxValue,
    weights: tuple[OnnxValue, OnnxValue],
    biases: tuple[OnnxValue | None, OnnxValue | None],
    states: Sequence[OnnxValue],
    sizes: OnnxValue,
    backwards: bool,
    activation: str | None = None,
) -> tuple[OnnxValue, ...]:
    """Outputs as packed rows, then the final states."""
    assert x.shape is not None
    assert states[0].shape is not None
    assert sizes.shape is not None
    n_steps, (n_samples, hidden) = sizes.shape[0], states[0].shape
    attrs = {
        "hidden_size": hidden,
        "direction": "reverse" if backwards else "forward",
        "linear_before_reset": 1 if kind == "GRU" else None,
        "activations": None if activation is None else [activation],
    }
    is_full = b.times(n_steps, n_samples) == b.plus(x.shape[0], 0)
    given = [_ordered(b, kind, w, hidden) for w in weights]
    bias = _bias(b, kind, biases, hidden, x)

    def run() -> list[OnnxValue]:
        lengths, there = (None, None) if is_full else _lengths(b, sizes, n_samples)
        steps = _steps(b, x, sizes, n_steps, n_samples, there)
        inits = [b.Unsqueeze(s, [0]) for s in states]
        short = None if lengths is None else b.cast(lengths, int32)
        made = b.emit(kind, steps, *given, bias, short, *inits, n_results=1 + len(states), result=x.dtype, **attrs)
        rows = b.Squeeze(made[0], [1])
        if there is None:
            rows = b.reshape(rows, (x.shape[0], hidden))  # type: ignore[index] # asserted above
        else:
            rows = b.GatherND(rows, b.Transpose(b.NonZero(there), perm=(1, 0)))
        finals = [b.Squeeze(final, [0]) for final in made[1:]]
        if lengths is not None:  # a sequence of no step keeps its state
            is_empty = b.Unsqueeze(b.Equal(lengths, 0), [1])
            finals = [b.Where(is_empty, s, final) for s, final in zip(states, finals, strict=True)]
        return [rows, *finals]

    n_given = b.times(n_steps, n_samples)
    if isinstance(n_given, int) and n_given > 0:
        return tuple(run())
    return _guarded(b, b.Greater(b.size(n_given), 0), run, x, states)


def _guarded(
    b: Builder, is_there: OnnxValue, run: Any, x: OnnxValue, states: Sequence[OnnxValue]
) -> tuple[OnnxValue, ...]:
    """What `run` gives, or nothing and the states as they were."""
    assert x.shape is not None
    assert states[0].shape is not None
    shapes = [(x.shape[0], states[0].shape[1]), *(s.shape for s in states)]
    with b.block() as layer:
        layer.outputs = [OnnxValue(v.name, x.dtype, shape) for v, shape in zip(run(), shapes, strict=True)]
    with b.block() as empty:
        rows = b.full((0, states[0].shape[1]), 0, x.dtype)
        empty.outputs = [OnnxValue(rows.name, x.dtype, (0, states[0].shape[1])), *states]
    branches = {"then_branch": b.graph(layer, b.name("layer")), "else_branch": b.graph(empty, b.name("no_steps"))}
    made: tuple[OnnxValue, ...] = b.emit("If", is_there, n_results=len(shapes), result=x.dtype, **branches)
    return made


def _ordered(b: Builder, kind: str, weight: OnnxValue, hidden: int) -> OnnxValue:
    """A weight or bias with its gates in ONNX's order, and a leading dimension for the direction."""
    order = np.concatenate([np.arange(g * hidden, (g + 1) * hidden) for g in _GATES[kind]])
    made: OnnxValue = b.Unsqueeze(weight if len(order) == hidden else b.Gather(weight, order, axis=0), [0])
    return made


def _bias(
    b: Builder, kind: str, biases: tuple[OnnxValue | None, OnnxValue | None], hidden: int, x: OnnxValue
) -> OnnxValue | None:
    if biases == (None, None):
        return None
    nothing = np.zeros((1, len(_GATES[kind]) * hidden))
    parts = [b.constant(nothing, x.dtype) if v is None else _ordered(b, kind, v, hidden) for v in biases]
    made: OnnxValue = b.Concat(*parts, axis=1)
    return made


def _lengths(b: Builder, sizes: OnnxValue, n_samples: Any) -> tuple[OnnxValue, OnnxValue]:
    """The steps of each sequence, and where (time, batch) there is one."""
    there = b.Greater(b.Unsqueeze(sizes, [1]), b.Unsqueeze(b.range(n_samples), [0]))
    return b.reduce("ReduceSum", b.cast(there, int64), [0], False), there


def _steps(
    b: Builder, x: OnnxValue, sizes: OnnxValue, n_steps: Any, n_samples: Any, there: OnnxValue | None
) -> OnnxValue:
    """The rows as (time, batch, features)."""
    assert x.shape is not None
    if there is None:
        return b.reshape(x, (n_steps, n_samples, x.shape[1]))
    first = b.Sub(b.emit("CumSum", sizes, b.size(0)), sizes)
    # Not by Unsqueeze: onnx takes unsqueezed vectors for shapes when it infers types, and fails to add them.
    places = b.Add(b.reshape(first, (n_steps, 1)), b.reshape(b.range(n_samples), (1, n_samples)))
    made: OnnxValue = b.Gather(x, b.Where(there, places, 0), axis=0)
    return made
