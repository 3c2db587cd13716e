"""Hooks of modules: what runs around `forward`, and when gradients pass a module on their way back.

A module without hooks never comes here. For backward hooks the arguments and the result of `forward` pass through one
node each: the node at the result sees all gradients that enter the module, the node at the arguments all that leave it.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import Function
from ..autograd.hooks import RemovableHandle
from ..core.context import is_grad_enabled
from ..core.tensor import Tensor, TensorLike
from ..errors import DtypeError, ShapeError
from ..func.tree import leaves, rebuild

Hook = Callable[..., Any]
Make = Callable[[Tensor], Any]


class CallHooks:
    """The hooks around calls of one module, each kind in the order they run."""

    def __init__(self) -> None:
        self.forward_pre: OrderedDict[int, tuple[Hook, bool]] = OrderedDict()  # hook, whether it gets kwargs
        self.forward: OrderedDict[int, tuple[Hook, bool, bool]] = OrderedDict()  # ... and runs after an error too
        self.backward_pre: OrderedDict[int, Hook] = OrderedDict()
        self.backward: OrderedDict[int, Hook] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether any are to be called: a module whose hooks were all removed is called as if it never had one."""
        return self.has_any() or EVERYWHERE.has_any()

    def has_any(self) -> bool:
        """Whether there are any here."""
        return bool(self.forward_pre or self.forward or self.backward_pre or self.backward)

    def after(self, first: CallHooks) -> CallHooks:
        """Those of another object and then these."""
        both = CallHooks()
        for kind, hooks in vars(both).items():
            hooks.update(getattr(first, kind))
            hooks.update(getattr(self, kind))
        return both


EVERYWHERE = CallHooks()  # around calls of all modules, before their own


