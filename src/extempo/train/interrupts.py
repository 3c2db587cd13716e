"""Ctrl-C and SIGTERM during training: the running step ends, then training stops. A second one stops at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..core.interrupts import guarded

if TYPE_CHECKING:
    from .trainer import Trainer

# Why training stopped, by signal. SIGTERM is what schedulers of clusters send before they kill.
REASONS = {signal.SIGINT: "interrupted", signal.SIGTERM: "asked to end by SIGTERM"}


class Interrupts:
    """Turns the first SIGINT or SIGTERM into `trainer.stop`, so that no step is left half-done.

    Signals can be set in the main thread only; a fit in another thread is stopped by setting `trainer.stop`.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._owner = 0
        self._was_asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._owner = os.getpid()
            for number in REASONS:
                before = signal.getsignal(number)
                # What Python did not set it cannot put back, and a process that ignores a signal goes on ignoring it.
                if before not in (None, signal.SIG_IGN):
                    self._before[number] = before
                    signal.signal(number, self._asked)
        return self

    @guarded
    def __exit__(self, *raised: Any) -> None:
        try:
            self._put_back()
        except BaseException:
            self._put_back()
            raise

    def _put_back(self) -> None:
        for number, before in list(self._before.items()):
            signal.signal(number, before)
            del self._before[number]

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:  # a forked child does not train: it is its own to end
            signal.signal(number, self._before[number])
            os.kill(os.getpid(), number)
        elif not self._was_asked:
            self._was_asked = True
            self._trainer.stop = self._trainer.stop or REASONS[signal.Signals(number)]
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            raise SystemExit(128 + number)  # what shells report for a process that a signal ended
