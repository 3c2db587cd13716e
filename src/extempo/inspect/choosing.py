"""Which ops somebody wants to hear of: by op, module and shape, as `ex.breakpoint` and `ex.watch` take them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..core.absent_names import did_you_mean
from ..core.op import REGISTRY
from ..core.tensor import Tensor
from ..errors import ArgumentError, DtypeError
from .observing import BACKWARD, FORWARD, Event

Patterns = str | Sequence[str] | None


class Choice:
    """Patterns of ops and modules (`exp`, `log*`, `encoder.*`), a shape (None for any size), and a phase.

    `encoder.*` means all of `encoder`, ops of its own forward included.
    """

    def __init__(self, what: str, op: Patterns, module: Patterns, shape: Any, phase: str | None) -> None:
        self.ops = _patterns(what, "op", op)
        self.modules = _patterns(what, "module", module)
        if phase not in (None, FORWARD, BACKWARD):
            raise ArgumentError(f"{what}: phase is 'forward', 'backward' or None for both, got {phase!r}")
        self.phase = phase
        self.shape = None if shape is None else tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        for pattern in self.ops:
            if not any(fnmatchcase(name, pattern) for name in REGISTRY):
                raise ArgumentError(f"{what}: no op is called {pattern!r}{did_you_mean(pattern, REGISTRY)}")

    def takes(self, event: Event) -> bool:
        """Whether an event is one of those."""
        if self.phase is not None and event.phase != self.phase:
            return False
        if self.ops and not any(fnmatchcase(event.op.name, pattern) for pattern in self.ops):
            return False
        if self.modules and not any(_is_in(event.module, pattern) for pattern in self.modules):
            return False
        return self.shape is None or any(self._fits(x) for x in event.results)

    def _fits(self, x: Any) -> bool:
        shape = self.shape or ()
        if not isinstance(x, Tensor) or len(x.shape) != len(shape):
            return False
        return all(want is None or want == size for want, size in zip(shape, x.shape, strict=True))

    def __str__(self) -> str:
        told = [f"op={', '.join(self.ops)}"] if self.ops else []
        told += [f"module={', '.join(self.modules)}"] if self.modules else []
        told += [f"shape={self.shape}"] if self.shape is not None else []
        return ", ".join(told + ([f"phase={self.phase}"] if self.phase else [])) or "every op"


def _is_in(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or (pattern.endswith(".*") and fnmatchcase(path, pattern[:-2]))


def _patterns(what: str, name: str, given: Patterns) -> tuple[str, ...]:
    found = () if given is None else (given,) if isinstance(given, str) else given
    if not isinstance(found, tuple | list) or not all(isinstance(pattern, str) for pattern in found):
        raise DtypeError(f"{what}: {name} is a name or pattern such as 'exp' or 'log*', or a list of them")
    return tuple(found)
