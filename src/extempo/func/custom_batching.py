"""autograd.Function inside vmap.

The user's forward runs on per-sample tensors like any other code. Where the physical tensors are recorded outside, one
node stands for it there too: a Function on physical tensors, whose backward runs the user's backward under a vmap
again. A Function with a `vmap(info, in_dims, *args)` of its own is asked for the physical results instead.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import ops
from ..autograd.custom import Context, Function, _forward
from ..core.context import CONTEXT, ExecutionContext, Swap, end_trace
from ..core.tensor import Tensor
from ..errors import UnsupportedError

if TYPE_CHECKING:
    from .levels import Level


class VmapInfo(NamedTuple):
    """What a Function's own `vmap` is told."""

    batch_size: int
    randomness: str


class _FunctionCall(NamedTuple):
    """One call of a Function on per-sample tensors."""

    level: Level
    function: type[Function]
    ctx: Context
    args: tuple[Any, ...]
    separate: bool
    kept: dict[str, Any]


def run_function(
    level: Level, function: type[Function], ctx: Context, args: tuple[Any, ...], separate: bool, grad: bool
) -> Any:
    """The result of the user's forward, as per-sample tensors; `grad`: whether the caller records."""
    recorded = grad and level.outer.grad
    if hasattr(function, "vmap"):
        return _own_rule(level, function, ctx, args, recorded)
    physical = [level.lowered(a) for a in args if isinstance(a, Tensor)]
    if not recorded or not any(p.requires_grad for p in physical):
        return _forward(function, ctx, args, separate)
    call = _FunctionCall(level, function, ctx, args, separate, {})
    with level.outside(True):
        outputs = iter(_Physical.apply(call, *physical))
    result = call.kept["result"]
    for r in _as_tuple(result):
        if isinstance(r, Tensor):
            # The same per-sample tensor, because ctx may have saved it; its physical one is now recorded outside.
            r._source = level.wrap(next(outputs))._source
    return result


def _own_rule(level: Level, function: Any, ctx: Context, args: tuple[Any, ...], recorded: bool) -> Any:
    in_dims = tuple(0 if level.is_batched(a) else None for a in args)
    physical = [level.lowered(a) if isinstance(a, Tensor) else a for a in args]
    with level.outside(recorded):
        outputs, out_dims = function.vmap(VmapInfo(level.size, level.randomness), in_dims, *physical)
        single = not isinstance(outputs, tuple)
        dims = (out_dims,) if single else out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outputs)
        pairs = zip(_as_tuple(outputs), dims, strict=True)
        moved = [o if d is None else level.wrap(ops.movedim(o, d, 0)) for o, d in pairs]
    result = moved[0] if single else tuple(moved)
    function.setup_context(ctx, args, result)
    return result


class _Physical(Function):
    """A Function on physical tensors that does to each sample what the user's does."""

    @staticmethod
    def forward(outer: Context, call: _FunctionCall, *physical: Tensor) -> tuple[Tensor, ...]:
        level, ctx = call.level, call.ctx
        now = CONTEXT.get()
        end_trace(now)
        with Swap(ExecutionContext(False, now.inference, level, now.quiet)):
            result = _forward(call.function, ctx, call.args, call.separate)
        if ctx._dirty:
            raise UnsupportedError(
                f"{call.function.__name__}: mark_dirty inside vmap is not possible while gradients are recorded "
                "outside; return a new tensor instead"
            )
        results = [_fresh(level, r, call.args) for r in _as_tuple(result)]
        call.kept["result"] = tuple(results) if isinstance(result, tuple) else results[0]
        call.kept["batched"] = [level.is_batched(t) for t in ctx._to_save]
        outer.save_for_backward(*[None if t is None else level.lowered(t) for t in ctx._to_save])
        tensors = [r for r in results if isinstance(r, Tensor)]
        outputs = [level.physical(r) for r in tensors]
        constant = [any(r is c for c in ctx._constant) for r in tensors]
        outer.mark_non_differentiable(*[o for o, is_constant in zip(outputs, constant, strict=True) if is_constant])
        outer.set_materialize_grads(ctx._materialize)
        outer.call = call  # type: ignore[attr-defined] # contexts take any attribute
        outer.is_result = [isinstance(r, Tensor) for r in results]  # type: ignore[attr-defined] # as above
        return tuple(outputs)

    @staticmethod
    def backward(outer: Any, *gradients: Any) -> tuple[Any, ...]:
        from .levels import Level

        call: _FunctionCall = outer.call
        level = Level(call.level.size, call.level.randomness)
        ctx = copy.copy(call.ctx)
        ctx._restored = tuple(
            level.wrap(t) if batched and t is not None else t
            for t, batched in zip(outer.saved_tensors, call.kept["batched"], strict=True)
        )
        incoming = iter(gradients)
        per_sample = []
        for is_tensor in outer.is_result:
            g = next(incoming) if is_tensor else None
            per_sample.append(None if g is None else level.wrap(g))
        now = CONTEXT.get()
        end_trace(now)
        with Swap(ExecutionContext(now.grad, now.inference, level, now.quiet)):
            returned = call.function.backward(ctx, *per_sample)
        found = list(returned) if isinstance(returned, tuple | list) else [returned]
        found += [None] * (len(call.args) - len(found))
        results = [
            _summed(level, g, shared=not call.level.is_batched(a))
            for g, a in zip(found, call.args, strict=False)
            if isinstance(a, Tensor)
        ]
        level.running = False
        return (None, *results)


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _fresh(level: Level, r: Any, args: tuple[Any, ...]) -> Any:
    """A result as a per-sample tensor of its own: not one that samples share, nor an argument."""
    if isinstance(r, Tensor) and (not level.is_batched(r) or any(r is a for a in args)):
        return level.wrap(level.physical(r))
    return r


def _summed(level: Level, g: Any, shared: bool) -> Any:
    """The gradient of a physical argument: of all samples, or of what they share."""
    if g is None:
        return None
    if not shared:
        return level.physical(g)
    return level.physical(g).sum(0) if level.is_batched(g) else level.lowered(g) * level.size
