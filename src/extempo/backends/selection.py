"""Which kernels run: native ones where this machine can make them, NumPy's everywhere else.

Asked for at the first op, not at import. `EXTEMPO_BACKEND=numpy` chooses NumPy; without llvmlite, or where the native
backend fails its self-test (a platform it does not know), NumPy runs and a warning says so once.
"""

from __future__ import annotations

import os
import platform
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import locks
from ..core.storage import Array
from ..core.types import TensorType
from . import entry_points

if TYPE_CHECKING:
    from .llvm.native import Native

LOADED_AT = time.time()  # the package, not the native backend
FALLBACKS: Counter[str] = Counter()  # runs of NumPy kernels, by op

_lock = locks.awaited()  # half a backend, and modules that are being imported, would be of no use in a forked child
_chosen: list[Native | None] = []


def native() -> Native | None:
    """The native backend, loaded when first asked for; None where NumPy's kernels run."""
    if _chosen:
        return _chosen[0]
    with _lock:
        if not _chosen:
            found = _load()
            _chosen.append(found)
            if found is not None:
                entry_points.install()
        return _chosen[0]


def _load() -> Native | None:
    wanted = os.environ.get("EXTEMPO_BACKEND", "").strip().lower()
    if wanted == "numpy":
        return None
    if wanted not in ("", "native"):
        warnings.warn(f"EXTEMPO_BACKEND={wanted!r} is not known; use numpy or native", stacklevel=2)
    why = _unfit()
    if why is None:
        try:
            from .llvm.native import Native

            return Native()
        except ModuleNotFoundError as error:
            why = f"{error}; install it with: pip install llvmlite"
        except Exception as error:
            why = f"the native backend failed its self-test here ({type(error).__name__}: {error})"
    warnings.warn(f"extempo runs on NumPy kernels, which are slower: {why}", RuntimeWarning, stacklevel=2)
    return None


def _unfit() -> str | None:
    """Why native kernels are not even tried; None if they are."""
    if sys.implementation.name != "cpython":
        return f"native kernels need CPython, this is {sys.implementation.name}"
    if getattr(sys, "_is_gil_enabled", lambda: True)() is False:
        return "native kernels need the GIL, which this interpreter runs without"
    if sys.platform == "win32":
        return "native kernels do not support Windows yet"
    if platform.machine().lower() not in ("x86_64", "amd64", "arm64", "aarch64"):
        return f"native kernels do not know the processor {platform.machine()}"
    return None


def empty(type_: TensorType) -> Array:
    """An array of arbitrary values; from the native backend's pool where there is one."""
    backend = native()
    if backend is None:
        return np.empty(type_.shape, type_.dtype.numpy)
    return backend.memory.empty(type_.dtype.numpy, type_.shape, type_.dtype.itemsize)


def is_block(o: object) -> bool:
    """Whether it is a block of the native backend's pool: the base of arrays in that memory."""
    backend = native()
    return backend is not None and isinstance(o, backend.memory.block_type)


MUCH_MEMORY = 4 << 20


def give_back_memory() -> bool:
    """Let the system have the memory that is kept for later arrays, if that is much; says whether it was."""
    backend = native()
    if backend is None or backend.memory.free_bytes <= MUCH_MEMORY:
        return False
    backend.memory.clear()
    return True


@contextmanager
def short_of_memory(op: str, error: MemoryError) -> Iterator[None]:
    """NumPy found no memory: inside, `op` tries again with what was kept for later arrays given back."""
    backend = native()
    if backend is None:
        raise error
    backend.memory.clear()
    try:
        yield
    except MemoryError as second:
        used = backend.memory.stats()["bytes_in_use"]
        raise MemoryError(f"{op}: {second}; tensors have {used:,} bytes in use: let go of some") from None


def stats() -> dict[str, Any]:
    """Which backend runs, how often an op had no native kernel, what was compiled, and how memory is used.

    >>> sorted(ex.backends.stats())[:2]
    ['backend', 'fallbacks']
    """
    found = native()
    if found is None:
        return {"backend": "numpy", "fallbacks": {}}
    return {"backend": "native", "fallbacks": dict(FALLBACKS)} | found.stats()
