"""`first_nonfinite`: run something op by op and name the op that turns finite numbers into nan or infinity.

An infinity need not be a mistake: masks of attention are made of them. So ops are not judged as they run. What was not
finite is kept with where it came from, and the way is followed back from the last of them: of a nan to the op that has
no nan among its inputs, of an infinity to the op whose inputs are finite.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from ..autograd.observers import Observer
from ..core.context import switch
from ..core.graph import Node, describe_where
from ..core.op import Op
from ..core.source_location import user_line
from ..core.tensor import Tensor, TensorLike
from ..func.tree import leaves
from ..nn import Module
from ..tracing.api import eager


class NonFinite(NamedTuple):
    """The op that made it, what it made, from inputs of which ranges, the line of the user's code, and the module."""

    op: str
    made: str
    inputs: str
    line: str
    module: str = ""  # its path in the model, if there is one

    def __str__(self) -> str:
        within = f"module {self.module}, " if self.module else ""
        return f"{self.op} ({within}{self.line}) gave {self.made} from inputs {self.inputs}"


class _Event(NamedTuple):
    """An op whose result is not finite."""

    what: NonFinite
    has_nan: bool
    inputs: list[tuple[bool, _Event | None]]  # those that are not finite: has a nan, made by (None: from outside)
    held: Any  # its result, so that nothing else gets its identity


class Watching(Observer):
    """Keeps what is not finite with where it came from."""

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[int, _Event] = {}  # by the tensor
        self.written: dict[int, _Event] = {}  # by the storage: a write through a view is seen through others
        self.last: _Event | None = None
        self.modules: list[str] = []  # those that run, the innermost last

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        result = super().apply(op, inputs, attrs)
        for out in result if isinstance(result, tuple) else (result,):
            n_nan, n_inf = _count(out)
            if n_nan or n_inf:
                tensors = [i for i in inputs if isinstance(i, Tensor | TensorLike) and _values(i) is not None]
                bad = [(bool(_count(i)[0]), self._maker(i)) for i in tensors if any(_count(i))]
                made = _made_text(n_nan, n_inf)
                told = ", ".join(map(_range, tensors)) or "that are no tensors"
                where = describe_where(user_line()) or "an unknown line"
                event = _Event(NonFinite(op.name, made, told, where, self.module()), bool(n_nan), bad, out)
                self.events[id(out)] = self.last = event
        return result

    def module(self) -> str:
        """The path of the module that runs."""
        return self.modules[-1] if self.modules else ""

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        written = super().write(target, value, op_name, made_from)
        maker = self._maker(value) if isinstance(value, Tensor) else None
        if maker is not None:
            self.written[id(target._storage)] = maker._replace(held=target)
        return written

    def ran(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], node: Node | None) -> None:
        """Looked at in `apply`."""

    def _maker(self, t: Any) -> _Event | None:
        """What made a tensor's values not finite, if an op did."""
        found = self.events.get(id(t))
        return found if found is not None or not isinstance(t, Tensor) else self.written.get(id(t._storage))


def first_nonfinite(fn: Callable[..., Any], *args: Any, model: Module | None = None) -> NonFinite | None:
    """Run `fn(*args)` op by op and name the op to which a nan or an infinity in its result goes back.

    None if the result is finite, or if it is so because of what was given. `model`: whose modules are named.

    >>> ex.inspect.first_nonfinite(lambda x: (x - 1).log(), ex.ones(2)).op
    'log'
    """
    watching = Watching()
    with eager(), switch(interceptor=watching), ExitStack() as hooks:
        for name, module in model.named_modules() if model is not None else ():
            enter, leave = _noting(watching.modules, name)
            hooks.callback(module.register_forward_pre_hook(enter).remove)
            hooks.callback(module.register_forward_hook(leave, always_call=True).remove)
        result = fn(*args)
    bad = [leaf for leaf in leaves(result) if any(_count(leaf))]
    if not bad:
        return None
    event = watching._maker(bad[-1]) or watching.last
    while event is not None:
        before = [maker for has_nan, maker in event.inputs if has_nan or not event.has_nan]
        if not before:
            return event.what
        event = before[0]
    return None


def _noting(running: list[str], name: str) -> tuple[Callable[..., None], Callable[..., None]]:
    def enter(*called: Any) -> None:
        running.append(name)

    def leave(*called: Any) -> None:
        running.pop()

    return enter, leave


def is_finite(t: Any) -> bool:
    """Whether all values are; of a tensor, ragged or not."""
    return not any(_count(t))


def _values(t: Any) -> Any:
    """An array, None of what has no fractions."""
    flat = t._flat if isinstance(t, TensorLike) else t
    return flat._values() if isinstance(flat, Tensor) and flat.dtype.is_floating_point else None


def _count(t: Any) -> tuple[int, int]:
    """How many nan and how many infinities."""
    array = _values(t)
    if array is None:
        return 0, 0
    wide = array.astype(np.float64)
    return int(np.isnan(wide).sum()), int(np.isinf(wide).sum())


def _range(t: Any) -> str:
    return range_text(_values(t))


def range_text(array: Any) -> str:
    """The smallest and the largest element; of what is not finite, how much there is beside."""
    if not array.size:
        return "empty"
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size == wide.size:
        return f"{finite.min():.4g} .. {finite.max():.4g}"
    within = f"{finite.min():.4g} .. {finite.max():.4g}, " if finite.size else ""
    return f"({within}{counted_text(array)})"


def counted_text(*arrays: Any) -> str:
    """How many nan and infinities there are: "3 nan and 1 inf"; "" if none."""
    wide = [array.astype(np.float64) for array in arrays]
    return _made_text(sum(int(np.isnan(a).sum()) for a in wide), sum(int(np.isinf(a).sum()) for a in wide))


def _made_text(n_nan: int, n_inf: int) -> str:
    return " and ".join(f"{n} {what}" for n, what in ((n_nan, "nan"), (n_inf, "inf")) if n)
