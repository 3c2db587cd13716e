"""Native jobs for tests of the thread pool, also for programs that tests start: chunks may not be Python code."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from extempo.backends.llvm.ir.builder import IRFunction, IRModule, Value, i32, i64, ptr, void
from extempo.backends.llvm.ir.machine import Library, machine
from extempo.backends.llvm.threads import pool as threads
from extempo.backends.llvm.threads import thread_code, thread_words
from extempo.backends.llvm.threads.pool import Pool
from extempo.backends.llvm.threads.thread_words import Target, call, load_atomic

N_CONTEXTS, MOST_CHUNKS = 8, 40
DEAD = -1
PLATFORM = threads.target()
_pools: dict[tuple[object, ...], Pool] = {}


EAGER = {"LONGEST_WAKING": 0, "WAKING": 1, "REST": 0}


def _load_by_text(write: Callable[[IRModule], None], names: list[str], facts: object, kind: str) -> Library:
    """Other constants are other code, which the sources alone do not tell."""
    module = IRModule()
    write(module)
    return machine().load(module.text(), names, module.imports, kind)


def new_pool(target: Target = PLATFORM, **constants: int) -> Pool:
    """A pool apart from that of the process, as new, with other constants."""
    key = (target, *constants.items())
    if key not in _pools:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(thread_words, "BYTES", thread_words.BYTES + 64)  # equal text would be the same memory
            patch.setattr(threads, "load_calls", _load_by_text)
            for name, value in constants.items():
                patch.setattr(thread_code, name, value)
            _pools[key] = Pool(target)
    pool = _pools[key]
    pool.set_threads(1)
    pool.reset()
    return pool


def eager_pool(target: Target = PLATFORM, watch: int = thread_code.WATCH) -> Pool:
    """One that always wakes its helpers and never does without them, so that they meet as often as possible."""
    return new_pool(target._replace(knows_cpu=False), WATCH=watch, **EAGER)


def _add(b: IRFunction, address: Value, amount: int) -> None:
    b.emit(i64, f"atomicrmw add ptr {address.text}, i64 {amount} seq_cst")


def _write_mark(module: IRModule) -> None:
    """counts[chunk] += 1"""
    with module.function("mark", void, context=ptr, chunk=i64) as b:
        _add(b, b.pointer(b.arg("context"), i64).at(b.arg("chunk")), 1)


def _write_meet(module: IRModule) -> None:
    """Chunks wait for each other, but not forever: arrived, met."""
    with module.function("meet", void, context=ptr, chunk=i64) as b:
        words = b.pointer(b.arg("context"), i64)
        _add(b, words.at(0), 1)
        with b.loop(0, 200_000):
            with b.if_(load_atomic(b, i64, words.at(0)) > 1):
                _add(b, words.at(1), 1)
                b.ret()
            call(b, "usleep", i32, b.const(i32, 10))


def _write_linger(module: IRModule) -> None:
    """Another thread than the caller's takes words[1] microseconds; the caller waits until it has begun."""
    with module.function("linger", void, context=ptr, chunk=i64) as b:
        words = b.pointer(b.arg("context"), i64)
        other, own = b.if_else(call(b, "pthread_self", i64) != words[0])
        with other:
            _add(b, words.at(2), 1)
            call(b, "usleep", i32, b.cast("trunc", words[1], i32))
        with own, b.loop(0, 200_000):
            with b.if_(load_atomic(b, i64, words.at(2)) > 0):
                b.ret()
            call(b, "usleep", i32, b.const(i32, 10))


def _write_nap(module: IRModule) -> None:
    """Sleep context[0] microseconds."""
    with module.function("nap", void, context=ptr, chunk=i64) as b:
        call(b, "usleep", i32, b.cast("trunc", b.pointer(b.arg("context"), i64)[0], i32))


def _write_nested(module: IRModule) -> None:
    """Each chunk runs a job of `mark` on its own row of 5 counts: words are the pool and the counts."""
    with module.function("nested", void, context=ptr, chunk=i64) as b:
        words = b.pointer(b.arg("context"), ptr)
        row = b.pointer(words[1], i64).at(b.arg("chunk") * 5)
        b.call_address(words[0], void, module.address_of(b, "mark"), row, b.const(i64, 5))


