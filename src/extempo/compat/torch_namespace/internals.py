"""`torch._C` and `torch._utils`: the few internals that libraries ask for."""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from typing import Any

from ...core.device import device
from ...core.tensor import Tensor
from ...nn.module import _read_to

_TensorMeta = type(Tensor)
DisableTorchFunctionSubclass = DisableTorchFunction = _DisableTorchDispatch = nullcontext  # nobody asks for overrides
_ExcludeDispatchKeyGuard = _AutoDispatchBelowAutograd = nullcontext


class _AnyName(type):
    """Every public name that is asked for exists, and is its own text."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls)
        return name


class DispatchKey(metaclass=_AnyName):
    """PyTorch's kinds of kernels by name, `DispatchKey.CPU`: nothing is dispatched by them here."""


class DispatchKeySet(frozenset[str]):
    """Some of those kinds."""

    def __new__(cls, *keys: Any) -> DispatchKeySet:
        return super().__new__(cls, keys)

    def __or__(self, other: Any) -> DispatchKeySet:
        return DispatchKeySet(*self, *other)

    def has(self, key: str) -> bool:
        return key in self


_has_cuda = _has_xpu = _has_mps = _has_mkldnn = False


def _are_functorch_transforms_active() -> bool:
    """Transforms of functions need no special care of libraries."""
    return False


def _get_privateuse1_backend_name() -> str:
    """The name of a device of one's own, which nobody has given."""
    return "privateuseone"


def _get_available_device_type() -> None:
    """There is no other device than the CPU."""


def _get_device_module(device_type: str) -> Any:
    """`torch.cpu` or `torch.cuda`."""
    return importlib.import_module(f"extempo.{device_type}")


def _log_api_usage_once(event: str) -> None:
    """Nothing is reported to anybody."""


def _get_tracing_state() -> None:
    """No trace of `torch.jit` is being made."""


def _get_default_device() -> str:
    return "cpu"


def _disabled_torch_function_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What a class has for `__torch_function__` to have none: the function runs as it is."""
    return func(*args, **kwargs or {})


def _parse_to(*args: Any, **kwargs: Any) -> tuple[device | None, Any, bool, Any]:
    """What `to(...)` was asked for: (device, dtype, non_blocking, memory_format)."""
    wanted, order = _read_to(args, kwargs)
    names_device = "device" in kwargs or any(isinstance(arg, device | str) for arg in args)
    return device("cpu") if names_device else None, wanted, bool(kwargs.get("non_blocking", False)), order


class ExceptionWrapper:
    """An exception of another thread or process, raised again where its result is asked for."""

    def __init__(self, exc_info: tuple[type[BaseException], BaseException, Any], where: str = "in background") -> None:
        self.error = exc_info[1]
        self.where = where

    def reraise(self) -> None:
        raise self.error
