"""Branches and loops as functions of functions, by PyTorch's names: cond, while_loop, scan, map.

Run eagerly they mean the plain Python that they replace, so gradients, `ex.compile` and `ex.batch` need nothing here.
Where a program is exported, the tracer makes a node of each that holds its functions as graphs. Under vmap, where every
sample decides for itself, both branches run and each sample takes its own, and a loop goes on while any sample does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..core.context import CONTEXT, switch
from ..core.tensor import Tensor
from ..core.types import TensorType, bool_
from ..errors import DtypeError, ShapeError
from ..func.levels import Level
from ..func.tree import is_leaf, leaves, rebuild, tensors_mapped

__all__ = ["cond", "map", "scan", "while_loop"]


def cond(pred: bool | Tensor, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """`true_fn(*operands)` where `pred` holds, else `false_fn(*operands)`: an `if` that exported programs keep.

    pred: a bool, or a tensor of one. Both functions return the same structure, with tensors of the same shapes and
    dtypes. They may read tensors from outside. Inside `vmap` both run, and each sample takes its own result.

    >>> x = ex.tensor([1.0, -2.0], requires_grad=True)
    >>> y = ex.cond(x.sum() > 0, lambda x: x * 10, lambda x: x * x, (x,))
    >>> y.sum().backward()
    >>> y.detach(), x.grad
    (tensor([1., 4.]), tensor([ 2., -4.]))
    """
    _check_functions("cond", true_fn=true_fn, false_fn=false_fn)
    if not isinstance(operands, tuple | list):
        raise DtypeError(f"cond: operands must be a tuple, got {type(operands).__name__}; write (x,) for a single one")
    _check_decision("cond", "pred", pred)
    tracer: Any = CONTEXT.get().interceptor
    if hasattr(tracer, "trace_cond"):
        return tracer.trace_cond(pred, true_fn, false_fn, tuple(operands))
    if isinstance(tracer, Level) and isinstance(pred, Tensor) and tracer.is_batched(pred):
        return _chosen("cond", pred, true_fn(*operands), false_fn(*operands))
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """`carried = body_fn(*carried)` while `cond_fn(*carried)` holds; a `while` that exported programs keep.

    carried_inputs: a tuple of what goes from step to step. `body_fn` returns as many, with the same shapes and dtypes.
    Inside `vmap` the loop runs until the last sample is done, and samples that were done before keep what they had.

    >>> ex.while_loop(lambda x, n: x.sum() < 100, lambda x, n: (x * 2, n + 1), (ex.ones(2), ex.tensor(0)))
    (tensor([64., 64.]), tensor(6))
    """
    _check_functions("while_loop", cond_fn=cond_fn, body_fn=body_fn)
    if not isinstance(carried_inputs, tuple | list):
        raise DtypeError(
            f"while_loop: carried_inputs must be a tuple, got {type(carried_inputs).__name__}; write (x,) for one value"
        )
    carried = tuple(carried_inputs)
    tracer: Any = CONTEXT.get().interceptor
    if hasattr(tracer, "trace_while"):
        return tracer.trace_while(cond_fn, body_fn, carried)
    while True:
        going = cond_fn(*carried)
        _check_decision("while_loop", "the result of cond_fn", going)
        batched = isinstance(tracer, Level) and tracer.is_batched(going)
        if not (_any_sample(tracer, going) if batched else bool(going)):
            return carried
        after = _step(body_fn, carried)
        carried = _chosen("while_loop", going, after, carried) if batched else after


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` for every slice x of `xs`; the last carry, and all y stacked.

    init, xs: tensors, or nested tuples, lists and dicts of them. dim: the dimension of `xs` that is gone along;
    reverse: from its end to its beginning, with results in the order of `xs`. Results are stacked along their first
    dimension. A loop over no slices gives `init` and results of length 0.

    >>> ex.scan(lambda total, x: (total + x, total + x), ex.tensor(0.0), ex.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([1., 3., 6.]))
    """
    _check_functions("scan", combine_fn=combine_fn)
    rows = _rows("scan", xs, dim)
    length = n_slices(rows)
    tracer: Any = CONTEXT.get().interceptor
    if hasattr(tracer, "trace_scan"):
        return tracer.trace_scan("scan", combine_fn, init, rows, reverse)
    carry, results = init, []
    slices = _slices(rows, length)
    for x in reversed(slices) if reverse else slices:
        carry, y = _combined(combine_fn, carry, x)
        results.append(y)
    if not results:
        return init, _nothing(lambda x: _combined(combine_fn, init, x)[1], rows)
    return carry, _stacked("scan", results[::-1] if reverse else results)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for every slice x of `xs` along the first dimension, stacked: a loop that exported programs keep.

    f: from one slice to tensors, or to nested tuples, lists and dicts of them. xs: a tensor, or such a nest. args:
    what every call gets as well. Unlike `vmap` it runs slice after slice, so that `f` may read values.

    >>> ex.map(lambda x, y: (x * y).sum(), ex.ones(3, 2), ex.tensor([1.0, 2.0]))
    tensor([3., 3., 3.])
    """
    _check_functions("map", f=f)
    rows = _rows("map", xs, 0)
    length = n_slices(rows)
    tracer: Any = CONTEXT.get().interceptor
    if hasattr(tracer, "trace_scan"):
        return tracer.trace_scan("map", lambda carry, x: (carry, f(x, *args)), (), rows, False)[1]
    if not length:
        return _nothing(lambda x: f(x, *args), rows)
    return _stacked("map", [f(x, *args) for x in _slices(rows, length)])


# ---- what they take and give


def _check_functions(name: str, **functions: Any) -> None:
    for argument, fn in functions.items():
        if not callable(fn):
            raise DtypeError(f"{name}: {argument} must be a function, got {type(fn).__name__}")


def _check_decision(name: str, what: str, value: Any) -> None:
    """A decision is one bool."""
    if isinstance(value, Tensor):
        if value.dtype is not bool_ or value._type.numel() != 1:
            raise DtypeError(
                f"{name}: {what} must be a bool or a bool tensor with one element, got {value._type}; compare, or use "
                "x.any() or x.all()"
            )
    elif not isinstance(value, bool):
        raise DtypeError(f"{name}: {what} must be a bool or a bool tensor, got {type(value).__name__}; write x != 0")


def _step(body_fn: Callable[..., Any], carried: tuple[Any, ...]) -> tuple[Any, ...]:
    """One step of a while loop; what it carries keeps its types."""
    after = body_fn(*carried)
    after = tuple(after) if isinstance(after, tuple | list) else (after,)
    check_same("while_loop", "body_fn", carried, after)
    return after


def check_same(name: str, fn: str, before: Any, after: Any) -> None:
    """What goes from step to step must keep structure, shapes and dtypes: exported loops have one type for each."""
    if type(before) is type(after) is tuple and len(before) == len(after):
        alike = [type(a) is type(b) is Tensor and a._type == b._type for a, b in zip(before, after, strict=True)]
        if all(alike):
            return
    if not _same_structure(before, after):
        raise DtypeError(f"{name}: {fn} must return what it carries in the same structure; it gave another one")
    for i, (old, new) in enumerate(zip(leaves(before), leaves(after), strict=True)):
        if isinstance(old, Tensor) and isinstance(new, Tensor) and old._type != new._type:
            raise ShapeError(
                f"{name}: {fn} changed carried value {i} from {old._type} to {new._type}; every step must keep shape "
                "and dtype, convert or pad the result, or start with the type that it ends with"
            )


def _same_structure(a: Any, b: Any) -> bool:
    if is_leaf(a) or is_leaf(b):
        return is_leaf(a) and is_leaf(b)
    if isinstance(a, dict) or isinstance(b, dict):
        return (
            isinstance(a, dict)
            and isinstance(b, dict)
            and a.keys() == b.keys()
            and all(_same_structure(a[k], b[k]) for k in a)
        )
    return len(a) == len(b) and all(_same_structure(x, y) for x, y in zip(a, b, strict=True))


def _combined(combine_fn: Callable[[Any, Any], Any], carry: Any, x: Any) -> tuple[Any, Any]:
    result = combine_fn(carry, x)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise DtypeError("scan: combine_fn must return two things, the next carry and the result of this step")
    check_same("scan", "combine_fn", carry, result[0])
    return result[0], result[1]


def _rows(name: str, xs: Any, dim: int) -> Any:
    """`xs` with the dimension to go along as the first of each tensor."""
    for x in leaves(xs):
        if not isinstance(x, Tensor):
            raise DtypeError(f"{name}: xs must be tensors, got {type(x).__name__}")
        if not -x.ndim <= dim < x.ndim:
            raise ShapeError(f"{name}: there is no dimension {dim} to go along in a tensor of shape {tuple(x.shape)}")
    return tensors_mapped(lambda x: x if dim in (0, -x.ndim) else ops.movedim(x, dim, 0), xs)


def n_slices(rows: Any) -> Any:
    """How many slices there are; the same of all tensors."""
    lengths = [x._type.shape[0] for x in leaves(rows)]
    if not lengths:
        raise ShapeError("scan: xs has no tensors, so the number of steps is unknown; use while_loop")
    if any(n != lengths[0] for n in lengths):
        raise ShapeError(f"scan: the tensors of xs differ in the number of slices: {lengths}")
    return lengths[0]


def _slices(rows: Any, length: int) -> list[Any]:
    """All slices, each in the structure of the whole."""
    if isinstance(rows, Tensor):
        return list(rows.unbind(0))
    columns = [x.unbind(0) for x in leaves(rows)]
    return [rebuild(rows, iter([column[i] for column in columns])) for i in range(length)]


def _nothing(one: Callable[[Any], Any], rows: Any) -> Any:
    """The stacked results of no calls at all: their types are found by tracing a call on a slice without values."""
    from .sizes import SizeLog
    from .tracer import ProgramTracer

    tracer = ProgramTracer(SizeLog(), {})
    slices = tensors_mapped(lambda x: tracer.argument(TensorType(x._type.shape[1:], x._type.dtype)), rows)
    with switch(interceptor=tracer, grad=False):
        found = one(slices)
    return tensors_mapped(lambda t: ops.zeros((0, *t._type.shape), dtype=t.dtype), found)


def _stacked(name: str, results: list[Any]) -> Any:
    """The results of all steps, leaf by leaf."""
    columns: list[Tensor | None] = []
    for column in zip(*[leaves(r) for r in results], strict=True):
        if all(x is None for x in column):
            columns.append(None)
            continue
        if not all(isinstance(x, Tensor) for x in column):
            kind = next(type(x).__name__ for x in column if not isinstance(x, Tensor))
            raise DtypeError(f"{name}: every result of a step must be a tensor, got {kind}; use ex.tensor(...)")
        columns.append(ops.stack(column))
    return rebuild(results[0], iter(columns))


# ---- under vmap


def _any_sample(level: Level, going: Tensor) -> bool:
    with level.outside(False):
        return bool(level.physical(going).any())


def _chosen(name: str, decision: Tensor, yes: Any, no: Any) -> Any:
    """Each sample's own of two results."""
    if not _same_structure(yes, no):
        raise DtypeError(f"{name}: both results must have the same structure")
    scalar = decision.reshape(())
    picked = []
    for a, b in zip(leaves(yes), leaves(no), strict=True):
        if not isinstance(a, Tensor) and not isinstance(b, Tensor) and a is not b and a != b:
            raise DtypeError(
                f"{name}: inside vmap samples differ in a result that is no tensor, {a!r} and {b!r}; "
                "return ex.tensor(...)"
            )
        picked.append(ops.where(scalar, a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else a)
    return rebuild(yes, iter(picked))
