"""Lines of the user's code: where a record was written, as a file, a number and the text that stands there."""

from __future__ import annotations

import linecache
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple


class Line(NamedTuple):
    """A line of a file."""

    file: str
    number: int
    function: str

    @property
    def short(self) -> str:
        """`train.py:41`."""
        return f"{Path(self.file).name}:{self.number}"

    @property
    def text(self) -> str:
        """What stands there, "" where the file is not at hand."""
        return linecache.getline(self.file, self.number).strip()

    def __str__(self) -> str:
        return f"{self.short} {self.text}".rstrip()


@lru_cache(10_000)
def line_of(code: CodeType, instruction: int) -> Line:
    """The line of an instruction, by its offset in bytes."""
    number = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            number = line
    return Line(code.co_filename, number, code.co_qualname)
