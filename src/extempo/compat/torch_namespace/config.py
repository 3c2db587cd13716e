"""`torch.__config__`: what programs print into their logs about how the library was built."""

from __future__ import annotations

import numpy

from ..._version import __version__
from ...backends import thread_count
from ...backends.selection import native


def show() -> str:
    """Versions and the backend, line by line."""
    backend = "LLVM through llvmlite" if native() is not None else "NumPy"
    return f"Extempo {__version__} under PyTorch's name\n  - CPU kernels: {backend}\n  - NumPy {numpy.__version__}\n"


def parallel_info() -> str:
    """How many threads a kernel may use."""
    return f"Extempo parallel info:\n\tget_num_threads() : {thread_count.number()}\n"
