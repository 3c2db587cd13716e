"""`torch.library`: ops of one's own. They are Python functions here, with the gradient that is registered for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import Function
from ...core.absent_names import RefusedName

__all__ = [
    "CustomOp", "Library", "custom_op", "define", "impl", "register_autocast", "register_autograd", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip

# The kinds of implementation that are for the CPU; those of other devices, of shapes alone and of tracing are not kept.
_FOR_CPU = frozenset({"cpu", "default", "compositeexplicitautograd", "compositeimplicitautograd", "autograd"})

OPS: dict[str, CustomOp] = {}  # by "namespace::name"


class CustomOp:
    """A function under a name, and its gradient if one was registered. `op.default`, its only overload, is itself."""

    def __init__(self, name: str, function: Callable[..., Any] | None) -> None:
        self._name = name
        self._function = function or self._not_implemented
        self._differentiable: type[Function] | None = None
        self.default = self
        self.__doc__ = function.__doc__ if function is not None else f"The op {name}."
        OPS[name] = self

    def _not_implemented(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{self._name}: this op was defined, but nobody registered a function for the CPU")

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
            if device_types is None or _is_for_cpu(device_types):
                self._function = function
            return function

        return register if fn is None else register(fn)

    def __repr__(self) -> str:
        return f"<CustomOp {self._name}>"


def custom_op(name: str, fn: Any = None, /, *, mutates_args: Any = (), device_types: Any = None, **kwargs: Any) -> Any:
    """An op of a function, also as a decorator: `@custom_op("mine::sine", mutates_args=())`."""
    return (lambda function: CustomOp(name, function)) if fn is None else CustomOp(name, fn)


triton_op = custom_op  # its kernels are for a GPU, and would be called by the function


def wrap_triton(triton_kernel: Any, /) -> Any:
    """The kernel itself."""
    return triton_kernel


def _is_for_cpu(kinds: Any) -> bool:
    return any(kind.lower() in _FOR_CPU for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _found(op: Any) -> CustomOp:
    if isinstance(op, CustomOp):
        return op
    if op not in OPS:
        raise RefusedName(f"torch.library: {op} is none of the ops that were defined here, and PyTorch's cannot change")
    return OPS[op]


class Library:
    """A namespace of ops: some are defined, and functions are registered for them."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """An op by its schema, `name(Tensor x) -> Tensor`; returns the name."""
        name = schema.partition("(")[0].strip()
        CustomOp(f"{self.ns}::{name}", None)
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **kwargs: Any) -> None:
        """The function of an op, kept if it is for the CPU."""
        name = op_name if isinstance(op_name, str) else op_name._name
        kind = dispatch_key or self.dispatch_key or "default"
        if _is_for_cpu(kind):
            _found(name if "::" in name else f"{self.ns}::{name}").register_kernel(None, fn)


def define(qualname: str, schema: Any = None, *, lib: Any = None, tags: Any = ()) -> Any:
    """An op by name, `"mine::sine"`; without a schema a decorator of the function that it is."""
    if schema is None:
        return lambda function: (CustomOp(qualname, function), function)[1]
    return CustomOp(qualname, None) and None


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """The function of an op for some devices; also as a decorator, and as the older `impl(library, name, kind)`."""
    if isinstance(qualname, Library):
        library, name, kind = qualname, types, func or ""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, function, kind)
            return function

        return register
    return _found(qualname).register_kernel(types, func)


def register_fake(op: Any, func: Any = None, /, **kwargs: Any) -> Any:
    """Nothing to keep: see `CustomOp.register_fake`."""
    return (lambda function: function) if func is None else func


# What these state is for machinery that Extempo does not have.
register_vmap = register_torch_dispatch = register_fake


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, **kwargs: Any) -> None:
    """Nothing to keep: on the CPU a function of one's own runs in the dtype that it is given."""


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, **kwargs: Any) -> None:
    """The gradient of an op, which is given itself or by name."""
    _found(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, **kwargs: Any) -> Any:
    """The function of an op on some devices."""
    return _found(op).register_kernel(device_types, func)
