"""Anomaly detection: a backward that stops at the first gradient with a NaN and says which operation made it.

While it is on, the engine's class for one run of backward is exchanged for one that looks at every gradient; when it is
off, nothing is looked at and nothing is slower.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..core.graph import Node
from ..core.interrupts import guarded
from ..core.tensor import Tensor
from ..errors import AutogradError
from . import engine
from .messages import at

_plain = engine.BackwardEngine


class _Watched(dict[Node, Any]):
    """The gradients of a run: remembers which node is being differentiated, and looks at what is put in."""

    current: Node | None = None

    def pop(self, node: Node, default: Any = None) -> Any:
        self.current = node
        return super().pop(node, default)

    def __setitem__(self, node: Node, g: Any) -> None:
        self.look(node, g)
        super().__setitem__(node, g)

    def look(self, node: Node, g: Any) -> None:
        """Raise if the gradient that goes to `node` has a NaN."""
        for part in g if isinstance(g, list | tuple) else (g,):
            array = part._array if isinstance(part, Tensor) else part
            if array is not None and np.isnan(array).any():
                raise AutogradError(self._message(node))

    def _message(self, node: Node) -> str:
        source = self.current
        if source is None:
            return "detect_anomaly: the gradient given to backward is NaN already; look at the loss"
        place = source.inputs.index(node) if node in source.inputs else 0
        return (
            f"detect_anomaly: the gradient of {source.op.name}{at(source)} with respect to its input {place} has a NaN"
            "; look at the values that went into that line (log or sqrt of 0, 0/0, overflow)"
        )


class _Looking(_plain):
    """One run of backward that looks at every gradient."""

    natively = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gradients: _Watched = _Watched()

    def _add(self, node: Node, g: Any, owned: bool) -> None:
        self.gradients.look(node, g)  # a sum in place would not pass through the table
        super()._add(node, g, owned)

    def _add_result(self, node: Node, index: int, g: Any) -> None:
        super()._add_result(node, index, g)
        self.gradients.look(node, self.gradients[node])  # a list that grows, one for each result


class _Exchanged:
    """The block that a call of `set_detect_anomaly` may become; what it says holds already."""

    def __init__(self, before: Any) -> None:
        self._before = before

    @guarded
    def __enter__(self) -> Self:
        try:
            return self
        except BaseException:  # the block is never entered, and so never left
            engine.BackwardEngine = self._before  # type: ignore[misc] # exchanged on purpose
            raise

    @guarded
    def __exit__(self, *exception: object) -> None:
        try:
            engine.BackwardEngine = self._before  # type: ignore[misc] # exchanged on purpose
        except BaseException:
            engine.BackwardEngine = self._before  # type: ignore[misc] # exchanged on purpose
            raise


# A function and no class: after a call of a class CPython looks for signals, and the block would not be entered yet.
def set_detect_anomaly(mode: bool, check_nan: bool = True) -> _Exchanged:
    """Look for NaN in every gradient of every backward from here on; as a context manager, until the block ends.

    >>> with ex.autograd.set_detect_anomaly(True):
    ...     ex.autograd.is_anomaly_enabled()
    True
    >>> ex.autograd.is_anomaly_enabled()
    False
    """
    made = _Exchanged(engine.BackwardEngine)
    engine.BackwardEngine = _Looking if mode and check_nan else _plain  # type: ignore[misc] # exchanged on purpose
    return made


class detect_anomaly(_Exchanged):
    """Within the block, a backward that meets a NaN says which operation made it.

    >>> x = ex.tensor(-1.0, requires_grad=True)
    >>> with ex.autograd.detect_anomaly():
    ...     x.sqrt().backward()
    Traceback (most recent call last):
        ...
    extempo.errors.AutogradError: detect_anomaly: the gradient of sqrt (recorded at ...) ... has a NaN; ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(engine.BackwardEngine)
        self._inside = _Looking if check_nan else _plain

    def __enter__(self) -> Self:
        self._before = engine.BackwardEngine
        engine.BackwardEngine = self._inside  # type: ignore[misc] # exchanged on purpose
        return self


def is_anomaly_enabled() -> bool:
    """Whether backward looks for NaN.

    >>> with ex.autograd.set_detect_anomaly(True):
    ...     ex.autograd.is_anomaly_enabled()
    True
    """
    return engine.BackwardEngine is _Looking
