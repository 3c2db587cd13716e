"""RNN, GRU and LSTM: by the library's own recurrent ops where a file asks for what they do, else step by step.

The format has weights for each direction, (directions, gates * hidden, ...), in another order of gates than the
library; they are put in order where they are used, so that the parameters keep the file's shape and names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ... import ops
from ...core.tensor import Tensor, from_array
from ...core.types import int64
from ...dispatch.dispatcher import apply
from ...errors import ArgumentError, ShapeError, UnsupportedError
from ...nn import functional as F
from ...ops.recurrence import GruSequence, LstmSequence, RnnSequence
from .table import Floats, Ints, Results, Strings, operator

States = tuple[Tensor, ...]
Activation = Callable[[Tensor], Tensor]
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


class Layer(NamedTuple):
    """One direction: its weights as the file has them, and its activations."""

    w: Tensor
    r: Tensor
    w_bias: Tensor | None
    r_bias: Tensor | None
    peepholes: Tensor | None
    backwards: bool
    names: list[str]  # of its activations
    functions: list[Activation]
    clip: float | None


Whole = Callable[[Layer, Tensor, Tensor, States], tuple[Tensor, States]]
OneStep = Callable[[Layer, Tensor, States], States]


# ---- activations

_PLAIN: dict[str, Activation] = {
    "relu": F.relu, "tanh": ops.tanh, "sigmoid": ops.sigmoid, "softsign": F.softsign, "softplus": F.softplus
}  # fmt: skip
# Functions of (x, alpha, beta), with the defaults of both; a None is never consumed from the file's list.
_WITH_NUMBERS: dict[str, tuple[Callable[[Tensor, float, float], Tensor], float | None, float | None]] = {
    "affine": (lambda x, a, b: x * a + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: F.leaky_relu(x, a), 0.01, None),
    "thresholdedrelu": (lambda x, a, b: ops.where(x > a, x, ops.zeros_like(x)), 1.0, None),
    "scaledtanh": (lambda x, a, b: ops.tanh(x * b) * a, 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: ops.clamp(x * a + b, 0.0, 1.0), 0.2, 0.5),
    "elu": (lambda x, a, b: F.elu(x, a), 1.0, None),
}


def _activations(names: Sequence[str], alpha: Sequence[float], beta: Sequence[float]) -> list[Activation]:
    """The functions of these names; alpha and beta are consumed in order by those that have them."""
    alphas, betas = list(alpha), list(beta)
    found: list[Activation] = []
    for name in names:
        if name in _PLAIN:
            found.append(_PLAIN[name])
        elif name in _WITH_NUMBERS:
            function, a, b = _WITH_NUMBERS[name]
            a = alphas.pop(0) if a is not None and alphas else a
            b = betas.pop(0) if b is not None and betas else b
            found.append(lambda x, f=function, a=a or 0.0, b=b or 0.0: f(x, a, b))  # type: ignore[misc] # bound now
        else:
            known = ", ".join((*_PLAIN, *_WITH_NUMBERS))
            raise UnsupportedError(f"the activation {name!r} of a recurrent layer is none of {known}")
    return found


# ---- what all three share


class RecurrentOptions(NamedTuple):
    """The attributes that all three have, and the number of gates."""

    activations: list[str]
    alpha: list[float]
    beta: list[float]
    clip: float | None
    direction: str
    hidden_size: int | None
    layout: int
    n_gates: int


def _layers(
    w: Tensor, r: Tensor, b: Tensor | None, p: Tensor | None, options: RecurrentOptions, defaults: list[str]
) -> list[Layer]:
    if options.direction not in DIRECTIONS:
        raise ArgumentError(f"direction must be one of {', '.join(DIRECTIONS)}, got {options.direction!r}")
    ways = DIRECTIONS[options.direction]
    hidden = r.shape[-1]
    gates = options.n_gates * hidden
    if w.ndim != 3 or r.shape != (len(ways), gates, hidden) or w.shape[:2] != (len(ways), gates):
        raise ShapeError(
            f"expected weights W ({len(ways)}, {options.n_gates} * hidden, input) and R ({len(ways)}, "
            f"{options.n_gates} * hidden, hidden), got {tuple(w.shape)} and {tuple(r.shape)}"
        )
    if options.hidden_size not in (None, hidden):
        raise ShapeError(f"hidden_size is {options.hidden_size}, but R has shape {tuple(r.shape)}")
    if b is not None and b.shape != (len(ways), 2 * gates):
        raise ShapeError(f"expected the bias B ({len(ways)}, {2 * gates}), got {tuple(b.shape)}")
    n = len(defaults)
    names = [name.lower() for name in options.activations] or defaults * len(ways)
    if len(names) != n * len(ways):
        raise ShapeError(f"expected {n * len(ways)} activations, {n} for each direction, got {len(names)}")
    functions = _activations(names, options.alpha, options.beta)
    return [
        Layer(
            w[i], r[i], None if b is None else b[i, :gates], None if b is None else b[i, gates:],
            None if p is None else p[i], backwards, names[i * n : i * n + n], functions[i * n : i * n + n],
            options.clip,
        )
        for i, backwards in enumerate(ways)
    ]  # fmt: skip


def _run(
    x: Tensor, layers: list[Layer], lengths: list[int] | None, initial: Sequence[Tensor | None], layout: int,
    whole: Whole, step: OneStep, is_plain: Callable[[Layer], bool],
) -> Results:  # fmt: skip
    """Y (steps, directions, batch, hidden) and final states (directions, batch, hidden), or batch first."""
    if x.ndim != 3:
        raise ShapeError(f"expected X (steps, batch, features), got shape {tuple(x.shape)}")
    if layout:
        x = x.transpose(0, 1)
        initial = [None if s is None else s.transpose(0, 1) for s in initial]
    n_steps, n_samples = x.shape[:2]
    hidden = layers[0].r.shape[-1]
    if lengths is not None and (len(lengths) != n_samples or not all(0 <= n <= n_steps for n in lengths)):
        raise ShapeError(f"sequence_lens must be {n_samples} numbers from 0 to {n_steps}, got {lengths[:8]}")
    if lengths is not None and all(n == n_steps for n in lengths):
        lengths = None
    zeros = ops.zeros(n_samples, hidden, dtype=x.dtype)
    outputs, finals = [], []
    for i, layer in enumerate(layers):
        states = tuple(zeros if s is None else s[i] for s in initial)
        if is_plain(layer):
            y, final = _packed(x, layer, lengths, states, whole)
        else:
            y, final = _stepwise(x, layer, lengths, states, step)
        outputs.append(y)
        finals.append(final)
    y = ops.stack(outputs, 1)
    last = tuple(ops.stack(states) for states in zip(*finals, strict=True))
    if not layout:
        return (y, *last)
    return (y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in last))


def _packed(x: Tensor, layer: Layer, lengths: list[int] | None, states: States, whole: Whole) -> tuple[Tensor, States]:
    """By one op over the rows of all sequences that are there, the longest first."""
    n_steps, n_samples = x.shape[:2]
    hidden = layer.r.shape[-1]
    rows = x.reshape(n_steps * n_samples, x.shape[2])
    if lengths is None:
        sizes = ops.full((n_steps,), n_samples, dtype=int64)
        y, final = whole(layer, rows, sizes, states)
        return y.reshape(n_steps, n_samples, hidden), final
    order = np.argsort([-n for n in lengths], kind="stable")
    counts = [sum(n > t for n in lengths) for t in range(n_steps)]
    parts = [t * n_samples + order[:n] for t, n in enumerate(counts)]
    index = from_array(np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64))
    there, back = from_array(order), from_array(np.argsort(order))
    sizes = from_array(np.array(counts, np.int64))
    y, final = whole(layer, rows.index_select(0, index), sizes, tuple(s.index_select(0, there) for s in states))
    y = ops.zeros(n_steps * n_samples, hidden, dtype=x.dtype).index_add(0, index, y)
    return y.reshape(n_steps, n_samples, hidden), tuple(s.index_select(0, back) for s in final)


def _stepwise(
    x: Tensor, layer: Layer, lengths: list[int] | None, states: States, step: OneStep
) -> tuple[Tensor, States]:
    """Step after step; a sequence that is not there yet, or no more, keeps its state and gives zeros."""
    ends = None if lengths is None else ops.tensor(lengths).unsqueeze(1)
    given = F.linear(x, layer.w, layer.w_bias)
    outputs = [ops.zeros_like(states[0])] * x.shape[0]
    for t in reversed(range(x.shape[0])) if layer.backwards else range(x.shape[0]):
        after = step(layer, given[t], states)
        if ends is None:
            states, outputs[t] = after, after[0]
        else:
            there = ends > t
            states = tuple(ops.where(there, new, old) for new, old in zip(after, states, strict=True))
            outputs[t] = ops.where(there, after[0], ops.zeros_like(after[0]))
    y = ops.stack(outputs) if outputs else ops.zeros(0, *states[0].shape, dtype=x.dtype)
    return y, states


def _ordered(t: Tensor | None, order: Sequence[int]) -> Tensor | None:
    """Gates of a weight or bias in another order."""
    if t is None:
        return None
    parts = t.chunk(len(order), 0)
    return ops.cat([parts[i] for i in order])


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if b is None or a is None else a + b


def _clipped(layer: Layer, x: Tensor) -> Tensor:
    return x if layer.clip is None else ops.clamp(x, -layer.clip, layer.clip)


# ---- the three operators


@operator("RNN")
def rnn(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, sequence_lens: Ints | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: Floats | None = None, activation_beta: Floats | None = None,
    activations: Strings | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0,
) -> Results:  # fmt: skip
    """h = f(W x + R h + b)."""
    options = RecurrentOptions(
        activations or [], activation_alpha or [], activation_beta or [], clip, direction, hidden_size, layout, 1
    )
    layers = _layers(w, r, b, None, options, ["tanh"])

    def whole(layer: Layer, rows: Tensor, sizes: Tensor, states: States) -> tuple[Tensor, States]:
        inputs = (rows, layer.w, _both(layer.w_bias, layer.r_bias), layer.r, *states, sizes)
        y, h, _ = apply(RnnSequence, inputs, {"relu": layer.names == ["relu"], "backwards": layer.backwards})
        return y, (h,)

    def step(layer: Layer, given: Tensor, states: States) -> States:
        return (layer.functions[0](_clipped(layer, given + F.linear(states[0], layer.r, layer.r_bias))),)

    def is_plain(layer: Layer) -> bool:
        return clip is None and layer.names[0] in ("tanh", "relu")

    return _run(x, layers, sequence_lens, [initial_h], layout, whole, step, is_plain)


@operator("GRU")
def gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, sequence_lens: Ints | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: Floats | None = None, activation_beta: Floats | None = None,
    activations: Strings | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0,
) -> Results:  # fmt: skip
    """Gates z, r, h; the reset gate stands before or after the product with R."""
    options = RecurrentOptions(
        activations or [], activation_alpha or [], activation_beta or [], clip, direction, hidden_size, layout, 3
    )
    layers = _layers(w, r, b, None, options, ["sigmoid", "tanh"])

    def whole(layer: Layer, rows: Tensor, sizes: Tensor, states: States) -> tuple[Tensor, States]:
        weights = [_ordered(t, (1, 0, 2)) for t in (layer.w, layer.w_bias, layer.r, layer.r_bias)]
        y, h, *_ = apply(GruSequence, (rows, *weights, *states, sizes), {"backwards": layer.backwards})
        return y, (h,)

    def step(layer: Layer, given: Tensor, states: States) -> States:
        (h,) = states
        n = h.shape[1]
        f, g = layer.functions
        bias = layer.r_bias
        before = F.linear(h, layer.r[: 2 * n], None if bias is None else bias[: 2 * n])
        z, reset = f(_clipped(layer, given[:, : 2 * n] + before)).chunk(2, 1)
        last, last_bias = layer.r[2 * n :], None if bias is None else bias[2 * n :]
        if linear_before_reset:
            new = given[:, 2 * n :] + reset * F.linear(h, last, last_bias)
        else:
            new = given[:, 2 * n :] + F.linear(reset * h, last, last_bias)
        new = g(_clipped(layer, new))
        return ((1 - z) * new + z * h,)

    def is_plain(layer: Layer) -> bool:
        return bool(linear_before_reset) and clip is None and layer.names == ["sigmoid", "tanh"]

    return _run(x, layers, sequence_lens, [initial_h], layout, whole, step, is_plain)


@operator("LSTM")
def lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, sequence_lens: Ints | None = None,
    initial_h: Tensor | None = None, initial_c: Tensor | None = None, p: Tensor | None = None, *,
    activation_alpha: Floats | None = None, activation_beta: Floats | None = None, activations: Strings | None = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None, input_forget: int = 0,
    layout: int = 0,
) -> Results:  # fmt: skip
    """Gates i, o, f, c; peepholes let i, o and f read the cell."""
    options = RecurrentOptions(
        activations or [], activation_alpha or [], activation_beta or [], clip, direction, hidden_size, layout, 4
    )
    layers = _layers(w, r, b, p, options, ["sigmoid", "tanh", "tanh"])

    def whole(layer: Layer, rows: Tensor, sizes: Tensor, states: States) -> tuple[Tensor, States]:
        order = (0, 2, 3, 1)
        bias = _ordered(_both(layer.w_bias, layer.r_bias), order)
        inputs = (rows, _ordered(layer.w, order), bias, _ordered(layer.r, order), *states, sizes)
        y, h, c, *_ = apply(LstmSequence, inputs, {"backwards": layer.backwards})
        return y, (h, c)

    def step(layer: Layer, given: Tensor, states: States) -> States:
        h, c = states
        f, g, last = layer.functions
        i, o, forget, new = (given + F.linear(h, layer.r, layer.r_bias)).chunk(4, 1)
        eyes = (None, None, None) if layer.peepholes is None else layer.peepholes.chunk(3)
        i = f(_clipped(layer, i if eyes[0] is None else i + eyes[0] * c))
        forget = 1 - i if input_forget else f(_clipped(layer, forget if eyes[2] is None else forget + eyes[2] * c))
        c = forget * c + i * g(_clipped(layer, new))
        o = f(_clipped(layer, o if eyes[1] is None else o + eyes[1] * c))
        return o * last(c), c

    def is_plain(layer: Layer) -> bool:
        usual = clip is None and not input_forget and layer.peepholes is None
        return usual and layer.names == ["sigmoid", "tanh", "tanh"]

    return _run(x, layers, sequence_lens, [initial_h, initial_c], layout, whole, step, is_plain)
