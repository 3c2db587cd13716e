"""Quantised programs: weights stored as int8 or float16, inputs of linear layers rounded to int8, and a report.

Weight-only quantisation rounds the weights; the program computes with the rounded weights in their own dtype, and its
file holds the small form. Dynamic quantisation also rounds what linear layers get, row by row, as an int8 kernel would.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..core.context import no_grad
from ..core.graph import Leaf, Node, Pick
from ..core.tensor import Tensor, from_array
from ..core.wording import counted
from ..errors import ArgumentError
from ..func.tree import leaves
from .calls import bind_sizes
from .editing import GraphEditor, edited
from .program import Program
from .sizes import at_sizes
from .storage import KINDS, is_storable, n_bytes, restored, stored, stored_weights

ROUNDS = 9  # of runs that are timed, of which the quickest counts


class Change(NamedTuple):
    """How far an output of the quantised program is from that of the other one."""

    output: str
    largest: float  # difference
    relative: float  # root of the mean square of differences, of that of the values
    same_choice: float  # share of rows with the same largest entry


class QuantizationReport:
    """What quantisation changed: bytes, results on some inputs, and, where `measure` was called, time.

    >>> program = ex.program(nn.Linear(64, 64).eval(), ex.randn(8, 64))
    >>> program.quantize("int8").report.kind
    'int8'
    """

    def __init__(
        self, before: Program, after: Program, kind: str, dynamic: int | None, calls: list[list[Tensor]]
    ) -> None:
        self.kind = kind
        self.n_dynamic = dynamic  # linear layers whose input is rounded, too; None where none were to be
        self.n_weights = len(before.weights)
        self.n_stored = len(after.storage)
        self.bytes_before = n_bytes(before.weights)
        self.bytes_after = n_bytes(stored_weights(after.weights, after.storage))
        self.n_calls = len(calls)
        self.changes = _changes(before, after, calls)
        self.seconds: tuple[float, float] | None = None
        self._programs = before, after
        self._calls = calls

    def measure(self, rounds: int = ROUNDS) -> QuantizationReport:
        """Time both programs on the same inputs, in turn; the report then has `seconds` before and after."""
        best = [float("inf")] * 2
        for _ in range(rounds + 1):
            for i, program in enumerate(self._programs):
                began = time.perf_counter()
                for call in self._calls:
                    _run(program, call)
                best[i] = min(best[i], (time.perf_counter() - began) / max(1, len(self._calls)))
        self.seconds = best[0], best[1]
        return self

    def __str__(self) -> str:
        dynamic = "" if self.n_dynamic is None else f", inputs of {counted(self.n_dynamic, 'linear layer')} rounded too"
        share = self.bytes_after / max(1, self.bytes_before)
        size = f"{self.bytes_before:,} -> {self.bytes_after:,} bytes in a file ({share:.0%}); in memory as before"
        lines = [f"{self.kind}: {self.n_stored} of {counted(self.n_weights, 'weight')}{dynamic}", f"size      {size}"]
        if self.seconds is not None:
            before, after = self.seconds
            lines.append(f"time      {before * 1e3:.3f} -> {after * 1e3:.3f} ms a call ({after / before:.2f} of it)")
        lines.append(f"accuracy  on {counted(self.n_calls, 'input')}")
        width = max((len(c.output) for c in self.changes), default=0)
        for c in self.changes:
            choice = "" if np.isnan(c.same_choice) else f", {c.same_choice:.1%} of rows have the same largest entry"
            lines.append(f"  {c.output:{width}}  differs by {c.relative:.2%}, at most {c.largest:.3g}{choice}")
        return "\n".join(lines)

    __repr__ = __str__


def quantized(program: Program, kind: str, examples: Sequence[Any], dynamic: bool) -> Program:
    """A program with rounded weights, and its report."""
    if kind not in KINDS:
        raise ArgumentError(f"quantize: kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    if dynamic and kind != "int8":
        raise ArgumentError(f"quantize: dynamic=True rounds to int8; {kind!r} has no such form")
    editor = GraphEditor(program.graph, program.weights, len(program.inputs), program.dims)
    n_dynamic = _round_inputs(editor) if dynamic else None
    made = edited(program, editor)
    fixed = {name: t for name, t in made.weights.items() if name not in made.state}
    made.storage = {name: kind for name, t in fixed.items() if is_storable(t, kind)}
    for name in made.storage:
        weight = made.weights[name]
        rounded = restored(name, weight._type, kind, stored(name, weight, kind))
        assert rounded is not None
        made.weights[name] = rounded
    made.report = QuantizationReport(program, made, kind, n_dynamic, _calls(program, examples))
    return made


def _round_inputs(editor: GraphEditor) -> int:
    """Let every linear layer whose weight is stored round its input."""
    found = [n for n in editor.find("linear") if isinstance(n.inputs[1], Node) and n.inputs[1].op in (Leaf, Pick)]
    for node in found:
        editor.replace(node, editor.call(_rounded_linear, *node.inputs))
    return len(found)


def _rounded_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear layer of an input that is rounded to 255 steps a row."""
    scale = x.detach().abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    made: Tensor = ops.linear((x / scale).round(), weight) * scale
    return made if bias is None else made + bias


