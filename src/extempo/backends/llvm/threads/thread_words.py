"""The memory of the thread pool, as code that is being written sees it: atomic words, time, and sleeping on a word.

What the builder does not know, since no kernel needs it. `threads` says how the words are used.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from ..ir.builder import IRFunction, IRModule, Operand, Type, Value, i1, i32, i64, ptr, void

MAX_HELPERS = 255
MASK_WORDS = 16  # of a cpu_set_t, for CPUs up to 1023


class Word(NamedTuple):
    """A word of the pool's memory."""

    offset: int
    type: Type

    def read(self, memory: int) -> int:
        """Its value now."""
        kind: Any = ctypes.c_int32 if self.type is i32 else ctypes.c_int64
        return int(kind.from_address(memory + self.offset).value)


# A cache line for each group of words that different threads write at the same time.
WORDS = {
    "tickets": Word(0, i64),
    "pending": Word(64, i32),
    "awaited": Word(68, i32),
    "crowded": Word(72, i32),
    "sleepers": Word(128, i32),
    "lock": Word(192, i32),
    "function": Word(256, ptr),
    "context": Word(264, ptr),
    "first": Word(272, i64),
    "count": Word(280, i64),
    "cpu": Word(288, i32),
    "helpers": Word(320, i32),
    "running": Word(324, i32),
    "stopping": Word(328, i32),
    "process": Word(332, i32),
    "resume_at": Word(336, i64),
    "shared_jobs": Word(352, i64),
    "losses": Word(360, i64),
    "waking": Word(368, i64),
    "helped_chunks": Word(384, i64),
    "ended_at": Word(416, i64),
    "streak": Word(424, i64),
}
COUNTERS = ("running", "shared_jobs", "helped_chunks", "losses")
MUTEX, CONDITION = 448, 512
SIGNALS = 576
CHUNK_TIMES, N_CHUNK_TIMES = 704, 64  # pairs: a kind of job, nanoseconds
HANDLES = CHUNK_TIMES + 16 * N_CHUNK_TIMES
BYTES = HANDLES + 8 * MAX_HELPERS


class Target(NamedTuple):
    """What differs between platforms."""

    futex_call: int | None  # the number of Linux's system call; None: sleep with POSIX's mutex and condition
    set_mask: int  # SIG_SETMASK
    clock: int  # CLOCK_MONOTONIC
    x86: bool
    knows_cpu: bool  # whether a thread can ask on which CPU it runs, and choose another


class Words:
    """Atomic access to the pool's words, for a function that is being written."""

    def __init__(self, b: IRFunction) -> None:
        self.b = b
        self._memory = b.module.address_of(b, "pool")

    def at(self, name: str) -> Value:
        return self.b.byte_offset(self._memory, WORDS[name].offset)

    def load(self, name: str) -> Value:
        return load_atomic(self.b, WORDS[name].type, self.at(name))

    def store(self, name: str, value: Operand) -> None:
        type_ = WORDS[name].type
        v = self.b.as_value(value, type_)
        self.b.line(f"store atomic {type_.text} {v.text}, ptr {self.at(name).text} release, align {type_.nbytes}")

    def change(self, name: str, operation: str, operand: Operand) -> Value:
        """Add, sub or xchg; the value before."""
        type_ = WORDS[name].type
        v = self.b.as_value(operand, type_)
        return self.b.emit(type_, f"atomicrmw {operation} ptr {self.at(name).text}, {type_.text} {v.text} seq_cst")

    def replace(self, name: str, old: Operand, new: Operand) -> Value:
        """Whether the word was `old`, and is `new` now."""
        b, type_ = self.b, WORDS[name].type
        before, after = (b.as_value(v, type_).text for v in (old, new))
        text = type_.text
        pair = b.emit(type_, f"cmpxchg ptr {self.at(name).text}, {text} {before}, {text} {after} seq_cst acquire")
        return b.emit(i1, f"extractvalue {{ {text}, i1 }} {pair.text}, 1")


def load_atomic(b: IRFunction, type_: Type, address: Value) -> Value:
    return b.emit(type_, f"load atomic {type_.text}, ptr {address.text} acquire, align {type_.nbytes}")


def call(b: IRFunction, name: str, returns: Type, *args: Value) -> Value:
    """Call one of ours, Python's or the C library's functions."""
    return b.call(b.module.declare(name, returns, [a.type for a in args]), *args)


def forever(b: IRFunction) -> Any:
    return b.while_(lambda: b.const(i1, True))


