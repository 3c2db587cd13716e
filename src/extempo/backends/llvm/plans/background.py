"""Kernels that LLVM has to compile are compiled by one thread, while whoever wants them goes on without.

    job = CompileJob(kernels)
    ...
    job.wait()  # job.error says why there are none; otherwise `cluster_kernel` finds them at once

The thread is started by the first job. It holds the GIL while it writes a kernel's text, for two or three milliseconds
(if it gave way meanwhile it would have to wait 5 ms for its turn, each time), and is without it while LLVM runs. It
ends at exit, before LLVM is taken down. A forked child has no thread and an empty queue: a job that was not done is
begun anew when it is next looked at. EXTEMPO_COMPILE_WAIT=1 switches it off: kernels are then compiled when they are
wanted.

How far the thread is depends on the machine, what is done with its kernels does not: until the job that asked for a
kernel is due, by the count of whoever made it, or is waited for, the kernel is there for nobody (`is_pending`).
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence

from ....core import costs
from ....core.locks import awaited, awaited_condition
from ....core.weak import WeakMembers
from .clusters import ClusterKernel, cluster_kernel
from .sharing import Shared

WAITS = os.environ.get("EXTEMPO_COMPILE_WAIT", "") not in ("", "0")


Wish = ClusterKernel | Shared


def is_pending(wish: Wish) -> bool:
    """Whether it was asked for, by someone who is still there, and is neither due nor waited for yet."""
    job = _asker(wish)
    if job is not None and not job.is_due:
        return True
    if _compilers:
        _compilers[0].wait_for(wish)  # it may be asked for by someone who is gone: whether it is done must not matter
    return False


def _asker(wish: Wish) -> CompileJob | None:
    known = _PENDING.get(wish)
    return None if known is None else known()


def _forget_gone() -> None:
    for wish, known in list(_PENDING.items()):
        if known() is None:
            _PENDING.pop(wish, None)


class CompileJob:
    """Kernels that were asked for together, and are compiled from now on."""

    __slots__ = ("__weakref__", "_compiler", "_n_left", "error", "is_due", "seconds", "wishes")

    def __init__(self, wishes: Sequence[Wish]) -> None:
        self.wishes = tuple(dict.fromkeys(wishes))
        self.is_due = False  # from now on whoever wants one of them waits for it
        self.error: str | None = None  # what LLVM, or the code that writes for it, had against one of them
        new = [wish for wish in self.wishes if _asker(wish) is None]
        # What LLVM takes, about, for those that nobody else asked for before.
        self.seconds = sum([costs.LIBRARY if isinstance(wish, Shared) else costs.KERNEL for wish in new])
        if len(_PENDING) > _MOST_PENDING:
            _forget_gone()
        _PENDING.update(dict.fromkeys(new, weakref.ref(self)))
        self._submit()

    def _submit(self) -> None:
        self._n_left = len(self.wishes)
        self._compiler = _current()
        self._compiler.submit(self)

    def ready(self) -> bool:
        """Whether all is done that will be."""
        if self._n_left and self._compiler is not _current():
            self._submit()
        return self.is_done

    def wait(self) -> None:
        """Until all is done that will be; from then on it is there for everybody."""
        if not self.ready():
            self._compiler.wait_for_job(self)
        self.is_due = True
        for wish in self.wishes:
            _PENDING.pop(wish, None)

    @property
    def is_done(self) -> bool:
        return self._n_left == 0

    def end_one(self, error: str | None) -> None:
        """One of the kernels is there, or will never be."""
        self.error = self.error or error
        self._n_left -= 1


class _Compiler:
    """The queue, and the thread that works on it."""

    def __init__(self) -> None:
        self.changed = awaited_condition()
        self._queue: deque[Wish] = deque()
        self._jobs: dict[Wish, WeakMembers[CompileJob]] = {}  # who waits for what is not done
        self._thread: threading.Thread | None = None
        self._ending = False

    def submit(self, job: CompileJob) -> None:
        with self.changed:
            for wish in job.wishes:
                if wish not in self._jobs:
                    self._jobs[wish] = WeakMembers()
                    self._queue.append(wish)
                self._jobs[wish].add(job)
            self.changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="extempo compiler", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads, or the interpreter is ending
                    self._thread = None
        if self._thread is None:
            self._work(until_empty=True)

    def _work(self, until_empty: bool = False) -> None:
        while True:
            with self.changed:
                while not self._queue and not self._ending and not until_empty:
                    self.changed.wait()
                if self._ending or not self._queue:
                    return
                wish = self._queue.popleft()
            error = None
            try:
                if isinstance(wish, Shared):
                    wish.address()
                else:
                    cluster_kernel(wish)
            except Exception as failure:
                error = f"a kernel could not be compiled: {failure}"
            with self.changed:
                for job in self._jobs.pop(wish):
                    job.end_one(error)
                self.changed.notify_all()

    def wait_for_job(self, job: CompileJob) -> None:
        with self.changed:
            self.changed.wait_for(lambda: job.is_done or self._ending)

    def wait_for(self, wish: Wish) -> None:
        if wish in self._jobs:
            with self.changed:
                self.changed.wait_for(lambda: wish not in self._jobs or self._ending)

    def settle(self) -> None:
        """Wait until nothing is left to do."""
        with self.changed:
            self.changed.wait_for(lambda: not self._jobs or self._ending)

    def end(self) -> None:
        """Finish the kernel at hand, and no other."""
        with self.changed:
            self._ending = True
            self.changed.notify_all()
        if self._thread is not None:
            self._thread.join()


_compilers: list[_Compiler] = []  # that of this process, once there is one
_PENDING: dict[Wish, weakref.ref[CompileJob]] = {}  # by whom it was asked for first, and nobody has waited for it
_MOST_PENDING = 1_000  # then those are forgotten whose job is gone
_making = awaited()


def _current() -> _Compiler:
    with _making:
        if not _compilers:
            _compilers.append(_Compiler())
            atexit.register(_end)
        return _compilers[0]


def settle() -> None:
    """Wait until every kernel that was asked for is compiled."""
    if _compilers:
        _current().settle()


def _end() -> None:
    for compiler in _compilers:
        compiler.end()


# A forked child has no thread: with its queue it is forgotten. LLVM is waited for by the machine's lock.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_compilers.clear)
