"""The names of PyTorch that a program asked for and did not get, with the line that asked."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import FrameType

_NOT_THE_PROGRAM = ("importlib", "<frozen", "torch_namespace")


@dataclass(frozen=True)
class MissingName:
    """`torch.<module>.<name>`, and where it was asked for."""

    path: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}  ({self.file}:{self.line})"


_missing: dict[MissingName, None] = {}  # in the order in which they were asked for, each once


def note_missing(path: str) -> None:
    """Called where a name is not found, anywhere below the line that asked for it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and any(part in frame.f_code.co_filename for part in _NOT_THE_PROGRAM):
        frame = frame.f_back
    if frame is not None:
        _missing[MissingName(path, frame.f_code.co_filename, frame.f_lineno)] = None


def missing_names() -> list[MissingName]:
    """All so far. Names that a program merely tried (`hasattr`, `except ImportError`) are among them."""
    return list(_missing)


def forget_missing() -> None:
    _missing.clear()
