"""Worker processes, the main process's side: start them, hand out tasks, collect parcels, end them.

Each worker has a connection of its own, so that one that dies can neither hold a lock that others need nor leave half a
message in a queue that others read. There are no helper threads here: what a worker has ready waits in its connection
and its shared memory.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from ..core.interrupts import block, certainly
from ..errors import ExtempoError
from .transport import Parcel, Receiver
from .workers import INTERRUPTED, MAIN_ENDS, Begin, Job, Label, Task, run_worker

_GRACE_SECONDS = 1.0  # for a worker to finish the sample that it is reading, before it is ended by force


def resolve_context(wanted: Any) -> Any:
    """The multiprocessing context of that name; by default fork on Linux, as elsewhere it is not safe or not there."""
    if wanted is None:
        return multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    if not isinstance(wanted, str):
        return wanted
    return multiprocessing.get_context(wanted)


class Worker:
    """One process and what the main process knows of it."""

    def __init__(self, process: Any, connection: Connection) -> None:
        self.process = process
        self.connection = connection
        self.receiver = Receiver(connection)
        self.n_waiting = 0  # tasks of this epoch that have no answer yet


class WorkerPool:
    """A fixed number of workers that serve one epoch at a time.

    One that is dropped without `close()` drops its connections, at whose end the workers end.
    """

    def __init__(self, job: Job, context: Any) -> None:
        self._owner = os.getpid()
        self._context = context
        self._epoch = 0
        self.workers: list[Worker] = []
        if multiprocessing.current_process().daemon:
            raise ExtempoError(
                "DataLoader: a worker process cannot have workers of its own; use num_workers=0 inside of data sets"
            )
        try:
            for number in range(job.n_workers):
                self.workers.append(self._start(number, job))
        except BaseException as error:
            self.close()
            if self._start_method() != "fork" and not isinstance(error, KeyboardInterrupt):
                error.add_note(
                    f"DataLoader: with the start method {self._start_method()!r}, the data set, collate_fn and "
                    "worker_init_fn must be picklable: define them at the top of a module, not inside a function"
                )
            raise

    def _start_method(self) -> str:
        return self._context.get_start_method()

    def _start(self, number: int, job: Job) -> Worker:
        ours, theirs = self._context.Pipe(duplex=True)
        MAIN_ENDS.add(ours)
        process = self._context.Process(
            target=run_worker, args=(number, job, theirs), name=f"extempo-worker-{number}", daemon=True
        )
        try:
            with _interrupts_held_back():
                process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()  # or its end would never be seen
        return Worker(process, ours)

    def begin(self, base_seed: int) -> None:
        """Start an epoch. Answers to tasks of earlier ones are dropped when they arrive."""
        self._epoch += 1
        for number, worker in enumerate(self.workers):
            worker.n_waiting = 0
            self._send(number, Begin(self._epoch, base_seed))

    def assign(self, number: int, batch: int, index: Any) -> None:
        """Give a worker the task to fetch a batch."""
        worker = self.workers[number]
        released, worker.receiver.released = worker.receiver.released, []
        self._send(number, Task(self._epoch, batch, index, released))
        worker.n_waiting += 1

    def _send(self, number: int, message: Any) -> None:
        try:
            self.workers[number].connection.send(message)
        except OSError:
            raise self._death(number) from None

    def collect(self, timeout: float | None) -> Iterator[tuple[int, Label, Any]]:
        """What has arrived: worker, label and value. Waits for the first; nothing at all means that time is up."""
        waiting = {w.connection: number for number, w in enumerate(self.workers) if w.n_waiting}
        for connection in wait(list(waiting), timeout):
            number = waiting[connection]  # type: ignore[index] # a list of connections gives connections
            worker = self.workers[number]
            try:
                label, parcel = worker.receiver.receive()
            except (EOFError, OSError):
                raise self._death(number) from None
            yield number, label, self._opened(worker, label, parcel)

    def _opened(self, worker: Worker, label: Label, parcel: Parcel) -> Any:
        if label.epoch != self._epoch:
            worker.receiver.discard(parcel)
            return None
        worker.n_waiting -= 1
        return worker.receiver.open(parcel)

    def is_current(self, label: Label) -> bool:
        """Whether the answer belongs to the epoch that runs."""
        return label.epoch == self._epoch

    def _death(self, number: int) -> ExtempoError:
        """The error for a worker that is gone."""
        process = self.workers[number].process
        process.join(_GRACE_SECONDS)
        code = process.exitcode
        who = f"DataLoader: worker {number} (pid {process.pid})"
        if code is None:
            return ExtempoError(
                f"{who} closed its connection; did the data set close file descriptors it does not own?"
            )
        if code == INTERRUPTED:
            return ExtempoError(
                f"{who} was interrupted by Ctrl-C or SIGINT, which the data set or worker_init_fn let in"
            )
        if code >= 0:
            advice = "did the data set call sys.exit() or os._exit()? Its output above may say more"
            if self._start_method() != "fork":
                advice += ". A script that starts workers must guard its own code with `if __name__ == '__main__':`"
            return ExtempoError(f"{who} ended by itself with exit code {code}; {advice}")
        name = signal.Signals(-code).name
        advice = "run with num_workers=0 to see where it happens"
        if name == "SIGKILL":
            advice = "the system may be out of memory: use fewer workers, smaller batches or a smaller prefetch_factor"
        return ExtempoError(f"{who} was killed by {name}; {advice}")

    def is_usable(self) -> bool:
        """Whether this process started workers, and they are alive."""
        is_ours = os.getpid() == self._owner and bool(self.workers)
        return is_ours and all(worker.process.is_alive() for worker in self.workers)

    def close(self) -> None:
        """End all workers and wait until they are gone. Can be called twice; does nothing in a forked copy."""
        if os.getpid() != self._owner:
            return
        workers, self.workers = self.workers, []
        for worker in workers:
            with suppress(OSError):
                worker.connection.send(None)
            worker.connection.close()  # a worker that is sending gets an error, and ends
        self._join(workers, _GRACE_SECONDS)
        for worker in workers:
            if worker.process.is_alive():
                worker.process.terminate()
        self._join(workers, _GRACE_SECONDS)
        for worker in workers:
            if worker.process.is_alive():
                worker.process.kill()
            worker.process.join()

    @staticmethod
    def _join(workers: list[Worker], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))


@block
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C waits until the block ends. A worker that starts inside unblocks it once it ignores it."""
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # one that came before is raised now
        yield
    finally:
        certainly(signal.pthread_sigmask, signal.SIG_SETMASK, before)
