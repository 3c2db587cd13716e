"""A recurrent layer over packed rows as one op: LSTM, GRU and plain RNN, each with its gradient.

Rows are the first steps of all sequences, then all second steps, and so on; `sizes` (steps,) says how many sequences
have each step, and never grows: the sequences that end first stand last. Steps of no sequence may come at the end. `x`
(rows, features) has one row for each step of each sequence; what its product with `input_weight`, plus `input_bias` or
None, gives to the gates is computed for all rows at once. States (sequences, hidden) come in and go out in the order of
the sequences; a sequence of no step keeps its state. With `backwards` each sequence is read from its last step to its
first.

The lengths are values: no cache entry and no kernel depends on them. Beside outputs and final states an op returns what
its gradient reads: the gates, and the states before each step. The gradient with respect to the weight is one product
over all steps. A gradient that is itself differentiated is made of ops that can be.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import InputType, TensorType
from ..dispatch.dispatcher import apply
from .gemm import LinearGradient, Matmul
from .recurrence_steps import (
    Arrays,
    blocks,
    check_types,
    gru_gradient,
    is_composite,
    listed_sizes,
    lstm_gradient,
    rnn_gradient,
    rounded,
    sigmoid,
    stretches,
)
from .reduce import widened

_TWICE = "a gradient that is itself differentiated is made of ops that can be"


def _projected(x: Array, weight: Array, bias: Any) -> Array:
    product: Array = x @ weight.T
    return product if bias is None else product + bias


def _into_inputs(of_gates: Callable[[], Tensor], x: Any, weight: Any, bias: Any) -> tuple[Any, Any, Any]:
    """The gradients of x and of its weight and bias, from that of what they give to the gates."""

    @functools.cache
    def of_parameters() -> Any:
        return apply(LinearGradient, (of_gates(), x))

    # x was saved only if the weight needs a gradient; then that of the bias comes with it.
    into_bias = (lambda: of_parameters()[1]) if isinstance(x, Tensor) else of_gates
    return (
        lambda: apply(Matmul, (of_gates(), weight)),
        lambda: of_parameters()[0],
        None if bias is None else into_bias,
    )


# ---- LSTM


class _SequenceGradient(Op, abstract=True):
    """What the gradients of all sequences have in common."""

    family = "recurrence"
    batch = Refuse("looped over samples: each may have lengths of its own")
    ragged = IN_GRADIENTS_ONLY
    vjp = Refuse(_TWICE)
    saves = ()
    onnx = GRADIENTS_ONLY


class LstmSequence(Op):
    """An LSTM over packed rows; its weight is (4 * hidden, hidden), its states are h and c.

    Results: outputs, both final states, then gates (i, f, g, o) and both states before each step.
    """

    public_name = "lstm"
    family = "recurrence"
    materialize = False
    lower = Routine("lstm_sequence")
    batch = Refuse("looped over samples: each may have lengths of its own")
    ragged = Refuse("layers pack the rows first: its steps are those of all rows")
    saves = (
        "input_weight weight sizes y.3 y.5", "x weight sizes y.3 y.5", "weight sizes y.3 y.5",
        "weight sizes y.3 y.4 y.5", "weight sizes y.3 y.5", "weight sizes y.3 y.5", "",
    )  # fmt: skip

    @staticmethod
    def infer(
        x: TensorType, input_weight: TensorType, input_bias: InputType, weight: TensorType, h: TensorType,
        c: TensorType, sizes: InputType, *, backwards: bool,
    ) -> tuple[TensorType, ...]:  # fmt: skip
        n = h.shape[1]
        states = {"h": (h, h.shape), "c": (c, h.shape)}
        check_types("lstm_sequence", 4 * n, x, input_weight, input_bias, sizes, weight=(weight, (4 * n, n)), **states)
        each = TensorType((x.shape[0], n), x.dtype)
        return each, h, c, TensorType((x.shape[0], 4 * n), x.dtype), each, each

    @staticmethod
    def numpy(
        x: Array, input_weight: Array, input_bias: Any, weight: Array, h: Array, c: Array, sizes: Array, *,
        backwards: bool,
    ) -> tuple[Array, ...]:  # fmt: skip
        listed = listed_sizes("lstm_sequence", sizes, len(x), len(h))
        dtype, n = x.dtype, h.shape[1]
        x = _projected(*widened(x, input_weight, input_bias))
        weight, h, c = widened(weight, h.copy(), c.copy())
        rows, before_h, before_c = (np.empty((len(x), n), x.dtype) for _ in range(3))
        gates = np.empty_like(x)
        for at in stretches(listed, backwards):
            there = slice(at.stop - at.start)
            before_h[at], before_c[at] = h[there], c[there]
            i, f, new, o = blocks(x[at] + h[there] @ weight.T, n)
            i, f, new, o = sigmoid(i), sigmoid(f), np.tanh(new), sigmoid(o)
            gates[at] = np.concatenate((i, f, new, o), 1)
            c[there] = f * c[there] + i * new
            rows[at] = h[there] = o * np.tanh(c[there])
        return rounded(dtype, rows, h, c, gates, before_h, before_c)

    @staticmethod
    def vjp(
        g: Any, y: Any, x: Any, input_weight: Any, input_bias: Any, weight: Any, h: Any, c: Any, sizes: Any, *,
        backwards: bool,
    ) -> tuple[Any, ...]:  # fmt: skip
        _, _, _, gates, before_h, before_c = y
        attrs = {"backwards": backwards, "n_sequences": h.shape[0]}

        @functools.cache
        def gradients() -> Any:
            if is_composite(g[3:]):
                return lstm_gradient(ops, g, weight, gates, before_c, sizes.tolist(), **attrs)
            return apply(LstmSequenceGradient, (*g[:3], weight, gates, before_c, sizes), attrs)

        def into_weight() -> Tensor:
            product: Tensor = apply(Matmul, (gradients()[0].mT, before_h))
            return product

        inputs = _into_inputs(lambda: gradients()[0], x, input_weight, input_bias)
        return *inputs, into_weight, lambda: gradients()[1], lambda: gradients()[2], None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for k, (n, n_sequences, sizes, backwards) in enumerate(_cases()):
            inputs = _drawn_inputs(rng, sizes, 4 * n, k != 1)
            others = _drawn(rng, ((4 * n, n), (n_sequences, n), (n_sequences, n)))
            yield Sample(*inputs, *others, np.array(sizes, np.int64), backwards=backwards)

    @staticmethod
    def onnx(
        b: Any, x: Any, input_weight: Any, input_bias: Any, weight: Any, h: Any, c: Any, sizes: Any, *, backwards: bool
    ) -> tuple[Any, ...]:
        rows, h, c = b.recurrent("LSTM", x, (input_weight, weight), (input_bias, None), (h, c), sizes, backwards)
        return rows, h, c, None, None, None


class LstmSequenceGradient(_SequenceGradient):
    """The gradients of LstmSequence's gates and initial states, from those of its outputs and final states or None."""

    lower = Routine("lstm_sequence_gradient")

    @staticmethod
    def infer(
        of_rows: InputType, of_h: InputType, of_c: InputType, weight: TensorType, gates: TensorType,
        before_c: TensorType, sizes: TensorType, *, backwards: bool, n_sequences: int,
    ) -> tuple[TensorType, ...]:  # fmt: skip
        state = TensorType((n_sequences, weight.shape[1]), gates.dtype)
        return gates, state, state

    @staticmethod
    def numpy(
        of_rows: Any, of_h: Any, of_c: Any, weight: Array, gates: Array, before_c: Array, sizes: Array, *,
        backwards: bool, n_sequences: int,
    ) -> tuple[Array, ...]:  # fmt: skip
        listed = listed_sizes("lstm_sequence", sizes, len(gates), n_sequences)
        of_rows, of_h, of_c, weight, computed, before_c = widened(of_rows, of_h, of_c, weight, gates, before_c)
        g = (of_rows, of_h, of_c, None, None, None)
        attrs: dict[str, Any] = {"backwards": backwards, "n_sequences": n_sequences}
        return rounded(
            gates.dtype, *map(np.array, lstm_gradient(Arrays, g, weight, computed, before_c, listed, **attrs))
        )

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for k, sample in enumerate(LstmSequence.samples(rng)):
            made = LstmSequence.numpy(*sample.inputs, **sample.attrs)
            g = [rng.normal(size=r.shape) if k != 1 + i else None for i, r in enumerate(made[:3])]
            inputs = (*g, sample.inputs[3], made[3], made[5], sample.inputs[6])
            yield Sample(*inputs, n_sequences=len(made[1]), **sample.attrs)