# ---- inputs to compare on


def _calls(program: Program, examples: Sequence[Any]) -> list[list[Tensor]]:
    """The input tensors of the examples; without examples, of one call with numbers drawn for it."""
    calls = []
    for example in examples:
        args, kwargs = ((), example) if isinstance(example, dict) else (example, {})
        calls.append(program._tensors(args if isinstance(args, tuple) else (args,), kwargs))
    return calls or [_drawn(program)]


def _drawn(program: Program) -> list[Tensor]:
    generator = np.random.default_rng(0)
    sizes = {name: int(min(max(dim.min, 8), dim.max)) for name, dim in program.dims.items()}
    tensors = []
    for spec in program.inputs:
        type_ = at_sizes(spec.type, sizes)
        array = generator.standard_normal(type_.shape) if type_.dtype.is_floating_point else np.zeros(type_.shape)
        tensors.append(from_array(array.astype(type_.dtype.numpy)))
    bind_sizes(program.inputs, tensors, program.dims)
    return tensors


def _run(program: Program, call: Sequence[Tensor]) -> list[Any]:
    with no_grad():
        made = program._run(call, program.weights)
    return leaves(made[0] if program.state else made)


def _changes(before: Program, after: Program, calls: list[list[Tensor]]) -> list[Change]:
    columns: dict[str, list[tuple[Any, Any]]] = {name: [] for name in before.outputs}
    for call in calls:
        results = zip(_tensors(_run(before, call)), _tensors(_run(after, call)), strict=True)
        for name, (a, b) in zip(before.outputs, results, strict=True):
            columns[name].append((a.numpy().astype(np.float64), b.numpy().astype(np.float64)))
    return [_change(name, pairs) for name, pairs in columns.items() if pairs]


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    return [v for v in values if isinstance(v, Tensor)]


def _change(name: str, pairs: list[tuple[Any, Any]]) -> Change:
    alike = [(a, b) for a, b in pairs if a.shape == b.shape]
    differences = _flat(alike, lambda a, b: a - b)
    values = _flat(alike, lambda a, b: a)
    rows = [(a.argmax(-1) == b.argmax(-1)).ravel() for a, b in alike if a.ndim and a.shape[-1] > 1 and a.size]
    scale = float(np.sqrt(np.mean(values**2))) if values.size else 0.0
    error = float(np.sqrt(np.mean(differences**2))) if differences.size else 0.0
    return Change(
        name,
        float(np.abs(differences).max(initial=0.0)),
        error / scale if scale else error,
        float(np.concatenate(rows).mean()) if rows else float("nan"),
    )  # fmt: skip


def _flat(pairs: list[tuple[Any, Any]], of: Callable[[Any, Any], Any]) -> Any:
    return np.concatenate([of(a, b).ravel() for a, b in pairs]) if pairs else np.zeros(0)
