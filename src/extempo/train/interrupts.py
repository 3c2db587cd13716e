"""Ctrl-C during training: the step that is running ends, then training stops. A second Ctrl-C stops at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..interrupts import guarded

if TYPE_CHECKING:
    from .trainer import Trainer

INTERRUPTED = "interrupted"


class Interrupts:
    """Turns the first SIGINT into `trainer.stop`, so that no step is left half-done.

    Signals can be set in the main thread only; a fit in another thread is stopped by setting `trainer.stop`.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        before = signal.getsignal(signal.SIGINT)
        # What Python did not set it cannot put back, and a process that ignores Ctrl-C goes on ignoring it.
        if threading.current_thread() is threading.main_thread() and before not in (None, signal.SIG_IGN):
            self._before = before
            signal.signal(signal.SIGINT, self._asked)
        return self

    @guarded
    def __exit__(self, *raised: Any) -> None:
        try:
            self._put_back()
        except BaseException:
            self._put_back()
            raise

    def _put_back(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self._trainer.stop is not None:
            raise KeyboardInterrupt
        self._trainer.stop = INTERRUPTED
