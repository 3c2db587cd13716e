"""Process-wide settings by PyTorch's names, each saying what it does here today.

Results never depend on any of them: Extempo's CPU kernels are deterministic and compute in the dtype they are given.
"""

from __future__ import annotations

from typing import Any

from ..backends import thread_count
from ..core.storage import Storage
from ..core.tensor import Tensor
from ..core.types import set_default_dtype
from ..errors import ArgumentError, DtypeError
from ..ops.convert import type_dtype

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_storage",
    "set_default_tensor_type",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "typename",
    "use_deterministic_algorithms",
]

_n_interop_threads: int | None = None
_deterministic = False
_warn_only = False
_matmul_precision = "highest"


def get_num_threads() -> int:
    """The threads that a kernel may use: the number set with `set_num_threads`, or else the default.

    That is EXTEMPO_NUM_THREADS, OMP_NUM_THREADS, OPENBLAS_NUM_THREADS or MKL_NUM_THREADS, the first that is set, or one
    thread for each core that the process may use.

    >>> ex.get_num_threads() >= 1
    True
    """
    return thread_count.number()


def set_num_threads(int: int) -> None:
    """Let a kernel use that many threads, the calling one included.

    Only a kernel with enough work is split, and a result is the same on any number of threads. NumPy's BLAS, where a
    NumPy kernel calls it, has threads of its own: set OMP_NUM_THREADS before Python starts to limit those.

    >>> ex.set_num_threads(2)
    >>> ex.get_num_threads()
    2
    """
    thread_count.choose(_positive(int, "set_num_threads"))


def get_num_interop_threads() -> int:
    """The number set with `set_num_interop_threads`, or else that of `get_num_threads`.

    >>> ex.get_num_interop_threads() >= 1
    True
    """
    return _n_interop_threads if _n_interop_threads is not None else thread_count.available()


def set_num_interop_threads(int: int) -> None:
    """Keep the number for `get_num_interop_threads`; ops of one thread run one after another.

    >>> ex.set_num_interop_threads(2)
    >>> ex.get_num_interop_threads()
    2
    """
    global _n_interop_threads
    _n_interop_threads = _positive(int, "set_num_interop_threads")


def _positive(number: Any, op: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise DtypeError(f"{op}: expected an int, got {type(number).__name__}")
    if number < 1:
        raise ArgumentError(f"{op}: expected a positive number of threads, got {number}")
    return number


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Keep the wish: every kernel here is deterministic anyway.

    >>> ex.use_deterministic_algorithms(True)
    >>> ex.are_deterministic_algorithms_enabled()
    True
    >>> ex.use_deterministic_algorithms(False)
    """
    global _deterministic, _warn_only
    _deterministic, _warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was told.

    >>> ex.use_deterministic_algorithms(True)
    >>> ex.are_deterministic_algorithms_enabled()
    True
    >>> ex.use_deterministic_algorithms(False)
    """
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` was told about warnings.

    >>> ex.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _warn_only


def set_float32_matmul_precision(precision: str) -> None:
    """Keep "highest", "high" or "medium": float32 products are computed in float32 anyway.

    >>> ex.set_float32_matmul_precision("high")
    >>> ex.get_float32_matmul_precision()
    'high'
    >>> ex.set_float32_matmul_precision("highest")
    """
    global _matmul_precision
    if precision not in ("highest", "high", "medium"):
        raise ArgumentError(f"set_float32_matmul_precision: expected 'highest', 'high' or 'medium', got {precision!r}")
    _matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was told.

    >>> ex.get_float32_matmul_precision()
    'highest'
    """
    return _matmul_precision


def set_flush_denormal(mode: bool) -> bool:
    """False: Extempo cannot make the CPU flush subnormal numbers to zero.

    >>> ex.set_flush_denormal(True)
    False
    """
    return False


def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of `ex.DoubleTensor` (or of "torch.DoubleTensor") that of new floating tensors.

    >>> ex.set_default_tensor_type(ex.DoubleTensor)
    >>> ex.tensor([1.5]).dtype
    extempo.float64
    >>> ex.set_default_tensor_type(ex.FloatTensor)
    """
    d = type_dtype(t, "set_default_tensor_type")
    if not d.is_floating_point:
        raise DtypeError(f"set_default_tensor_type: expected a floating tensor type, got {t}")
    set_default_dtype(d)


def typename(obj: Any) -> str:
    """`extempo.FloatTensor` for a tensor, else the qualified name of the object or of its type.

    >>> ex.typename(ex.zeros(2)), ex.typename(3)
    ('extempo.FloatTensor', 'int')
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", "") or ""
    return named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}"


def is_storage(obj: Any) -> bool:
    """Whether obj is the storage of a tensor.

    >>> ex.is_storage(ex.zeros(2))
    False
    """
    return isinstance(obj, Storage)
