"""Threads for kernels: `void extempo_parallel(ptr function, ptr context, i64 n_chunks)`, for native code to call.

It calls `void function(ptr context, i64 chunk)` once for every chunk from 0 on, on the caller's thread and its helpers,
and returns when all calls have. Chunks must not touch Python. Helpers are started by the first job that can use them;
between jobs they watch for the next one for a moment, then sleep, and are woken where the work pays for that. On Linux
they keep off the CPU that the caller runs on.

**One job at a time, nobody in line.** Who finds the pool taken runs the chunks alone: a second Python thread, or a
chunk that calls `extempo_parallel`. So nothing here can deadlock.

**A helper can only run a chunk of the job that is open.** One 64-bit word, `tickets`, holds the job's number (48 bits)
over the count of its unclaimed chunks (16 bits). A helper reads the word, then the job's function, context and size,
then claims by swapping the word it read for that word minus one.
- The word never repeats: within a job it only falls, the next job has a higher number, 2^48 jobs take years.
- A job's fields are written only while no job is open: after every chunk of the one before was claimed and finished.
- So if a helper read fields of a later job than its word, the word had moved on before those fields were written
  (release), which the helper saw (acquire): its swap fails. If the swap succeeds, the fields are that job's, and the
  job stays open until this helper subtracts its chunk from `pending`. It touches neither function nor context after.

**The caller waits only for what was claimed.** It takes chunk 0, then claims like a helper until none is left. A helper
that is asleep, or not scheduled, claims nothing and delays nobody. One that lost its CPU within a chunk does. Whatever
a job took longer than its chunks would have taken the caller alone is a loss, and jobs run without helpers for 40 times
as long: on a busy machine threads cost little, on a free one they come back within a second.

**Nobody misses a call.** A sleeper announces itself (`sleepers`, `awaited`), then sleeps only if the word is still what
it saw; who changes the word looks for sleepers after that.

**Python.** The caller may hold the GIL. It is handed over when a job has lasted as long as a Python thread may keep it
(5 ms), and before the caller sleeps: handing it over for less could cost 5 ms to get it back. A job of one chunk that
must take longer by its sizes hands it over at once (`extempo_long_part`). So a kernel can be entered by a second Python
thread while it waits in `extempo_parallel`, and must own references to what its chunks read.
Helpers are plain POSIX threads that do not know the interpreter, with signals blocked, so Ctrl-C reaches Python.

**Fork and exit.** Helpers are ended before `os.fork`, in the parent, and start again when there is work: the child has
none, and no lock is ever copied in a state that nobody will release. They are ended at exit, before code is unloaded.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import signal
import sys
import time

from ... import thread_count
from ..calls.loading import load_calls
from ..ir.machine import RARE, Library, machine
from .thread_code import write_threads
from .thread_words import COUNTERS, MAX_HELPERS, SIGNALS, WORDS, Target

_FUTEX_CALLS = {"x86_64": 202, "aarch64": 98}
# A fault within a chunk must reach its handler, such as faulthandler's.
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)

_installed: list[Pool] = []


class Pool:
    """The loaded code and its memory. No thread runs before the first job that can use one."""

    def __init__(self, target: Target) -> None:
        exported = [f"extempo_pool_{name}" for name in ("memory", "set", "hold", "release", "reset")]
        exported += ["extempo_parallel", "extempo_long_part"]
        self._library: Library = load_calls(lambda module: write_threads(module, target), exported, target, RARE)
        at = self.address = self._library.address
        without_gil = ctypes.CFUNCTYPE(None)  # each may have to wait for a job to end
        self.hold = without_gil(at["extempo_pool_hold"])
        self.release = without_gil(at["extempo_pool_release"])
        self.reset = without_gil(at["extempo_pool_reset"])
        self._set_helpers = ctypes.CFUNCTYPE(None, ctypes.c_int32)(at["extempo_pool_set"])
        self._run = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(at["extempo_parallel"])
        self._memory: int = ctypes.CFUNCTYPE(ctypes.c_void_p)(at["extempo_pool_memory"])()
        self._choose_blocked_signals()
        self.reset()

    def _choose_blocked_signals(self) -> None:
        libc = ctypes.CDLL(None)
        signals = ctypes.c_void_p(self._memory + SIGNALS)
        libc.sigfillset(signals)
        for fault in _FAULTS:
            libc.sigdelset(signals, int(fault))

    def set_threads(self, n_threads: int) -> None:
        """Use that many from the next job on, the caller's included; if more are there, they end now."""
        self._set_helpers(min(n_threads - 1, MAX_HELPERS))

    def run(self, function: int, context: int, n_chunks: int) -> None:
        """Run a job as a kernel does: with the GIL held."""
        self._run(function, context, n_chunks)

    def stats(self) -> dict[str, int]:
        """Helpers there are, jobs shared with them, chunks that they ran, and jobs that the caller alone did faster."""
        return {name: WORDS[name].read(self._memory) for name in COUNTERS}

    def serve(self) -> None:
        """Make it the pool of this process: it follows the number of threads, lives through forks and ends at exit."""
        for name in ("extempo_parallel", "extempo_long_part"):
            machine().offer(name, self.address[name])
        thread_count.follow(self.set_threads)
        os.register_at_fork(before=self.hold, after_in_parent=self.release, after_in_child=self.reset)
        atexit.register(self._leave)

    def _leave(self) -> None:
        thread_count.unfollow(self.set_threads)
        self.set_threads(1)


def target() -> Target:
    """This platform."""
    processor = platform.machine().lower()
    return Target(
        futex_call=_FUTEX_CALLS.get(processor) if sys.platform == "linux" else None,
        set_mask=int(signal.SIG_SETMASK),
        clock=time.CLOCK_MONOTONIC,
        x86=processor in ("x86_64", "amd64"),
        knows_cpu=sys.platform == "linux",
    )


def install() -> Pool:
    """Offer `extempo_parallel` to all native code that is loaded later. Starts no thread."""
    if not _installed:
        pool = Pool(target())
        pool.serve()
        _installed.append(pool)
    return _installed[0]
