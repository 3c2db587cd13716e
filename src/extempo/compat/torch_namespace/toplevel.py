"""Names of `torch` itself that Extempo has no use for: checks, symbolic sizes, lists of tensors.

There is no `__all__`: `from torch import *` takes none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...autograd import is_anomaly_enabled as is_anomaly_enabled
from ...autograd import set_detect_anomaly
from ...core.absent_names import refused
from ...core.device import contiguous_format, device
from ...core.tensor import Tensor
from ...core.types import dtype
from ...ops.gamma_gradient import standard_gamma as _standard_gamma  # noqa: F401 - torch._standard_gamma
from ..accelerators import AcceleratorError as AcceleratorError
from ..accelerators import OutOfMemoryError as OutOfMemoryError
from ..storages import UntypedStorage as UntypedStorage
from .foreach import foreach_function, foreach_norm
from .jit import ScriptFunction as ScriptFunction
from .jit import ScriptModule as ScriptModule
from .jit import fork as fork
from .jit import wait as wait
from .native_functions import bilinear as bilinear
from .native_functions import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .native_functions import binomial as binomial
from .native_functions import cosine_embedding_loss as cosine_embedding_loss
from .native_functions import ctc_loss as ctc_loss
from .native_functions import detach_copy as detach_copy
from .native_functions import gru_cell as gru_cell
from .native_functions import hinge_embedding_loss as hinge_embedding_loss
from .native_functions import kl_div as kl_div
from .native_functions import lstm_cell as lstm_cell
from .native_functions import margin_ranking_loss as margin_ranking_loss
from .native_functions import norm_except_dim as norm_except_dim
from .native_functions import pdist as pdist
from .native_functions import poisson_nll_loss as poisson_nll_loss
from .native_functions import rnn_relu_cell as rnn_relu_cell
from .native_functions import rnn_tanh_cell as rnn_tanh_cell
from .native_functions import triplet_margin_loss as triplet_margin_loss
from .overrides import DisableTorchFunction as DisableTorchFunction
from .overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass

Future = refused("torch.futures.Future", "use concurrent.futures")
DeviceObjType = device  # the class behind the name
legacy_contiguous_format = contiguous_format
# Libraries that PyTorch may be built with
has_lapack = has_mkl = has_openmp = has_spectral = False

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


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """`torch.autograd.set_detect_anomaly`, as no block."""
    set_detect_anomaly(mode, check_nan)


is_anomaly_check_nan_enabled = is_anomaly_enabled


class JITException(RuntimeError):
    """Raised by TorchScript only, which is not here."""


class FatalError(RuntimeError):
    """Raised by PyTorch's own machinery only."""


_told = {"warn always": False, "deterministic": 0, "autocast cache": True}


def set_warn_always(b: bool, /) -> None:
    """Keep the wish: what warns here warns each time that Python's filters let it."""
    _told["warn always"] = bool(b)


def is_warn_always_enabled() -> bool:
    return bool(_told["warn always"])


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Keep "default", "warn" or "error", or its number: every kernel is deterministic."""
    modes = ("default", "warn", "error")
    _told["deterministic"] = modes.index(debug_mode) if isinstance(debug_mode, str) else debug_mode


def get_deterministic_debug_mode() -> int:
    return _told["deterministic"]


def clear_autocast_cache() -> None:
    """Autocast converts nothing here, so that nothing is kept."""


autocast_increment_nesting = autocast_decrement_nesting = init_num_threads = clear_autocast_cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    _told["autocast cache"] = bool(enabled)


def is_autocast_cache_enabled() -> bool:
    return bool(_told["autocast cache"])


def is_vulkan_available() -> bool:
    return False


is_autocast_ipu_enabled = is_autocast_xla_enabled = is_vulkan_available


def compiled_with_cxx11_abi() -> bool:
    """As PyTorch's packages are."""
    return True


def is_distributed(input: Tensor) -> bool:
    """Every tensor is whole."""
    return False


def get_device(input: Tensor) -> int:
    """-1, PyTorch's number of the CPU."""
    return -1


def get_device_module(device: Any = None) -> Any:
    """The module of the one device."""
    from ... import cpu

    return cpu


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that other libraries take."""
    return tensor.__dlpack__()


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """A number is checked at once."""
    _check_value((min is None or size >= min) and (max is None or size <= max))


sym_constrain_range_for_size = sym_constrain_range


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
