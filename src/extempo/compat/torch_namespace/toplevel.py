"""Names of `torch` itself that Extempo has no use for: checks, symbolic sizes, lists of tensors.

There is no `__all__`: `from torch import *` takes none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core.absent_names import refused
from ...core.device import device
from ...core.tensor import Tensor
from ...core.types import dtype
from ...ops.gamma_gradient import standard_gamma as _standard_gamma  # noqa: F401 - torch._standard_gamma
from ..accelerators import AcceleratorError as AcceleratorError
from ..accelerators import OutOfMemoryError as OutOfMemoryError
from ..storages import UntypedStorage as UntypedStorage
from .foreach import foreach_function, foreach_norm
from .jit import ScriptFunction as ScriptFunction
from .jit import ScriptModule as ScriptModule

Future = refused("torch.futures.Future", "use concurrent.futures")
DeviceObjType = device  # the class behind the name

PyTorchFileReader, PyTorchFileWriter = (
    refused(f"torch.{name}", "use torch.load and torch.save") for name in ("PyTorchFileReader", "PyTorchFileWriter")
)


class Stream:
    """A queue of another device: there is none, and what waits for it goes on at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def synchronize(self) -> None:
        """Everything is done."""

    wait_stream = wait_event = record_event = lambda self, *args: None

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


class Event(Stream):
    """A mark in such a queue."""

    record = wait = lambda self, *args: None

    def query(self) -> bool:
        return True


def set_vital(vital: str, attribute: str, value: str) -> bool:
    """Nothing is kept for statistics of programs."""
    return False


def _assert(condition: Any, message: str) -> None:
    """Python's `assert` as a function."""
    assert condition, message


def _assert_async(condition: Tensor, message: str = "Expected Tensor to be true") -> None:
    """At once, since there is nobody to wait for."""
    if not condition:
        raise RuntimeError(message)


def _check_with(error: type[Exception], condition: Any, message: Callable[[], object] | None = None) -> None:
    """Raise an error of this kind unless the condition holds; `message` is called for the text."""
    if not condition:
        raise error(str(message()) if message is not None else "Expected cond to be True, but got False.")


def _check(condition: Any, message: Callable[[], object] | None = None) -> None:
    _check_with(RuntimeError, condition, message)


def _check_index(condition: Any, message: Callable[[], object] | None = None) -> None:
    _check_with(IndexError, condition, message)


def _check_value(condition: Any, message: Callable[[], object] | None = None) -> None:
    _check_with(ValueError, condition, message)


def _check_type(condition: Any, message: Callable[[], object] | None = None) -> None:
    _check_with(TypeError, condition, message)


def _check_not_implemented(condition: Any, message: Callable[[], object] | None = None) -> None:
    _check_with(NotImplementedError, condition, message)


def _check_is_size(i: int, message: Callable[[], object] | None = None, **kwargs: Any) -> None:
    """A size is not negative."""
    _check(i >= 0, message)


# Sizes are plain numbers.
sym_int, sym_float, sym_max, sym_min, sym_sqrt = int, float, max, min, math.sqrt


def sym_sum(args: Any) -> Any:
    return sum(args)


def sym_not(a: Any) -> bool:
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    return t if b else f


def get_autocast_cpu_dtype() -> dtype:
    """The dtype that `autocast("cpu")` was asked for."""
    from ...amp import get_autocast_dtype

    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> dtype:
    from ...amp import get_autocast_dtype

    return get_autocast_dtype("cuda")


def is_autocast_cpu_enabled() -> bool:
    from ...amp import is_autocast_enabled

    return is_autocast_enabled("cpu")


# The methods that PyTorch has as functions, too: `torch.exp_(x)`.
_WRITERS = (
    "abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max "
    "clamp_min clip conj_physical cos cosh deg2rad detach erf erfc exp exp2 expm1 fill fix floor frac gcd i0 lcm ldexp "
    "log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal resize_as round rsqrt sigmoid sin sinc sinh "
    "sqrt square tan tanh trunc xlogy zero"
)
_IN_PLACE = frozenset(f"{name}_" for name in _WRITERS.split())


def __getattr__(name: str) -> Any:
    """`_foreach_add_`, `exp_` and the like."""
    if name in _IN_PLACE and hasattr(Tensor, name):
        return getattr(Tensor, name)
    if name == "_foreach_norm":
        return foreach_norm
    if name.startswith("_foreach_"):
        return foreach_function(name.removeprefix("_foreach_"))
    raise AttributeError(f"module 'torch' has no attribute {name!r}", name=name)
