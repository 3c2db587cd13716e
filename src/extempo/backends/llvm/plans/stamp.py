"""What kernels are made from, as short texts, so that a later process finds them on disk without writing their code.

A kernel's code follows from its expressions (`Expression.identity`), from the definitions of their ops and from the
files that turn these into code. The latter two are named by what the files contain; so a change of any of them makes
every kernel on disk unknown that could depend on it. Where it is not sure that what is loaded is what the files say,
there is no text, and kernels are found by their code.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ....core.op import Op
from ....core.types import dtype
from ..ir import sources
from ..ir.sources import loaded_at as loaded_at

_LLVM = "backends/llvm"
_WRITERS = (
    *("core/types.py", "core/op.py", "core/graph.py", f"{_LLVM}/ir", f"{_LLVM}/lanes", f"{_LLVM}/elementwise"),
    *(f"{_LLVM}/plans/{name}.py" for name in ("clusters", "expressions", "stamp")),
)


def writers() -> str | None:
    """Which code writes kernels."""
    return sources.digest_of_all(_WRITERS)


def identity_of(op: type[Op]) -> str | None:
    """Which op it is, and how it is defined; None for those that are defined elsewhere or have been changed."""
    code = getattr(op.lower, "__code__", None)
    if code is None or getattr(sys.modules.get(op.__module__), op.__qualname__, None) is not op:
        return None
    parts = [op.__module__, op.__qualname__]
    for base in op.__mro__[:-1]:
        file = Path(getattr(sys.modules.get(base.__module__), "__file__", None) or "")
        digest = sources.digest(file) if file.is_relative_to(sources.PACKAGE) else None
        if digest is None:
            return None
        parts.append(digest)
    return repr(parts) if sources.is_known(Path(code.co_filename)) else None


def text_is_value(value: Any) -> bool:
    """Whether equal `repr`s mean equal values."""
    if type(value) is tuple:
        return all(map(text_is_value, value))
    return value is None or type(value) in (int, float, bool, str, dtype)
