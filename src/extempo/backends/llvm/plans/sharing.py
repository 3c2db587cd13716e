"""Native code that some plans share, and that is compiled when the first of them wants it."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.builder import IRModule
from ..ir.machine import Library, machine


class Shared:
    """A function that is not compiled before it is wanted."""

    def __init__(self, name: str, write: Callable[[IRModule], None]) -> None:
        self.name = name
        self._write = write
        self._text: tuple[str, list[str], list[str]] | None = None
        self._library: Library | None = None

    def address(self) -> int:
        """Its address; compiled if need be."""
        if self._library is None:
            self._library = machine().load(*self._written())
        return self._library.address[self.name]

    def is_there(self) -> bool:
        """Whether it is there, or on disk, so that nobody has to wait for LLVM."""
        if self._library is None:
            text, names, _ = self._written()
            self._library = machine().find(names, text=text)
        return self._library is not None

    def _written(self) -> tuple[str, list[str], list[str]]:
        if self._text is None:
            module = IRModule()
            self._write(module)
            self._text = (module.text(), [self.name], module.imports)
        return self._text
