"""CUDA devices: there are none. Scripts that ask get their answer; see `compat.accelerators`."""

from __future__ import annotations

from ..compat.accelerators import *  # noqa: F403 - the names stand in its __all__
from ..compat.accelerators import AcceleratorError, refusals
from ..core.absent_names import explain_absent
from . import amp as amp

CudaError = DeferredCudaCallError = AcceleratorError  # programs catch them

_initialized = False  # libraries ask before they keep the state of its generators

explain_absent(__name__, refusals("cuda"))