def add_hook(hooks: OrderedDict[int, Any], entry: Any, prepend: bool = False) -> RemovableHandle:
    """Put a hook last, or first."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = entry
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class HookMethods:
    """The part of Module that registers hooks on calls."""

    _call_hooks: CallHooks | None = None

    def _own_call_hooks(self) -> CallHooks:
        if self._call_hooks is None or self._call_hooks is EVERYWHERE:
            self._call_hooks = CallHooks()
        return self._call_hooks

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before every forward; what it returns takes the place of the arguments.

        with_kwargs: call `hook(module, args, kwargs)`, which may return `(args, kwargs)`.

        >>> double = nn.Identity()
        >>> handle = double.register_forward_pre_hook(lambda module, args: (2 * args[0],))
        >>> double(ex.tensor(3.0))
        tensor(6.)
        """
        return add_hook(self._own_call_hooks().forward_pre, (hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after every forward; what it returns takes the place of the output.

        with_kwargs: call `hook(module, args, kwargs, output)`. always_call: also when forward raises, then with None.

        >>> layer, seen = nn.Identity(), []
        >>> handle = layer.register_forward_hook(lambda module, args, output: seen.append(output.item()))
        >>> _ = layer(ex.tensor(3.0))
        >>> seen
        [3.0]
        """
        return add_hook(self._own_call_hooks().forward, (hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradients of the results are known; it may return others."""
        return add_hook(self._own_call_hooks().backward_pre, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the positional arguments are known.

        A tuple that it returns takes the place of `grad_input`. Arguments without a gradient have None there.

        >>> layer = nn.Identity()
        >>> handle = layer.register_full_backward_hook(lambda module, grad_input, grad_output: (10 * grad_input[0],))
        >>> x = ex.tensor(1.0, requires_grad=True)
        >>> layer(x).backward()
        >>> x.grad
        tensor(10.)
        """
        return add_hook(self._own_call_hooks().backward, hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """The same as `register_full_backward_hook`; what PyTorch once meant by this name is no longer wanted there."""
        return self.register_full_backward_hook(hook)


class _EverywhereHandle(RemovableHandle):
    """Takes a hook of all modules away; with the last one calls of modules are as fast as before the first."""

    def remove(self) -> None:
        super().remove()
        if not EVERYWHERE.has_any():
            HookMethods._call_hooks = None


def _add_everywhere(hooks: OrderedDict[int, Any], entry: Any) -> RemovableHandle:
    """Add to the hooks of all modules: as long as there are any, a module without hooks of its own has these."""
    handle = _EverywhereHandle(hooks)
    hooks[handle.id] = entry
    HookMethods._call_hooks = EVERYWHERE
    return handle


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, args)` before the forward of every module, as `register_forward_pre_hook` does for one."""
    return _add_everywhere(EVERYWHERE.forward_pre, (hook, False))


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the forward of every module, as `register_forward_hook` does for one."""
    return _add_everywhere(EVERYWHERE.forward, (hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_output)` in the backward of every module."""
    return _add_everywhere(EVERYWHERE.backward_pre, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` in the backward of every module."""
    return _add_everywhere(EVERYWHERE.backward, hook)


def call_with_hooks(module: Any, hooks: CallHooks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One call of a module that has hooks."""
    if hooks is not EVERYWHERE and EVERYWHERE.has_any():
        hooks = hooks.after(EVERYWHERE)
    done: set[int] = set()
    try:
        args, kwargs = _before(module, hooks, args, kwargs)
        watch = _Watch(module, hooks) if (hooks.backward or hooks.backward_pre) and is_grad_enabled() else None
        if watch is not None:
            args = watch.inputs(args)
        result = module.forward(*args, **kwargs)
        for key, (hook, with_kwargs, _) in list(hooks.forward.items()):
            done.add(key)
            changed = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
            if changed is not None:
                result = changed
        return result if watch is None else watch.outputs(result)
    except Exception:
        for key, (hook, with_kwargs, always) in list(hooks.forward.items()):
            if always and key not in done:
                _after_error(module, hook, with_kwargs, args, kwargs)
        raise


def _before(
    module: Any, hooks: CallHooks, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for hook, with_kwargs in list(hooks.forward_pre.values()):
        changed = hook(module, args, kwargs) if with_kwargs else hook(module, args)
        if changed is None:
            continue
        if not with_kwargs:
            args = changed if isinstance(changed, tuple) else (changed,)
        elif isinstance(changed, tuple) and len(changed) == 2:
            args, kwargs = changed
        else:
            raise DtypeError(
                f"forward pre-hook of {type(module).__name__}: with_kwargs=True means that it returns None or a tuple "
                f"(args, kwargs); got {type(changed).__name__}"
            )
    return args, kwargs


def _after_error(module: Any, hook: Hook, with_kwargs: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run a hook that asked to run in any case; the error that is on its way matters more than another one here."""
    try:
        hook(*((module, args, kwargs, None) if with_kwargs else (module, args, None)))
    except Exception as error:
        warnings.warn(
            f"a forward hook of {type(module).__name__} raised {error!r} (always_call=True, after an error in forward)",
            stacklevel=4,
        )


class _Watch:
    """One call of a module with backward hooks: what its two nodes know together."""

    def __init__(self, module: Any, hooks: CallHooks) -> None:
        self.module = module
        self.hooks = hooks
        self.n_inputs = 0
        self.input_positions: dict[int, Make] = {}  # of the tensors among the arguments, and what makes their like
        self.n_outputs = 0
        self.output_positions: dict[int, Make] = {}
        self.at_inputs = False  # whether gradients leave through the arguments
        self.grad_outputs: tuple[Any, ...] | None = None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, passed through the node that sees their gradients."""
        self.n_inputs = len(args)
        self.input_positions = _positions(args)
        tensors = [_values(args[i]) for i in self.input_positions]
        self.at_inputs = any(t.requires_grad for t in tensors)
        if not self.at_inputs:
            return args
        passed = list(args)
        for (position, make), t in zip(self.input_positions.items(), _AtInputs.apply(self, *tensors), strict=True):
            passed[position] = make(t)
        return tuple(passed)

    def outputs(self, result: Any) -> Any:
        """The result, its tensors passed through the node that sees their gradients."""
        values = leaves(result)
        self.n_outputs = len(values)
        self.output_positions = _positions(values)
        tensors = [_values(values[i]) for i in self.output_positions]
        if not any(t.requires_grad for t in tensors):
            return result
        for (position, make), t in zip(self.output_positions.items(), _AtOutputs.apply(self, *tensors), strict=True):
            values[position] = make(t)
        return rebuild(result, iter(values))

    def gradients_enter(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the results are known: run the pre-hooks, and the hooks if no argument has a gradient."""
        shown = _spread(gradients, self.output_positions, self.n_outputs)
        for hook in list(self.hooks.backward_pre.values()):
            shown = self._replaced(hook(self.module, shown), shown, "backward pre-hook", "grad_output")
        self.grad_outputs = shown
        if not self.at_inputs:
            self._run_hooks((None,) * self.n_inputs)
        return tuple(_values(shown[i]) for i in self.output_positions)

    def gradients_leave(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the arguments are known: run the hooks."""
        if self.grad_outputs is None:  # no gradient came through the result, as in a part of a graph that is reused
            return gradients
        shown = self._run_hooks(_spread(gradients, self.input_positions, self.n_inputs))
        return tuple(_values(shown[i]) for i in self.input_positions)

    def _run_hooks(self, grad_inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in list(self.hooks.backward.values()):
            changed = hook(self.module, grad_inputs, self.grad_outputs)
            grad_inputs = self._replaced(changed, grad_inputs, "backward hook", "grad_input")
        self.grad_outputs = None
        return grad_inputs

    def _replaced(self, changed: Any, shown: tuple[Any, ...], kind: str, what: str) -> tuple[Any, ...]:
        if changed is None:
            return shown
        changed = changed if isinstance(changed, tuple) else (changed,)
        if len(changed) != len(shown):
            raise ShapeError(
                f"{kind} of {type(self.module).__name__}: {what} has {len(shown)} gradients, it returned {len(changed)}"
            )
        return changed


def _positions(values: Sequence[Any]) -> dict[int, Make]:
    """Where tensors are, and what makes one of the same kind: a ragged one passes as its values."""
    found: dict[int, Make] = {i: _itself for i, v in enumerate(values) if isinstance(v, Tensor)}
    found.update({i: v._maker() for i, v in enumerate(values) if isinstance(v, TensorLike)})
    return dict(sorted(found.items()))


def _itself(t: Tensor) -> Tensor:
    return t


def _values(x: Any) -> Any:
    return x._flat if isinstance(x, TensorLike) else x


def _spread(gradients: tuple[Any, ...], positions: dict[int, Make], n: int) -> tuple[Any, ...]:
    shown: list[Any] = [None] * n
    for (position, make), gradient in zip(positions.items(), gradients, strict=True):
        shown[position] = None if gradient is None else make(gradient)
    return tuple(shown)


def _pass_through(ctx: Any, watch: _Watch, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    ctx.watch = watch
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
    return tensors


class _AtInputs(Function):
    @staticmethod
    def forward(ctx: Any, watch: _Watch, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _pass_through(ctx, watch, tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return (None, *ctx.watch.gradients_leave(gradients))


class _AtOutputs(Function):
    @staticmethod
    def forward(ctx: Any, watch: _Watch, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _pass_through(ctx, watch, tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return (None, *ctx.watch.gradients_enter(gradients))
