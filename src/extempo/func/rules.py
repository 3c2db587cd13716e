"""An op on all samples of a vmap at once: on physical tensors, by the op's batching rule.

A rule is "align" (the op broadcasts), "shift_dims" or "shift_dim" (its `dim` moves by one) or a function of the number
of samples and the physical inputs. Tensors that all samples share stay as they are where the op broadcasts, and are
expanded (not copied) elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.op import REGISTRY, Elementwise, Op, Refuse
from ..core.tensor import Tensor
from ..core.types import TensorType
from ..dispatch.dispatcher import apply
from ..dispatch.graph_tracer import trace_graph

if TYPE_CHECKING:
    from .levels import Level


def run_batched(
    level: Level,
    op: type[Op],
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    batched: list[Any],
    types: tuple[Any, ...],
    type_: Any,
) -> Any:
    """The op on physical tensors. `batched`: of each input its `Batched`; None for what all samples share."""
    rule: Any = op.batch
    if op.name == "embed" and callable(REGISTRY[attrs["op"]].batch):
        return _embed(level, inputs, **attrs)
    if isinstance(rule, Refuse):
        return level.loop(op, inputs, attrs, batched, type_)
    if rule == "align":
        return apply(op, _aligned(level, op, inputs, batched, types, attrs), attrs)
    result = _with_shared_weights(op, inputs, attrs, batched)
    if result is not None:
        return result
    full = [level.physical(x) if isinstance(x, Tensor) else x for x in inputs]
    if rule == "shift_dims":
        return _shifted(op, full, attrs, types)
    if rule == "shift_dim":
        return apply(op, tuple(full), attrs | {"dim": attrs["dim"] + 1})
    return rule(level.size, *full, **attrs)


def _shifted(op: type[Op], full: list[Any], attrs: dict[str, Any], types: tuple[Any, ...]) -> Any:
    """An op along dimensions, which are one further in physical tensors."""
    if not types[0].shape:  # the one element of each sample, as a dimension to reduce
        return apply(op, (full[0].unsqueeze(1), *full[1:]), attrs | {"dim": (1,), "keepdim": False})
    return apply(op, tuple(full), attrs | {"dim": tuple(d + 1 for d in attrs["dim"])})


def _aligned(
    level: Level, op: type[Op], inputs: tuple[Any, ...], batched: list[Any], types: Any, attrs: Any
) -> tuple[Any, ...]:
    """Physical inputs whose sample dimensions broadcast: ones between the batch dimension and the sample's own."""
    ndim = max(len(t.shape) for t in types if isinstance(t, TensorType))
    compute = compute_dtype(op, types, attrs)
    aligned = []
    for i, (x, values, t) in enumerate(zip(inputs, batched, types, strict=True)):
        # The first input of copy has the shape of the result, so it cannot stay unexpanded.
        if isinstance(x, Tensor) and (values is not None or op.name == "copy"):
            x = level.physical(x) if values is None else values.current()
            if len(t.shape) < ndim:
                x = x.reshape(level.size, *(1,) * (ndim - len(t.shape)), *t.shape)
            # A 0-dim tensor gives way in promotion; with a batch dimension it would not.
            is_condition = i == 0 and op.name == "where"
            if compute is not None and not t.shape and t.dtype.category == compute.category and not is_condition:
                x = x.to(compute)
        aligned.append(x)
    return tuple(aligned)


def compute_dtype(op: type[Op], types: tuple[Any, ...], attrs: Any) -> Any:
    """The dtype that an elementwise op computes in, where its inputs have more than one."""
    if attrs or not issubclass(op, Elementwise):
        return None
    dtypes = {t.dtype for t in types if isinstance(t, TensorType)}
    return op._rule(types)[1] if len(dtypes) > 1 else None


def _with_shared_weights(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], batched: list[Any]) -> Any:
    """Products with a matrix, rows of a table and scales of a norm that all samples share: one op on all samples.

    None where it is another case.
    """
    a, b = inputs[:2] if len(inputs) > 1 else (None, None)
    if op.name == "embedding" and batched[0] is None and not attrs["by_frequency"]:
        return apply(op, (a, batched[1].current(), *inputs[2:]), attrs)
    if op.name == "standardize" and batched[0] is not None and not any(batched[1:]):
        return apply(op, (batched[0].current(), *inputs[1:]), attrs | {"dims": tuple(d + 1 for d in attrs["dims"])})
    if op.name not in ("matmul", "linear"):
        return None
    if batched[0] is not None:
        shares_others = not any(batched[1:]) and b.ndim <= 2
        return apply(op, (batched[0].current(), *inputs[1:])) if shares_others else None
    if op.name == "linear":
        return None
    if b.ndim == 1 and a.ndim == 2:
        return apply(op, (batched[1].current(), a.mT))
    return apply(op, (a, batched[1].current())) if 2 <= a.ndim <= b.ndim else None


def _embed(level: Level, inputs: tuple[Any, ...], op: str, shape: tuple[int, ...], attrs: Any) -> Tensor:
    """The adjoint of a view for all samples: the adjoint of what the view's own rule makes of it."""
    view, (g, *numbers) = REGISTRY[op], inputs
    base = TensorType((level.size, *shape), g._type.dtype)
    graph, _, _ = trace_graph(lambda x: view.batch(level.size, x, *numbers, **dict(attrs)), [base])
    (node,) = graph.outputs
    made: Tensor = apply(
        REGISTRY["embed"],
        (level.physical(g), *node.inputs[1:]),
        {"op": node.op.name, "shape": base.shape, "attrs": tuple(node.attrs.items())},
    )
    return made
