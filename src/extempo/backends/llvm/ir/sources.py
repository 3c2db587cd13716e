"""Digests of source files: what follows from them alone can be kept on disk, and found without being made again.

Where it is not sure that what is loaded is what a file says, there is no digest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from ...selection import LOADED_AT

PACKAGE = Path(__file__).parents[3]
_MARGIN = 2.0  # seconds that loading the package may have taken

_loaded_at = [LOADED_AT]
_digests: dict[Path, str | None] = {}


def loaded_at(seconds: float) -> None:
    """Say when the package was loaded: files that are newer may not be what runs."""
    _loaded_at[0] = min(_loaded_at[0], seconds)


def digest(file: Path) -> str | None:
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


def is_known(file: Path) -> bool:
    """Whether it was asked for before."""
    return file in _digests


def digest_of_all(names: Iterable[str]) -> str | None:
    """Of files of the package, and of all in folders of it; None if that of one of them is missing."""
    paths = [PACKAGE / name for name in names]
    files = [file for path in paths for file in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    found = [digest(file) for file in files]
    return None if None in found or len(found) < len(paths) else hashlib.sha256(repr(found).encode()).hexdigest()
