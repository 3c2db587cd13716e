"""Control flow: If, Loop and Scan, whose bodies are graphs that read values from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import ops
from ...core.context import CONTEXT
from ...core.tensor import Tensor
from ...core.types import int64
from ...errors import ArgumentError, ShapeError, UnsupportedError
from ..control_flow import cond, scan, while_loop
from .reading import element_type
from .sizes import MAX_BYTES, axis_in
from .table import Ints, Results, Value, operator

if TYPE_CHECKING:
    from .graphs import GraphBody, Run

OVERHEAD = 256  # bytes of a tensor beside its values


@operator("If")
def if_(condition: Value, *, then_branch: GraphBody, else_branch: GraphBody, scope: Run) -> Results:
    """The results of one branch. By `ex.cond`, so that a program keeps both, unless sizes decide."""
    if not isinstance(condition, Tensor):
        return tuple((then_branch if condition.reshape(()) else else_branch).run(scope, ()))
    return tuple(
        cond(
            condition.reshape(()),
            lambda: tuple(then_branch.run(scope, ())),
            lambda: tuple(else_branch.run(scope, ())),
        )
    )


@operator("Loop")
def loop(
    limit: Ints | None = None, condition: Tensor | None = None, *states: Tensor, body: GraphBody, scope: Run
) -> Results:
    """At most `limit` steps, while the condition holds; states may change their shapes. Then the last states and what
    each step gave beside them, stacked."""
    if len(body.inputs) != 2 + len(states) or len(body.outputs) < 1 + len(states):
        raise ArgumentError(
            f"the body must take {2 + len(states)} values and give at least {1 + len(states)}, it takes "
            f"{len(body.inputs)} and gives {len(body.outputs)}"
        )
    n_states = len(states)
    if hasattr(CONTEXT.get().interceptor, "trace_while"):
        if len(body.outputs) == 1 + n_states:
            return _kept_loop(limit, condition, states, body, scope)
        if limit and condition is None and _never_stops(body):
            return _kept_scan(limit[0], states, body, scope)
    going: Tensor = ops.tensor(True) if condition is None else condition
    kept: list[list[Tensor]] = [[] for _ in body.outputs[1 + n_states :]]
    n_bytes = step = 0
    while (not limit or step < limit[0]) and bool(going):
        going, *rest = body.run(scope, (ops.tensor(step, dtype=int64), going, *states))
        states = tuple(rest[:n_states])
        for column, value in zip(kept, rest[n_states:], strict=True):
            column.append(value)
            n_bytes += value.numel() * value.element_size() + OVERHEAD
        if n_bytes > MAX_BYTES:
            raise ShapeError(f"after {step + 1} steps its results take more than {MAX_BYTES >> 30} GiB")
        step += 1
    stacked = [
        ops.stack(column) if column else _nothing(declared)
        for column, declared in zip(kept, body.output_types[1 + n_states :], strict=True)
    ]
    return (*states, *stacked)


def _kept_loop(
    limit: Ints | None, condition: Tensor | None, states: tuple[Tensor, ...], body: GraphBody, scope: Run
) -> Results:
    """The loop as one that an exported program keeps: states keep their types, and nothing is stacked."""

    def goes_on(step: Tensor, going: Tensor, *states: Tensor) -> Tensor:
        return going.reshape(()) if not limit else ops.logical_and(going.reshape(()), step < limit[0])

    def run(step: Tensor, going: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        return (step + 1, *body.run(scope, (step, going, *states)))

    going = ops.tensor(True) if condition is None else condition
    return tuple(while_loop(goes_on, run, (ops.tensor(0, dtype=int64), going, *states))[2:])


def _never_stops(body: GraphBody) -> bool:
    """Whether a body hands its condition on as it came, so that the limit alone ends its loop."""
    going, out = body.inputs[1], body.outputs[0]
    handed_on = (s for s in body.steps if s.operator.name == "Identity" and s.outputs == (out,))
    return out == going or any(s.arguments[0].key == going for s in handed_on)


def _kept_scan(limit: int, states: tuple[Tensor, ...], body: GraphBody, scope: Run) -> Results:
    """The loop as a scan over the numbers of its steps, which an exported program keeps."""
    n_states = len(states)

    def run(states: tuple[Tensor, ...], step: Tensor) -> tuple[Any, Any]:
        _, *made = body.run(scope, (step, ops.tensor(True), *states))
        return tuple(made[:n_states]), tuple(made[n_states:])

    last, stacked = scan(run, states, ops.arange(limit, dtype=int64))
    return (*last, *stacked)


def _nothing(declared: Any) -> Tensor:
    """The stacked results of no step, by the type that the file declares."""
    dims = declared.tensor_type.shape.dim
    return ops.zeros(0, *(max(0, d.dim_value) for d in dims), dtype=element_type(declared.tensor_type.elem_type))


@operator("Scan")
def scan_(
    *values: Tensor, body: GraphBody, num_scan_inputs: int, directions: Ints | None = None,
    scan_input_axes: Ints | None = None, scan_input_directions: Ints | None = None,
    scan_output_axes: Ints | None = None, scan_output_directions: Ints | None = None, scope: Run, opset: int,
) -> Results:  # fmt: skip
    """The body for each slice of the last inputs; states keep their types. By `ex.scan`.

    In opset 8 the first input was the lengths of sequences, and all others had a batch dimension in front.
    """
    axes = scan_input_axes, scan_input_directions or directions, scan_output_axes, scan_output_directions
    if opset >= 9:
        return _scanned(values, body, num_scan_inputs, axes, scope)
    if values[0] is not None:
        raise UnsupportedError(
            "Scan of opset 8 with lengths of sequences is not supported; convert the file with "
            "onnx.version_converter.convert_version(model, 21)"
        )
    samples = [_scanned(each, body, num_scan_inputs, axes, scope) for each in zip(*values[1:], strict=True)]
    return tuple(ops.stack(column) for column in zip(*samples, strict=True))


def _scanned(
    values: Sequence[Tensor], body: GraphBody, num_scan_inputs: int, axes: tuple[Ints | None, ...], scope: Run
) -> tuple[Tensor, ...]:
    scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions = axes
    n_xs = num_scan_inputs
    n_states = len(values) - n_xs
    n_results = len(body.outputs) - n_states
    if n_xs < 1 or n_states < 0 or n_results < 0 or len(body.inputs) != len(values):
        raise ArgumentError(f"num_scan_inputs is {n_xs}, which does not fit {len(values)} inputs and the body")
    xs = []
    for x, axis, backwards in zip(
        values[n_states:], _per(scan_input_axes, n_xs), _per(scan_input_directions, n_xs), strict=True
    ):
        rows = x.movedim(axis_in(axis, x.ndim), 0)
        xs.append(rows.flip(0) if backwards else rows)

    def step(states: tuple[Tensor, ...], slices: tuple[Tensor, ...]) -> tuple[Any, Any]:
        made = body.run(scope, (*states, *slices))
        return tuple(made[:n_states]), tuple(made[n_states:])

    last, stacked = scan(step, tuple(values[:n_states]), tuple(xs))
    results = []
    for y, axis, backwards in zip(
        stacked, _per(scan_output_axes, n_results), _per(scan_output_directions, n_results), strict=True
    ):
        rows = y.flip(0) if backwards else y
        results.append(rows.movedim(0, axis_in(axis, y.ndim)))
    return (*last, *results)


def _per(values: Ints | None, n: int) -> Ints:
    return [0] * n if values is None else values
