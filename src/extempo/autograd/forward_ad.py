"""Forward-mode derivatives by dual tensors: a value that has a direction, and results that know their derivative in it.

A dual tensor is a variable of the graph, and its direction is kept with the level. `unpack_dual` finds a result's
derivative as `ex.func.jvp` does, by two backward passes. So inside a level whatever depends on a dual tensor requires
grad, and under `no_grad` that part of the graph is recorded all the same, by an interceptor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import ops
from ..core.context import CONTEXT, ExecutionContext, Swap, end_trace, set_context, switch
from ..core.graph import Node
from ..core.op import REGISTRY, Op
from ..core.tensor import Tensor
from ..dispatch.dispatcher import apply
from ..dispatch.inplace import write
from ..errors import AutogradError, DtypeError, ShapeError
from .api import grad as engine_grad
from .custom import Function

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A value and its derivative, which is None for a tensor that depends on no dual one.

    >>> ex.autograd.forward_ad.UnpackedDualTensor(ex.tensor(3.0), None).primal
    tensor(3.)
    """

    primal: Tensor
    tangent: Tensor | None


class _Level:
    """The dual tensors made since a level was entered; as an interceptor, what follows them under `no_grad`."""

    def __init__(self, outer: ExecutionContext) -> None:
        from ..func.transforms import Variables

        self.outer = outer
        self.variables = Variables("forward_ad", ())
        self.sources: list[Tensor] = []  # the variable of each dual tensor
        self.tangents: list[Tensor] = []
        self._is_dual: dict[Node, bool] = {}

    def add(self, primal: Tensor, tangent: Tensor) -> Tensor:
        with Swap(_without_level(CONTEXT.get()).but(grad=True, inference=False)):
            alias = REGISTRY["alias"]
            source = apply(alias, (primal,)) if primal.requires_grad else self.variables.fresh(primal)
            dual: Tensor = apply(alias, (source,))
        dual._alias = None  # it has the memory of the primal, and a history of its own when it is written
        self.sources.append(source)
        self.tangents.append(tangent)
        self._is_dual[source._own_node()] = True
        return dual

    def depends(self, x: Any) -> bool:
        """Whether x was made of a dual tensor."""
        if not isinstance(x, Tensor) or not x.requires_grad:
            return False
        node = x._own_node()
        known, stack = self._is_dual, [node]
        while stack:
            last = stack[-1]
            inputs = [i for i in last.inputs if type(i) is Node]
            unknown = [] if last in known else [i for i in inputs if i not in known]
            if unknown:
                stack.extend(unknown)
            else:
                stack.pop()
                known.setdefault(last, any(known[i] for i in inputs))
        return known[node]

    def tangent_of(self, y: Tensor) -> Tensor | None:
        """The derivative of y in the direction of all tangents: a vjp is linear, so its derivative is the product."""
        if not self.depends(y):
            return None
        with Swap(_without_level(CONTEXT.get()).but(grad=True, inference=False)):
            like_y = self.variables.fresh(ops.zeros(y._type.shape, dtype=y.dtype))
            pulled = engine_grad([y], self.sources, [like_y], retain_graph=True, create_graph=True, allow_unused=True)
            used = [i for i, g in enumerate(pulled) if g is not None and g.requires_grad]
            if not used:
                return like_y.detach()
            tangents = [self.tangents[i] for i in used]
            again = self.variables.seen_outside([y, *tangents])
            products = [pulled[i] for i in used]
            (found,) = engine_grad(
                products, [like_y], tangents, retain_graph=True, create_graph=again, allow_unused=True
            )
            return like_y.detach() if found is None else self.variables.released(found)

    # ---- as the interceptor of ops under `no_grad`

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return self._followed(lambda *given: apply(op, given, attrs), inputs)

    def apply_function(self, function: type[Function], args: tuple[Any, ...]) -> Any:
        """The call of an `autograd.Function`."""
        return self._followed(function.apply, args)

    def _followed(self, run: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
        """Run with nothing recorded but the way to dual tensors."""
        dual = [self.depends(x) for x in inputs]
        with Swap(self._mode(any(dual))):
            if not any(dual):
                return run(*inputs)
            pairs = zip(inputs, dual, strict=True)
            return run(*[x.detach() if isinstance(x, Tensor) and not follow else x for x, follow in pairs])

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        with Swap(self._mode(self.depends(target) or self.depends(value))):
            return write(target, value, op_name, made_from)

    def _mode(self, follow: bool) -> ExecutionContext:
        now = _without_level(CONTEXT.get())
        return now.but(grad=True, inference=False) if follow else now


class _DualContext(ExecutionContext):
    """A context inside a level: where grad mode is off, the level sees the ops."""

    __slots__ = ("level",)

    def __init__(self, level: _Level, **fields: Any) -> None:
        others = fields["interceptor"] if fields["interceptor"] is not level else None
        super().__init__(**(fields | {"interceptor": others if others or fields["grad"] else level}))
        self.level = level

    def but(self, **changes: Any) -> ExecutionContext:
        return _DualContext(self.level, **(_fields(self) | changes))


def _fields(mode: ExecutionContext) -> dict[str, Any]:
    return {name: getattr(mode, name) for name in ExecutionContext.__slots__}


def _without_level(mode: ExecutionContext) -> ExecutionContext:
    fields = _fields(mode)
    if isinstance(mode, _DualContext) and mode.interceptor is mode.level:
        fields["interceptor"] = None
    return ExecutionContext(**fields)


def _level_of(mode: ExecutionContext) -> _Level | None:
    return mode.level if isinstance(mode, _DualContext) else None


def _entered(before: ExecutionContext) -> _DualContext:
    if isinstance(before, _DualContext):
        raise AutogradError(
            "enter_dual_level: a level is entered already, and there is one at a time; for derivatives of derivatives "
            "nest ex.func.jvp"
        )
    end_trace(before)
    return _DualContext(_Level(before), **(_fields(before) | {"recording": None, "stepped_aside": True}))


class dual_level(switch):  # PyTorch's name
    """A block, or calls of a function, inside which there are dual tensors.

    Inside, all that depends on a dual tensor requires grad.

    >>> from extempo.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 10.0]))
    ...     forward_ad.unpack_dual(x * x).tangent
    tensor([ 2., 40.])
    """

    def __init__(self) -> None:
        super().__init__()

    def _inner(self, before: ExecutionContext) -> ExecutionContext:
        return _entered(before)

    def __enter__(self) -> int:
        outside = self._outer
        try:
            super().__enter__()
            return 0
        except BaseException:
            if self._outer is not outside:  # an interrupt came when the level was entered, and the block never is
                self.__exit__(None, None, None)
            raise

    def again(self) -> switch:
        return dual_level()


def enter_dual_level() -> int:
    """From here on there are dual tensors, until `exit_dual_level`. Returns the number of the level, 0.

    >>> from extempo.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> y = forward_ad.make_dual(ex.tensor(3.0), ex.tensor(1.0)) ** 2
    >>> forward_ad.unpack_dual(y, level=level).tangent
    tensor(6.)
    >>> forward_ad.exit_dual_level(level=level)
    """
    set_context(_entered(CONTEXT.get()))
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """The end of the level: nothing is known of tangents any more.

    >>> from extempo.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level(level=level)
    """
    mode = CONTEXT.get()
    if level not in (None, 0) or not isinstance(mode, _DualContext):
        raise AutogradError(
            f"exit_dual_level: level {level} is not the one that was entered last; call it once for each "
            "enter_dual_level, or write `with dual_level():`"
        )
    outer = mode.level.outer
    set_context(_without_level(mode).but(recording=outer.recording, stepped_aside=outer.stepped_aside))


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """`tensor`, with a direction in which to differentiate what is made of it.

    >>> from extempo.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 0.0]))
    ...     forward_ad.unpack_dual(ex.exp(x).sum()).tangent
    tensor(2.7183)
    """
    current = _level_of(CONTEXT.get())
    if current is None or level not in (None, 0):
        raise AutogradError(
            "make_dual: there is no level for dual tensors here; write `with dual_level():` around the computation"
        )
    for what, t in (("primal", tensor), ("tangent", tangent)):
        if not t.is_floating_point():
            raise DtypeError(f"make_dual: expected a floating {what}, got {t.dtype}; use x.float()")
    if tensor.shape != tangent.shape or tensor.dtype is not tangent.dtype:
        raise ShapeError(
            f"make_dual: the tangent is {tangent.dtype} of shape {tuple(tangent.shape)}, the primal {tensor.dtype} of "
            f"shape {tuple(tensor.shape)}; they must be equal in both"
        )
    if current.depends(tensor):
        raise AutogradError(
            "make_dual: this tensor depends on a dual one already, and has a tangent; use x.detach() for its values"
        )
    return current.add(tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a tensor, and its derivative in the direction of the tangents: two backward passes.

    >>> from extempo.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 1.0]))
    ...     forward_ad.unpack_dual(x.prod())
    UnpackedDualTensor(primal=tensor(2.), tangent=tensor(3.))
    """
    current = _level_of(CONTEXT.get())
    if current is None or level not in (None, 0):
        return UnpackedDualTensor(tensor, None)
    tangent = current.tangent_of(tensor)
    return UnpackedDualTensor(tensor if tangent is None else current.variables.released(tensor), tangent)