def write_foundations(module: IRModule, target: Target) -> None:
    """The pool's memory, and what threads ask of the system: time, CPUs, sleep."""
    module.global_("pool", i64, -(-BYTES // 8))
    _write_clock(module, target)
    _write_cpu(module, target)
    _write_avoid_cpu(module, target)
    _write_watch(module, target)
    if target.futex_call is None:
        _write_sleep_by_condition(module)
    else:
        _write_sleep_by_futex(module, target.futex_call)


def _write_clock(module: IRModule, target: Target) -> None:
    with module.function("now", i64, internal=True) as b:
        time = b.array(i64, 2)
        call(b, "clock_gettime", i32, b.const(i32, target.clock), time.address)
        b.ret(time[0] * 1_000_000_000 + time[1])


def _write_cpu(module: IRModule, target: Target) -> None:
    with module.function("cpu", i32, internal=True) as b:
        b.ret(call(b, "sched_getcpu", i32) if target.knows_cpu else b.const(i32, -1))
    with module.function("allowed_cpus", void, internal=True, cpus=ptr) as b:
        masks = b.pointer(b.arg("cpus"), i64)
        with b.loop(0, MASK_WORDS) as i:
            masks[i] = b.const(i64, 0)
        if target.knows_cpu:
            call(b, "sched_getaffinity", i32, b.const(i32, 0), b.const(i64, 8 * MASK_WORDS), masks.address)


def _write_avoid_cpu(module: IRModule, target: Target) -> None:
    """Go to another CPU than this one; whether the thread is there and cannot leave.

    Linux wakes a thread where its waker runs unless an idle CPU shares a cache with that.
    """
    with module.function("avoid_cpu", i1, internal=True, cpu=i32, cpus=ptr) as b:
        if not target.knows_cpu:
            b.ret(False)
            return
        cpu = call(b, "cpu", i32)
        with b.if_((cpu != b.arg("cpu")) | b.compare(">=", cpu, 64 * MASK_WORDS, unsigned=True)):
            b.ret(False)
        allowed, others = b.pointer(b.arg("cpus"), i64), b.array(i64, MASK_WORDS)
        with b.loop(0, MASK_WORDS) as i:
            others[i] = allowed[i]
        number = b.cast("sext", cpu, i64)
        word, bit = number // 64, b.const(i64, 1) << number % 64
        others[word] = others[word] & ~bit
        size = b.const(i64, 8 * MASK_WORDS)
        b.ret(call(b, "sched_setaffinity", i32, b.const(i32, 0), size, others.address) != 0)


def _write_watch(module: IRModule, target: Target) -> None:
    """Watch a word until it changes, or until a time."""
    with module.function("watch", void, internal=True, word=ptr, seen=i32, until=i64) as b, forever(b):
        with b.loop(0, 32):
            with b.if_(load_atomic(b, i32, b.arg("word")) != b.arg("seen")):
                b.ret()
            if target.x86:
                call(b, "llvm.x86.sse2.pause", void)
        with b.if_(call(b, "now", i64) >= b.arg("until")):
            b.ret()


def _write_sleep_by_futex(module: IRModule, number: int) -> None:
    wait, wake = 128, 129  # FUTEX_WAIT and FUTEX_WAKE, within one process
    module.declare("syscall", i64, [i64])

    def futex(b: IRFunction, operation: int, value: Value) -> None:
        word = b.arg("word").text
        args = f"i64 {number}, ptr {word}, i64 {operation}, i32 {value.text}, ptr null, ptr null, i64 0"
        b.emit(i64, f"call i64 (i64, ...) @syscall({args})")

    with module.function("sleep_while", void, internal=True, word=ptr, seen=i32) as b:
        futex(b, wait, b.arg("seen"))
    with module.function("wake", void, internal=True, word=ptr, n_sleepers=i32) as b:
        futex(b, wake, b.arg("n_sleepers"))


def _write_sleep_by_condition(module: IRModule) -> None:
    def parts(b: IRFunction) -> tuple[Value, Value]:
        memory = module.address_of(b, "pool")
        return b.byte_offset(memory, MUTEX), b.byte_offset(memory, CONDITION)

    with module.function("sleep_while", void, internal=True, word=ptr, seen=i32) as b:
        mutex, condition = parts(b)
        call(b, "pthread_mutex_lock", i32, mutex)
        with b.while_(lambda: load_atomic(b, i32, b.arg("word")) == b.arg("seen")):
            call(b, "pthread_cond_wait", i32, condition, mutex)
        call(b, "pthread_mutex_unlock", i32, mutex)
    with module.function("wake", void, internal=True, word=ptr, n_sleepers=i32) as b:
        mutex, condition = parts(b)
        call(b, "pthread_mutex_lock", i32, mutex)
        call(b, "pthread_cond_broadcast", i32, condition)
        call(b, "pthread_mutex_unlock", i32, mutex)
