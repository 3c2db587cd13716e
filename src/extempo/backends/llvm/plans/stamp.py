"""What kernels are made from, as short texts, so that a later process finds them on disk without writing their code.

A kernel's code follows from its expressions (`Expression.identity`), from the definitions of their ops and from the
files that turn these into code. The latter two are named by what the files contain; so a change of any of them makes
every kernel on disk unknown that could depend on it. Where it is not sure that what is loaded is what the files say,
there is no text, and kernels are found by their code.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from ....op import Op
from ....types import dtype

_PACKAGE = Path(__file__).parents[3]
_WRITERS = ("types.py", "op.py", "graph.py", "backends/llvm/ir", "backends/llvm/lanes", "backends/llvm/elementwise")
_OWN = ("clusters.py", "expressions.py", "stamp.py")
_MARGIN = 2.0  # seconds that loading the package may have taken

_loaded_at = [time.time()]
_digests: dict[Path, str | None] = {}


def loaded_at(seconds: float) -> None:
    """Say when the package was loaded: files that are newer may not be what runs."""
    _loaded_at[0] = min(_loaded_at[0], seconds)


def writers() -> str | None:
    """Which code writes kernels."""
    paths = [_PACKAGE / name for name in _WRITERS] + [Path(__file__).parent / name for name in _OWN]
    files = [file for path in paths for file in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    found = [_digest(file) for file in files]
    return None if None in found or len(found) < len(paths) else hashlib.sha256(repr(found).encode()).hexdigest()


def identity_of(op: type[Op]) -> str | None:
    """Which op it is, and how it is defined; None for those that are defined elsewhere or have been changed."""
    code = getattr(op.lower, "__code__", None)
    if code is None or getattr(sys.modules.get(op.__module__), op.__qualname__, None) is not op:
        return None
    parts = [op.__module__, op.__qualname__]
    for base in op.__mro__[:-1]:
        file = Path(getattr(sys.modules.get(base.__module__), "__file__", None) or "")
        digest = _digest(file) if file.is_relative_to(_PACKAGE) else None
        if digest is None:
            return None
        parts.append(digest)
    return repr(parts) if Path(code.co_filename) in _digests else None


def _digest(file: Path) -> str | None:
    """Of what a file contains; None if that may not be what was loaded."""
    if file not in _digests:
        try:
            content, changed = file.read_bytes(), os.stat(file).st_mtime
        except OSError:  # an archive, or no sources
            _digests[file] = None
        else:
            is_sure = changed < _loaded_at[0] - _MARGIN
            _digests[file] = hashlib.sha256(content).hexdigest() if is_sure else None
    return _digests[file]


def text_is_value(value: Any) -> bool:
    """Whether `repr` tells everything about it."""
    if type(value) is tuple:
        return all(map(text_is_value, value))
    return value is None or type(value) in (int, float, bool, str, dtype)
