"""Who waits for the end of the next backward: data parallel training, which then adds up gradients over processes."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import UnsupportedError

# In the order in which they are called, by number: the same in every process. One stays until its call returns True.
WAITING: dict[int, Callable[[], bool]] = {}


def tell_waiting() -> None:
    """A backward is done, and all gradients are in place."""
    for number in sorted(WAITING):
        waiting = WAITING.pop(number, None)
        if waiting is not None and not waiting():  # whoever raises does not wait any more
            WAITING[number] = waiting


def require_nobody_waits() -> None:
    """Whoever repeats a backward without running it here would repeat it without those who wait."""
    if WAITING:
        raise UnsupportedError(
            "backward: a model in DistributedDataParallel cannot be trained inside a static function or a sample of "
            "ex.batch, which would leave out the exchange of gradients; use ex.compile without static=True, and call "
            "backward outside ex.batch"
        )
