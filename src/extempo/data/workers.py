"""Worker processes, their side: receive tasks, fetch batches, send them back.

A worker serves one connection. A thread reads it, so that the main process never waits to hand out a task, and so that
the worker ends as soon as the main process is gone, whatever it is busy with. Ctrl-C is the main process's business.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from .. import random as randomness
from ..compat import settings
from ..core.weak import WeakMembers
from ..errors import ExtempoError
from . import worker_info
from .fetching import Exhausted, Fetcher
from .transport import Sender

_PARENT_CHECK_SECONDS = 5.0
INTERRUPTED = 130  # what shells report for a command ended by SIGINT

# The main process's ends of all connections. A forked worker inherits copies of them, and must close those: as long as
# one is open somewhere, a worker whose main process died does not see the end of its connection.
MAIN_ENDS: WeakMembers[Connection] = WeakMembers()


@dataclass
class Job:
    """What a worker needs to know once."""

    dataset: Any
    make_fetcher: Callable[[], Fetcher]
    init_fn: Callable[[int], Any] | None
    n_workers: int
    main_pid: int


class Begin(NamedTuple):
    """A new epoch: tasks of an earlier one that are still waiting are void."""

    epoch: int
    base_seed: int


class Task(NamedTuple):
    """Fetch this batch. `released` are the segments of shared memory that can be used again."""

    epoch: int
    number: int
    index: Any
    released: list[int]


class Label(NamedTuple):
    """What a parcel answers. `outcome` is "batch", "exhausted" or "failure"."""

    epoch: int
    number: int
    outcome: str


class Failure(NamedTuple):
    """An exception, as it can travel: the object itself if it can, or else its class, or else only text."""

    pickled: bytes | None
    message: str
    trace: str

    @classmethod
    def of(cls, error: BaseException, worker: int) -> Failure:
        """Describe an exception that is being handled."""
        lines = "".join(traceback.format_exception(error))
        trace = f"raised in DataLoader worker {worker} (pid {os.getpid()}):\n{lines}"
        for candidate in (error, type(error)) if _shows_its_arguments(type(error)) else (error,):
            with contextlib.suppress(Exception):
                message = str(error)
                pickled = pickle.dumps(candidate)
                pickle.loads(pickled)  # some exceptions can be written, but not read
                return cls(pickled, message, trace)
        return cls(None, f"{type(error).__name__}, which cannot be pickled, was", trace)

    def exception(self) -> BaseException:
        """The exception to raise in the main process: of the same class, with the worker's traceback in its text."""
        error: Any = ExtempoError() if self.pickled is None else pickle.loads(self.pickled)
        if isinstance(error, type):
            error = error.__new__(error)  # type: ignore[call-overload] # an exception's, which takes anything
        if _shows_its_arguments(type(error)):
            error.args = (_Verbatim(f"{self.message}\n\n{self.trace}"),)
        else:
            error.add_note(self.trace)
        return error


def _shows_its_arguments(kind: type[BaseException]) -> bool:
    """Whether the text of such an exception comes from its arguments alone, not from attributes of its own."""
    own: Any = kind.__str__
    return own in (BaseException.__str__, KeyError.__str__)


class _Verbatim(str):
    """KeyError shows the repr of its argument, which would turn a traceback into one line."""

    def __repr__(self) -> str:
        return str(self)


class _Mailbox:
    """What came from the main process, read by a thread."""

    def __init__(self, connection: Connection, main_pid: int) -> None:
        self._connection = connection
        # Under a fork server the parent is another process, and only the end of the connection tells.
        self._parent = main_pid if os.getppid() == main_pid else None
        self._messages: queue.SimpleQueue[Begin | Task | None] = queue.SimpleQueue()
        self.epoch = -1
        self.take = self._messages.get
        threading.Thread(target=self._read, name="extempo-worker-mail", daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                while not self._connection.poll(_PARENT_CHECK_SECONDS):
                    if self._parent is not None and os.getppid() != self._parent:
                        raise EOFError
                message = self._connection.recv()
                if isinstance(message, Begin):
                    self.epoch = message.epoch
                self._messages.put(message)
                if message is None:
                    return
        except (EOFError, OSError):
            os._exit(1)  # nobody is left who could want a result or read a message


def seed_everything(base_seed: int, worker: int) -> int:
    """Start the worker's own streams of Python's, NumPy's and our random numbers."""
    seed = base_seed + worker
    random.seed(seed)
    np.random.seed(np.random.SeedSequence([base_seed, worker]).generate_state(4))
    randomness.manual_seed(seed)
    return seed


def _set_signals() -> None:
    with contextlib.suppress(ValueError):  # only a main thread may set handlers
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not what the main process had in mind for itself
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def run_worker(worker: int, job: Job, connection: Connection) -> None:
    """The life of a worker process."""
    _set_signals()
    for end in MAIN_ENDS:
        end.close()
    settings.set_num_threads(1)  # workers share the machine with each other and the main process
    mailbox = _Mailbox(connection, job.main_pid)
    try:
        _serve(worker, job, mailbox, Sender(connection))
    except KeyboardInterrupt:  # between two tasks, where something else than Extempo listens to Ctrl-C
        sys.exit(INTERRUPTED)


def _serve(worker: int, job: Job, mailbox: _Mailbox, sender: Sender) -> None:
    fetcher: Fetcher | None = None
    base_seed = 0
    while (message := mailbox.take()) is not None:
        if isinstance(message, Begin):
            base_seed, fetcher = message.base_seed, None
            continue
        sender.release(message.released)
        if message.epoch != mailbox.epoch:
            continue
        outcome = "batch"
        try:
            fetcher = fetcher or _start_epoch(worker, job, base_seed)
            packed = sender.pack(fetcher.fetch(message.index))
        except Exhausted:
            outcome, packed = "exhausted", sender.pack(None)
        except (Exception, KeyboardInterrupt) as error:
            outcome, packed = "failure", sender.pack(Failure.of(error, worker))
        try:
            sender.send(Label(message.epoch, message.number, outcome), packed)
        except OSError:
            return  # the main process stopped listening


def _start_epoch(worker: int, job: Job, base_seed: int) -> Fetcher:
    first = worker_info.get_worker_info() is None
    worker_info.announce(worker, job.n_workers, seed_everything(base_seed, worker), job.dataset)
    if first and job.init_fn is not None:
        job.init_fn(worker)
    return job.make_fetcher()