def _next(seed: Value) -> Value:
    return seed * 6364136223846793005 + 1442695040888963407


def _write_storm_chunk(module: IRModule) -> None:
    """Dawdle, give the CPU away now and then, and complain of a context whose job is over."""
    module.global_("complaints", i64)
    with module.function("storm_chunk", void, internal=True, context=ptr, chunk=i64) as b:
        words = b.pointer(b.arg("context"), i64)
        noise = _next(_next(words[0] + b.arg("chunk")))
        with b.if_(b.binary("lshr", noise, 61) == 0):
            call(b, "sched_yield", i32)
        with b.loop(0, b.binary("lshr", noise, 56)):
            load_atomic(b, i64, words.at(0))
        with b.if_(load_atomic(b, i64, words.at(0)) == DEAD):
            _add(b, module.address_of(b, "complaints"), 1)
        _add(b, words.at(b.arg("chunk") + 1), 1)


def _write_storm(module: IRModule) -> None:
    """Run many small jobs on contexts that die with their job; returns how many went wrong."""
    size = MOST_CHUNKS + 2
    with module.function("storm", i64, parallel=ptr, seed=i64, n_jobs=i64) as b:
        contexts = b.array(i64, N_CONTEXTS * size)
        seed, wrong = b.var(i64, b.arg("seed")), b.var(i64, 0)
        with b.loop(0, b.arg("n_jobs")) as job:
            context = contexts + (job % N_CONTEXTS) * size
            with b.loop(0, size) as i:
                context[i] = b.const(i64, 0)
            context[0] = job
            seed.set(_next(seed.value))
            n_chunks = b.binary("lshr", seed.value, 40) % (MOST_CHUNKS + 1)
            b.call_address(b.arg("parallel"), void, module.address_of(b, "storm_chunk"), context.address, n_chunks)
            with b.loop(1, size) as i, b.if_(context[i] != b.cast("zext", i <= n_chunks, i64)):
                wrong.set(wrong.value + 1)
            context[0] = b.const(i64, DEAD)
        b.ret(wrong.value + load_atomic(b, i64, module.address_of(b, "complaints")))


def _write_sum(module: IRModule) -> None:
    """Arithmetic on words[0] rounds per chunk, stored at words[1 + chunk], to be timed."""
    with module.function("work", void, context=ptr, chunk=i64) as b:
        words = b.pointer(b.arg("context"), i64)
        total = b.var(i64, b.arg("chunk"))
        with b.loop(0, words[0]):
            total.set(_next(total.value))
        words[b.arg("chunk") + 1] = total.value


_WRITERS: list[Callable[[IRModule], None]] = [
    _write_mark,
    _write_meet,
    _write_linger,
    _write_nap,
    _write_nested,
    _write_storm_chunk,
    _write_storm,
    _write_sum,
]
_module = IRModule()
for _write in _WRITERS:
    _write(_module)
_names = [name for name in _module.defined if name != "storm_chunk"]
_library = machine().load(_module.text(), _names, _module.imports)
address = _library.address
# Without the GIL, so that several Python threads really meet.
_storm = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address["storm"])


def storm(pool: Pool, n_jobs: int, seed: int = 1) -> int:
    """How many chunks of that many jobs were run twice, not at all, or with the context of a job that is over."""
    return int(_storm(pool.address["extempo_parallel"], seed, n_jobs))


def run(pool: Pool, name: str, n_chunks: int, *words: int, size: int = 0) -> np.ndarray:
    """The words after a job on them."""
    context = np.zeros(max(size, len(words)), np.int64)
    context[: len(words)] = words
    pool.run(address[name], context.ctypes.data, n_chunks)
    return context


def meet(pool: Pool) -> bool:
    """Whether two chunks were running at the same time."""
    return bool(run(pool, "meet", 2, 0, 0)[1])


def n_tasks() -> int:
    """Threads of this process that Python knows nothing of: one of its own may end while a test counts."""
    return len(os.listdir("/proc/self/task")) - threading.active_count()
