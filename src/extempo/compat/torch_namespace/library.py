"""`torch.library`: ops of one's own. They are Python functions here, with the gradient that is registered for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import Function

__all__ = ["CustomOp", "custom_op", "register_autograd", "register_fake", "register_kernel"]

OPS: dict[str, CustomOp] = {}  # by "namespace::name"


class CustomOp:
    """A function under a name, and its gradient if one was registered."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function
        self._differentiable: type[Function] | None = None
        self.__doc__ = function.__doc__
        OPS[name] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._differentiable is None:
            return self._function(*args, **kwargs)
        return self._differentiable.apply(*args, **kwargs)

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """`setup_context(ctx, inputs, output)` keeps what `backward(ctx, *grads)` needs."""
        contents = {
            "forward": staticmethod(self._function),
            "setup_context": staticmethod(setup_context or (lambda ctx, inputs, output: None)),
            "backward": staticmethod(backward),
        }
        self._differentiable = type(self._name.replace("::", "_"), (Function,), contents)

    def register_fake(self, fn: Any, /) -> Any:
        """Shapes are known from the values: the function is handed back."""
        return fn

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Another function for some devices: taken if the CPU is among them."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            if device_types is None or "cpu" in device_types:
                self._function = function
            return function

        return register if fn is None else register(fn)

    def __repr__(self) -> str:
        return f"<CustomOp {self._name}>"


def custom_op(name: str, fn: Any = None, /, *, mutates_args: Any = (), device_types: Any = None, **kwargs: Any) -> Any:
    """An op of a function, also as a decorator: `@custom_op("mine::sine", mutates_args=())`."""
    return (lambda function: CustomOp(name, function)) if fn is None else CustomOp(name, fn)


def _found(op: Any) -> CustomOp:
    return op if isinstance(op, CustomOp) else OPS[op]


def register_fake(op: Any, func: Any = None, /, **kwargs: Any) -> Any:
    """Nothing to keep: see `CustomOp.register_fake`."""
    return (lambda function: function) if func is None else func


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, **kwargs: Any) -> None:
    """The gradient of an op, which is given itself or by name."""
    _found(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, **kwargs: Any) -> Any:
    """The function of an op on some devices."""
    return _found(op).register_kernel(device_types, func)
