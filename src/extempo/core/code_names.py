"""What code can read by name, found without running it: the globals that it names, and whose module is a library's."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from types import CodeType

_LIBRARIES = frozenset((*sys.stdlib_module_names, "extempo", "numpy", "torch"))


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of functions and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def globals_of(code: CodeType) -> Iterator[tuple[str, list[str]]]:
    """The global names that code reads, each with the attributes it is asked for at once: `np.linalg.norm`."""
    name, attributes = "", []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and name:
            attributes.append(instruction.argval)
            continue
        if name:
            yield name, attributes
        name, attributes = instruction.argval if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") else "", []


def is_library(module: str | None) -> bool:
    """Whether a module is of Python or of an installed package, and not the user's own."""
    if module is None or module == "__main__":
        return False
    root = module.partition(".")[0]
    path = getattr(sys.modules.get(root), "__file__", None) or ""
    return root in _LIBRARIES or "site-packages" in path or "dist-packages" in path
