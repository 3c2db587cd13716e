"""Fused updates: an optimizer's rule as a formula of single elements, run over flat memory natively or by NumPy.

A formula is plain arithmetic, the same text for arrays and for the lanes of a native kernel:

    def descend(m, numbers, choices, values, gradient, *moments): return (values, *moments)

It uses operators, the functions of `m` (NumPy's sqrt, absolute, maximum, minimum, where, sign), the run-time `numbers`
(learning rate, corrections: in no kernel's text) and `choices`, which pick its branches. It writes to nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backends.selection import native
from ..core.cache import Cache
from ..core.storage import Array
from ..core.tensor import Tensor

if TYPE_CHECKING:
    from ..backends.llvm.routines.stepping import Stepping

__all__ = ["Update", "UpdateKernel", "native_places", "native_stepping", "native_update", "numpy_update"]

Formula = Callable[..., tuple[Any, ...]]


class UpdateKernel(NamedTuple):
    """A formula and everything that chooses its branches: what a native kernel is made for."""

    formula: Formula
    choices: tuple[bool, ...] = ()
    maximize: bool = False
    decay: str = ""  # "decoupled": values shrink by the last number; "added": values times it join the gradient

    @property
    def name(self) -> str:
        """Tells kernels apart."""
        chosen = "".join("01"[choice] for choice in (*self.choices, self.maximize))
        return f"{self.formula.__module__}.{self.formula.__qualname__}_{chosen}{self.decay}"

    def __call__(self, m: Any, numbers: Sequence[Any], values: Any, gradient: Any, *moments: Any) -> Any:
        """The new values and moments."""
        if self.maximize:
            gradient = -gradient
        if self.decay == "decoupled":
            values = values * numbers[-1]
        elif self.decay == "added":
            gradient = gradient + values * numbers[-1]
        return self.formula(m, numbers, self.choices, values, gradient, *moments)


class Update(NamedTuple):
    """One step: the kind of update and its numbers."""

    kind: UpdateKernel
    numbers: tuple[float, ...]


# ---- natively

_NATIVE: Cache[tuple[Any, ...], Any] = Cache("optimizer kernels", 1000)


def native_update(update: Update, n_moments: int, d: np.dtype[Any]) -> Any | None:
    """The native kernel of an update (see `backends.llvm.routines.updates`); None where there is none."""
    key = (update.kind, n_moments, d)
    found = _NATIVE.get(key)
    if found is None:
        found = _NATIVE.put(key, _build(update, n_moments, d) or False)
    return found or None


def _build(update: Update, n_moments: int, d: np.dtype[Any]) -> Any | None:
    is_named = "<" not in update.kind.formula.__qualname__  # one made inside a function may share its name with others
    if native() is None or not is_named:
        return None
    from ..backends.llvm.routines.updates import update_function

    name = f"{update.kind.name}_{n_moments}"
    return update_function(name, update.kind.__call__, len(update.numbers), n_moments, d)


def native_places(d: np.dtype[Any], values: Array, moments: Sequence[Array]) -> Any | None:
    """Where values and moments are in memory, for native kernels; None where there are none."""
    if native() is None:
        return None
    from ..backends.llvm.routines.updates import places

    return places(d, values, moments)


@functools.cache
def native_stepping() -> Stepping:
    """What is done natively around updates; there must be a native backend."""
    from ..backends.llvm.routines.stepping import Stepping

    return Stepping(Tensor)


# ---- by NumPy


def numpy_update(update: Update, gradient: Array, values: Array, moments: Sequence[Array]) -> None:
    """Update values and moments in place, in the precision of the gradient."""
    written = (values, *moments)
    # float16 and bfloat16 are too coarse to compute in: one rounding at the end, none in between.
    wide = [a if a.dtype is gradient.dtype else a.astype(gradient.dtype) for a in written]
    for place, result in zip(written, update.kind(np, update.numbers, wide[0], gradient, *wide[1:]), strict=True):
        place[...] = result