def _cases() -> Iterator[tuple[int, int, list[int], bool]]:
    """(hidden, sequences, sizes of steps, backwards) for samples."""
    yield 1, 2, [2, 1], False
    yield 1, 3, [2, 1], True  # one sequence of no step
    yield 2, 1, [1], False
    yield 2, 2, [], False


def _drawn_inputs(rng: Rng, sizes: Sequence[int], width: int, with_bias: bool) -> list[Any]:
    """x, its weight and its bias."""
    x, weight, bias = _drawn(rng, ((sum(sizes), 1), (width, 1), (width,)))
    return [x, weight, bias if with_bias else None]


def _drawn(rng: Rng, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    return [rng.normal(size=shape) for shape in shapes]


# ---- GRU


class GruSequence(Op):
    """A GRU over packed rows; its weight is (3 * hidden, hidden), with a bias of its own or None.

    Results: outputs, the final state, then the gates (r, z, n, and what the third one gets from the state) and the
    state before each step.
    """

    public_name = "gru"
    family = "recurrence"
    materialize = False
    lower = Routine("gru_sequence")
    batch = Refuse("looped over samples: each may have lengths of its own")
    ragged = Refuse("layers pack the rows first: its steps are those of all rows")
    saves = (
        "input_weight weight sizes y.2 y.3", "x weight sizes y.2 y.3", *("weight sizes y.2 y.3",) * 4, "",
    )  # fmt: skip

    @staticmethod
    def infer(
        x: TensorType, input_weight: TensorType, input_bias: InputType, weight: TensorType, bias: InputType,
        h: TensorType, sizes: InputType, *, backwards: bool,
    ) -> tuple[TensorType, ...]:  # fmt: skip
        n = h.shape[1]
        own = {"weight": (weight, (3 * n, n)), "bias": (bias, (3 * n,)), "h": (h, h.shape)}
        check_types("gru_sequence", 3 * n, x, input_weight, input_bias, sizes, **own)
        each = TensorType((x.shape[0], n), x.dtype)
        return each, h, TensorType((x.shape[0], 4 * n), x.dtype), each

    @staticmethod
    def numpy(
        x: Array, input_weight: Array, input_bias: Any, weight: Array, bias: Any, h: Array, sizes: Array, *,
        backwards: bool,
    ) -> tuple[Array, ...]:  # fmt: skip
        listed = listed_sizes("gru_sequence", sizes, len(x), len(h))
        dtype, n = x.dtype, h.shape[1]
        x = _projected(*widened(x, input_weight, input_bias))
        weight, bias, h = widened(weight, bias, h.copy())
        rows, before = (np.empty((len(x), n), x.dtype) for _ in range(2))
        gates = np.empty((len(x), 4 * n), x.dtype)
        for at in stretches(listed, backwards):
            there = slice(at.stop - at.start)
            before[at] = h[there]
            product = h[there] @ weight.T
            state = blocks(product if bias is None else product + bias, n)
            given = blocks(x[at], n)
            reset, update = sigmoid(given[0] + state[0]), sigmoid(given[1] + state[1])
            new = np.tanh(given[2] + reset * state[2])
            gates[at] = np.concatenate((reset, update, new, state[2]), 1)
            rows[at] = h[there] = new + update * (h[there] - new)
        return rounded(dtype, rows, h, gates, before)

    @staticmethod
    def vjp(
        g: Any, y: Any, x: Any, input_weight: Any, input_bias: Any, weight: Any, bias: Any, h: Any, sizes: Any, *,
        backwards: bool,
    ) -> tuple[Any, ...]:  # fmt: skip
        _, _, gates, before = y
        attrs = {"backwards": backwards, "n_sequences": h.shape[0]}

        @functools.cache
        def gradients() -> Any:
            if is_composite(g[2:]):
                return gru_gradient(ops, g, weight, gates, before, sizes.tolist(), **attrs)
            return apply(GruSequenceGradient, (*g[:2], weight, gates, before, sizes), attrs)

        @functools.cache
        def of_parameters() -> Any:
            return apply(LinearGradient, (gradients()[1], before))

        return (
            *_into_inputs(lambda: gradients()[0], x, input_weight, input_bias),
            lambda: of_parameters()[0],
            None if bias is None else lambda: of_parameters()[1],
            lambda: gradients()[2],
            None,
        )

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for k, (n, n_sequences, sizes, backwards) in enumerate(_cases()):
            inputs = _drawn_inputs(rng, sizes, 3 * n, k != 1)
            weight, bias, h = _drawn(rng, ((3 * n, n), (3 * n,), (n_sequences, n)))
            own = weight, bias if k % 2 == 0 else None, h
            yield Sample(*inputs, *own, np.array(sizes, np.int64), backwards=backwards)

    @staticmethod
    def onnx(
        b: Any,
        x: Any,
        input_weight: Any,
        input_bias: Any,
        weight: Any,
        bias: Any,
        h: Any,
        sizes: Any,
        *,
        backwards: bool,
    ) -> tuple[Any, ...]:
        rows, h = b.recurrent("GRU", x, (input_weight, weight), (input_bias, bias), (h,), sizes, backwards)
        return rows, h, None, None


class GruSequenceGradient(_SequenceGradient):
    """The gradients of GruSequence's gates, of what comes from the state in its place, and of the initial state.

    From those of its outputs and of its final state (or None).
    """

    lower = Routine("gru_sequence_gradient")

    @staticmethod
    def infer(
        of_rows: InputType, of_h: InputType, weight: TensorType, gates: TensorType, before: TensorType,
        sizes: TensorType, *, backwards: bool, n_sequences: int,
    ) -> tuple[TensorType, ...]:  # fmt: skip
        n = weight.shape[1]
        rows = TensorType((gates.shape[0], 3 * n), gates.dtype)
        return rows, rows, TensorType((n_sequences, n), gates.dtype)

    @staticmethod
    def numpy(
        of_rows: Any, of_h: Any, weight: Array, gates: Array, before: Array, sizes: Array, *,
        backwards: bool, n_sequences: int,
    ) -> tuple[Array, ...]:  # fmt: skip
        listed = listed_sizes("gru_sequence", sizes, len(gates), n_sequences)
        of_rows, of_h, weight, computed, before = widened(of_rows, of_h, weight, gates, before)
        attrs: dict[str, Any] = {"backwards": backwards, "n_sequences": n_sequences}
        made = gru_gradient(Arrays, (of_rows, of_h, None, None), weight, computed, before, listed, **attrs)
        return rounded(gates.dtype, *map(np.array, made))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for k, sample in enumerate(GruSequence.samples(rng)):
            made = GruSequence.numpy(*sample.inputs, **sample.attrs)
            g = [rng.normal(size=r.shape) if k != 1 + i else None for i, r in enumerate(made[:2])]
            inputs = (*g, sample.inputs[3], *made[2:], sample.inputs[6])
            yield Sample(*inputs, n_sequences=len(made[1]), **sample.attrs)


# ---- plain RNN


class RnnSequence(Op):
    """h = tanh(input + weight h), or `relu` of it, over packed rows.

    Results: outputs, the final state, the state before each step.
    """

    public_name = "rnn"
    family = "recurrence"
    materialize = False
    lower = Routine("rnn_sequence")
    batch = Refuse("looped over samples: each may have lengths of its own")
    ragged = Refuse("layers pack the rows first: its steps are those of all rows")
    saves = (
        "input_weight weight sizes y.0", "x weight sizes y.0", "weight sizes y.0", "weight sizes y.0 y.2",
        "weight sizes y.0", "",
    )  # fmt: skip

    @staticmethod
    def infer(
        x: TensorType, input_weight: TensorType, input_bias: InputType, weight: TensorType, h: TensorType,
        sizes: InputType, *, relu: bool, backwards: bool,
    ) -> tuple[TensorType, ...]:  # fmt: skip
        n = h.shape[1]
        own = {"weight": (weight, (n, n)), "h": (h, h.shape)}
        check_types("rnn_sequence", n, x, input_weight, input_bias, sizes, **own)
        each = TensorType((x.shape[0], n), x.dtype)
        return each, h, each

    @staticmethod
    def numpy(
        x: Array, input_weight: Array, input_bias: Any, weight: Array, h: Array, sizes: Array, *,
        relu: bool, backwards: bool,
    ) -> tuple[Array, ...]:  # fmt: skip
        listed = listed_sizes("rnn_sequence", sizes, len(x), len(h))
        dtype = x.dtype
        x = _projected(*widened(x, input_weight, input_bias))
        weight, h = widened(weight, h.copy())
        rows, before = np.empty_like(x), np.empty_like(x)
        for at in stretches(listed, backwards):
            there = slice(at.stop - at.start)
            before[at] = h[there]
            total = x[at] + h[there] @ weight.T
            rows[at] = h[there] = np.maximum(total, 0) if relu else np.tanh(total)
        return rounded(dtype, rows, h, before)

    @staticmethod
    def vjp(
        g: Any, y: Any, x: Any, input_weight: Any, input_bias: Any, weight: Any, h: Any, sizes: Any, *,
        relu: bool, backwards: bool,
    ) -> tuple[Any, ...]:  # fmt: skip
        rows, _, before = y
        attrs = {"relu": relu, "backwards": backwards, "n_sequences": h.shape[0]}

        @functools.cache
        def gradients() -> Any:
            if is_composite(g[2:]):
                return rnn_gradient(ops, g, weight, rows, sizes.tolist(), **attrs)
            return apply(RnnSequenceGradient, (*g[:2], weight, rows, sizes), attrs)

        def into_weight() -> Tensor:
            product: Tensor = apply(Matmul, (gradients()[0].mT, before))
            return product

        inputs = _into_inputs(lambda: gradients()[0], x, input_weight, input_bias)
        return *inputs, into_weight, lambda: gradients()[1], None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for k, (n, n_sequences, sizes, backwards) in enumerate(_cases()):
            inputs, own = _drawn_inputs(rng, sizes, n, k != 1), _drawn(rng, ((n, n), (n_sequences, n)))
            yield Sample(*inputs, *own, np.array(sizes, np.int64), relu=k % 2 == 1, backwards=backwards)

    @staticmethod
    def onnx(
        b: Any,
        x: Any,
        input_weight: Any,
        input_bias: Any,
        weight: Any,
        h: Any,
        sizes: Any,
        *,
        relu: bool,
        backwards: bool,
    ) -> tuple[Any, ...]:
        name = "Relu" if relu else "Tanh"
        rows, h = b.recurrent("RNN", x, (input_weight, weight), (input_bias, None), (h,), sizes, backwards, name)
        return rows, h, None


class RnnSequenceGradient(_SequenceGradient):
    """The gradients of RnnSequence's sums and initial state, from those of its outputs and final state (or None)."""

    lower = Routine("rnn_sequence_gradient")

    @staticmethod
    def infer(
        of_rows: InputType, of_h: InputType, weight: TensorType, rows: TensorType, sizes: TensorType, *,
        relu: bool, backwards: bool, n_sequences: int,
    ) -> tuple[TensorType, ...]:  # fmt: skip
        return rows, TensorType((n_sequences, weight.shape[1]), rows.dtype)

    @staticmethod
    def numpy(
        of_rows: Any, of_h: Any, weight: Array, rows: Array, sizes: Array, *,
        relu: bool, backwards: bool, n_sequences: int,
    ) -> tuple[Array, ...]:  # fmt: skip
        listed = listed_sizes("rnn_sequence", sizes, len(rows), n_sequences)
        of_rows, of_h, weight, computed = widened(of_rows, of_h, weight, rows)
        attrs: dict[str, Any] = {"relu": relu, "backwards": backwards, "n_sequences": n_sequences}
        made = rnn_gradient(Arrays, (of_rows, of_h, None), weight, computed, listed, **attrs)
        return rounded(rows.dtype, *map(np.array, made))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for k, sample in enumerate(RnnSequence.samples(rng)):
            made = RnnSequence.numpy(*sample.inputs, **sample.attrs)
            g = [rng.normal(size=r.shape) if k != 1 + i else None for i, r in enumerate(made[:2])]
            yield Sample(*g, sample.inputs[3], made[0], sample.inputs[5], n_sequences=len(made[1]), **sample.attrs)
