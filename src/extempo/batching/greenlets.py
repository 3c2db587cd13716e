"""Running samples side by side: each in a greenlet, which stops where a value is needed.

`together` starts every sample; one that pauses gives control back to whoever started it. When all have ended or wait,
what they have recorded is run, and those that wait go on. A sample may itself call `together`: its samples join the
same hub, so that they are batched with everybody else's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from threading import get_ident
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from ..errors import GraphError


class GreenletHub:
    """Greenlets that wait for values."""

    def __init__(self) -> None:
        self._waiting: list[greenlet] = []
        self._thread = get_ident()
        self._ending = False

    def pause(self) -> None:
        """Stop here until everything that was recorded has run."""
        if get_ident() != self._thread:
            raise GraphError(
                "batch: a value of a sample was asked for in another thread than the one that runs ex.batch; read it "
                "in the sample, or return it"
            )
        if self._ending:
            raise GraphError("batch: this sample is being ended, so its values are not computed any more")
        here = getcurrent()
        if here.parent is None:
            raise GraphError(
                "batch: a value of a sample was asked for outside of all samples before it was computed; return it "
                "from the function instead"
            )
        self._waiting.append(here)
        here.parent.switch()

    def together(
        self,
        bodies: Sequence[Callable[[], Any]],
        go_on: Callable[[], None],
        numbers: Sequence[int] | None = None,
        before_failing: Callable[[int], None] | None = None,
    ) -> list[Any]:
        """The results of all bodies. `go_on` lets those that wait go on: it returns after some of them did.

        The first exception ends the other ones and is raised, with a note that says whose it is (`numbers` are those of
        the bodies, if not 0, 1, 2, ...), unless `before_failing`, which gets that number, raises another one.
        """
        results: list[Any] = [None] * len(bodies)
        unfinished = set(range(len(bodies)))
        failed: list[tuple[int, BaseException]] = []

        def run(number: int) -> None:
            try:
                results[number] = bodies[number]()
            except GreenletExit:
                pass
            except BaseException as error:
                failed.append((number, error))
            unfinished.discard(number)

        to_start = deque(range(len(bodies)))

        def work() -> None:
            """One sample after the other, each in a context of its own, until one pauses: making greenlets is dear."""
            while to_start and not failed:
                copy_context().run(run, to_start.popleft())

        started: list[greenlet] = []
        try:
            while to_start and not failed:
                started.append(greenlet(work))
                started[-1].switch()
            while unfinished and not failed:
                go_on()
            if failed and before_failing is not None:
                before_failing(failed[0][0] if numbers is None else numbers[failed[0][0]])
        finally:
            to_start.clear()
            if failed or unfinished:
                self.end([sample for sample in started if not sample.dead])
        if failed:
            number, error = failed[0]
            error.add_note(f"in sample {number if numbers is None else numbers[number]} of ex.batch")
            raise error
        return results

    def resume(self) -> None:
        """Let everybody who waits go on."""
        waiting, self._waiting = self._waiting, []
        here = getcurrent()
        for i, sample in enumerate(waiting):
            if sample.dead:
                continue
            if sample.parent is not here:
                sample.parent = here
            try:
                sample.switch()
            except BaseException:
                self._waiting += waiting[i + 1 :]
                raise

    def end(self, samples: list[greenlet]) -> None:
        """Samples that nobody waits for: their `finally` blocks run, and they are gone."""
        ending, self._ending = self._ending, True
        for sample in samples:
            if sample in self._waiting:
                self._waiting.remove(sample)
            sample.parent = getcurrent()
            sample.throw(GreenletExit)
        self._ending = ending
