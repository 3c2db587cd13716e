"""Extempo: graphs made up as you go, at full tempo. A define-by-run deep-learning library with PyTorch's names.

`import extempo` loads tensors, ops and autograd. The other public modules (`ex.nn`, `ex.optim`, ...) are there too, and
are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from math import e, inf, nan, pi
from typing import TYPE_CHECKING

from . import autograd, backends, errors, ops, random
from ._version import __version__
from .compat import legacy_types, settings, sym_types
from .compat import storages as _storages  # noqa: F401 - it gives tensors two methods
from .compat.legacy_types import *
from .compat.refused import getattr_of_extempo as _absent
from .compat.settings import *
from .compat.sym_types import *
from .core.context import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .core.device import device
from .core.graph import Graph
from .core.printing import set_printoptions
from .core.public_names import publish as _publish
from .core.tensor import Tensor
from .core.types import NAMED_ONLY as _NAMED_ONLY
from .core.types import (
    Size,
    bfloat16,
    complex32,
    complex64,
    complex128,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
)
from .core.types import bool_ as bool
from .core.types import complex32 as chalf
from .core.types import complex64 as cfloat
from .core.types import complex128 as cdouble
from .core.types import float16 as half
from .core.types import float32 as float
from .core.types import float64 as double
from .core.types import int16 as short
from .core.types import int32 as int
from .core.types import int64 as long
from .ops.normalization import _native_batch_norm_legit
from .ops.public import *
from .tracing.api import compile, eager

if TYPE_CHECKING:  # loaded on first use, by `__getattr__` below
    from . import (
        amp,
        cpu,
        cuda,
        data,
        distributed,
        distributions,
        func,
        inspect,
        linalg,
        masked,
        memory,
        metrics,
        mps,
        nested,
        nn,
        optim,
        serialization,
        signal,
        special,
        testing,
        train,
        utils,
        version,
        xpu,
    )
    from .amp import GradScaler, autocast, get_autocast_dtype, is_autocast_enabled
    from .batching.api import batch
    from .batching.cells import cell
    from .comparing.calling import compare
    from .exporting.building import program
    from .exporting.control_flow import cond, map, scan, while_loop
    from .exporting.files import load_program
    from .exporting.onnx_import.module import from_onnx
    from .func import vmap
    from .inspect.breakpoints import breakpoint
    from .inspect.explaining import explain
    from .inspect.recording import record
    from .inspect.watching import watch
    from .nested import jagged, nested_tensor
    from .profiling.api import profile
    from .ragged_tensors.creation import ragged, ragged_from_values
    from .ragged_tensors.padding import ragged_from_padded
    from .ragged_tensors.tensor import RaggedTensor
    from .serialization import load, save
    from .signal.older_windows import (
        bartlett_window,
        blackman_window,
        hamming_window,
        hann_window,
        kaiser_window,
    )
    from .studio_server.api import studio

newaxis = None

__all__ = [
    "GradScaler",
    "Graph",
    "RaggedTensor",
    "Size",
    "Tensor",
    "__version__",
    "_native_batch_norm_legit",
    "amp",
    "autocast",
    "autograd",
    "backends",
    "bartlett_window",
    "batch",
    "bfloat16",
    "blackman_window",
    "bool",
    "breakpoint",
    "cdouble",
    "cell",
    "cfloat",
    "chalf",
    "compare",
    "compile",
    "complex32",
    "complex64",
    "complex128",
    "cond",
    "cpu",
    "cuda",
    "data",
    "device",
    "distributed",
    "distributions",
    "double",
    "dtype",
    "e",
    "eager",
    "enable_grad",
    "errors",
    "explain",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "from_onnx",
    "func",
    "get_autocast_dtype",
    "get_default_dtype",
    "half",
    "hamming_window",
    "hann_window",
    "iinfo",
    "inf",
    "inference_mode",
    "inspect",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_autocast_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "jagged",
    "kaiser_window",
    "linalg",
    "load",
    "load_program",
    "long",
    "map",
    "masked",
    "memory",
    "metrics",
    "mps",
    "nan",
    "nested",
    "nested_tensor",
    "newaxis",
    "nn",
    "no_grad",
    "ops",
    "optim",
    "pi",
    "profile",
    "program",
    "ragged",
    "ragged_from_padded",
    "ragged_from_values",
    "random",
    "record",
    "save",
    "scan",
    "serialization",
    "set_default_dtype",
    "set_grad_enabled",
    "set_printoptions",
    "short",
    "signal",
    "special",
    "studio",
    "testing",
    "train",
    "uint8",
    "utils",
    "version",
    "vmap",
    "watch",
    "while_loop",
    "xpu",
]
__all__ += [name for name in _NAMED_ONLY if name not in __all__]
__all__ += legacy_types.__all__
__all__ += ops.__all__
__all__ += settings.__all__
__all__ += sym_types.__all__

# The functions here that come from a module that is loaded on first use, with that module.
_HOMES = {
    "GradScaler": "amp",
    "RaggedTensor": "ragged_tensors.tensor",
    "autocast": "amp",
    "bartlett_window": "signal.older_windows",
    "batch": "batching.api",
    "blackman_window": "signal.older_windows",
    "breakpoint": "inspect.breakpoints",
    "cell": "batching.cells",
    "compare": "comparing.calling",
    "cond": "exporting.control_flow",
    "explain": "inspect.explaining",
    "from_onnx": "exporting.onnx_import.module",
    "get_autocast_dtype": "amp",
    "hamming_window": "signal.older_windows",
    "hann_window": "signal.older_windows",
    "is_autocast_enabled": "amp",
    "jagged": "nested",
    "kaiser_window": "signal.older_windows",
    "load": "serialization",
    "load_program": "exporting.files",
    "map": "exporting.control_flow",
    "nested_tensor": "nested",
    "profile": "profiling.api",
    "program": "exporting.building",
    "ragged": "ragged_tensors.creation",
    "ragged_from_padded": "ragged_tensors.padding",
    "ragged_from_values": "ragged_tensors.creation",
    "record": "inspect.recording",
    "save": "serialization",
    "scan": "exporting.control_flow",
    "studio": "studio_server.api",
    "vmap": "func",
    "watch": "inspect.watching",
    "while_loop": "exporting.control_flow",
}

globals().update(_NAMED_ONLY)
_publish(__name__, __all__, globals())

if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> object:
        """A public name that is not loaded yet, kept for the next time; or what `core.absent_names` says of others."""
        if name in _HOMES:
            found = getattr(_import_module(f".{_HOMES[name]}", __name__), name)
        elif name in __all__:
            found = _import_module(f".{name}", __name__)
        else:
            return _absent(name)
        globals()[name] = found
        _publish(__name__, [name], globals())
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
