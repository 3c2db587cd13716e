"""autocast: a block that is remembered and changes no number.

Which device types are switched on, and the dtype asked for, belong to the context (thread, greenlet, task), like every
mode; `is_autocast_enabled` and `get_autocast_dtype` answer as in PyTorch.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from ..core.device import device
from ..core.interrupts import Scope
from ..core.types import as_dtype, bfloat16, dtype, float16
from ..errors import DtypeError

F = TypeVar("F", bound=Callable[..., Any])

_CPU_DTYPES = (bfloat16, float16)
# (whether it is enabled, the dtype asked for) on the CPU, the only device there is.
_STATE: ContextVar[tuple[bool, dtype]] = ContextVar("extempo_autocast", default=(False, bfloat16))


class autocast(Scope[tuple[bool, dtype]]):
    """A context manager and decorator that PyTorch scripts put around their forward pass. Here it changes no number.

    Ops inside run in the dtype of their operands, so float32 code stays float32: with NumPy's kernels bfloat16 would be
    slower. To compute in bfloat16 anyway, convert: `model.to(ex.bfloat16)`. As in PyTorch without the device, a
    `device_type` other than "cpu" is switched off with a warning, and so is a dtype that autocast does not have.

    >>> with ex.amp.autocast("cpu", dtype=ex.bfloat16):
    ...     y = ex.ones(2) @ ex.ones(2)
    >>> y
    tensor(2.)
    """

    _variable = _STATE

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise DtypeError(f"autocast: expected a device type such as 'cpu', got {type(device_type).__name__}")
        self.device = device(device_type).type
        self.fast_dtype = as_dtype(dtype) if dtype is not None else get_autocast_dtype(self.device)
        self._enabled = enabled and self._is_possible()

    def _is_possible(self) -> bool:
        if self.device != "cpu":
            warnings.warn(f"autocast: there is no device {self.device!r}; autocast is off", stacklevel=3)
            return False
        if self.fast_dtype not in _CPU_DTYPES:
            warnings.warn(
                f"autocast: expected bfloat16 or float16, got {self.fast_dtype}; autocast is off", stacklevel=3
            )
            return False
        return True

    def _inner(self, before: tuple[bool, dtype]) -> tuple[bool, dtype]:
        return (self._enabled, self.fast_dtype) if self.device == "cpu" else before

    def __call__(self, fn: F) -> F:
        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return cast(F, wrapped)


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether an `autocast` block for this device type is open here. As in PyTorch, no argument asks about CUDA.

    >>> with ex.autocast("cpu"):
    ...     ex.is_autocast_enabled("cpu"), ex.is_autocast_enabled()
    (True, False)
    """
    return device(device_type).type == "cpu" and _STATE.get()[0]


def get_autocast_dtype(device_type: str) -> dtype:
    """The dtype that the open `autocast` block asked for; bfloat16 for the CPU and float16 elsewhere if none did.

    >>> ex.get_autocast_dtype("cpu")
    extempo.bfloat16
    """
    return _STATE.get()[1] if device(device_type).type == "cpu" else float16


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` takes this device type without a warning: True for "cpu".

    >>> ex.amp.is_autocast_available("cpu")
    True
    """
    return device(device_type).type == "cpu"


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Mark the forward of an `autograd.Function` for autocast. Autocast changes no number here, and neither does this.

    >>> class Double(ex.autograd.Function):
    ...     @staticmethod
    ...     @ex.amp.custom_fwd(device_type="cpu", cast_inputs=ex.float32)
    ...     def forward(ctx, x):
    ...         return 2 * x
    >>> Double.apply(ex.ones(1))
    tensor([2.])
    """
    device(device_type)
    return (lambda fn: fn) if fwd is None else fwd


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Mark the backward of an `autograd.Function` for autocast; see `custom_fwd`.

    >>> @ex.amp.custom_bwd(device_type="cpu")
    ... def backward(ctx, gradient):
    ...     return 2 * gradient
    >>> backward(None, 1.5)
    3.0
    """
    return custom_fwd(bwd, device_type=device_type)
