"""The words of the pool's memory: atomic changes, time, and waiting for a word."""

from __future__ import annotations

import sys
import threading
import time

import pytest

pytest.importorskip("llvmlite")
if sys.platform == "win32":
    pytest.skip("native kernels do not support Windows yet", allow_module_level=True)

from extempo.backends.llvm.ir.types import i1, i32, i64, ptr, void
from extempo.backends.llvm.threads import pool
from extempo.backends.llvm.threads.thread_words import (
    BYTES,
    HANDLES,
    MAX_HELPERS,
    WORDS,
    Words,
    call,
    write_foundations,
)

from ..written import C, compiled, inner

TARGET = pool.target()


def with_pool(write, returns, **args):
    """A function of a module that has the pool's memory, and where that is."""

    def written(b):
        b.module.global_("pool", i64, -(-BYTES // 8) + 7)  # another text than others have: memory of its own
        write(b, Words(b))

    return compiled(written, returns, **args)


def test_words_do_not_overlap_and_fit_the_memory():
    taken = {}
    for name, word in WORDS.items():
        assert word.offset % word.type.nbytes == 0
        for byte in range(word.offset, word.offset + word.type.nbytes):
            assert taken.setdefault(byte, name) == name
    assert max(taken) < HANDLES
    assert BYTES == HANDLES + 8 * MAX_HELPERS


def test_a_change_returns_what_was_there():
    def write(b, words):
        words.store("losses", b.arg("x"))
        before = words.change("losses", "add", 5)
        last = words.change("losses", "xchg", 7)
        b.ret(before * 1_000_000 + last * 1000 + words.load("losses"))

    assert with_pool(write, i64, x=i64)(3) == 3_008_007


def test_a_word_is_replaced_only_if_it_is_what_was_expected():
    def write(b, words):
        words.store("lock", 1)
        first, second = words.replace("lock", 0, 2), words.replace("lock", 1, 3)
        bits = b.cast("zext", first, i64) + b.cast("zext", second, i64) * 2
        b.ret(bits + b.cast("sext", words.load("lock"), i64) * 10)

    assert with_pool(write, i64)() == 32


def test_a_word_is_read_from_python_in_its_own_width():
    def write(b, words):
        words.store("lock", -2)
        words.store("tickets", (1 << 40) + 5)
        b.ret(b.module.address_of(b, "pool"))

    run = with_pool(write, ptr)
    memory = run()
    assert WORDS["lock"].read(memory) == -2
    assert WORDS["tickets"].read(memory) == (1 << 40) + 5


def foundation(name, returns, **args):
    return inner(lambda module: write_foundations(module, TARGET), name, returns, **args)


def test_the_clock_is_the_monotonic_one():
    now, before = foundation("now", i64), time.monotonic_ns()
    assert before <= now() <= time.monotonic_ns()


@pytest.mark.skipif(not TARGET.knows_cpu, reason="only Linux says on which CPU a thread runs")
def test_a_thread_knows_its_cpu_and_those_it_may_use():
    import os

    import numpy as np

    masks = np.zeros(16, np.uint64)
    foundation("allowed_cpus", void, cpus=ptr)(masks.ctypes.data)
    allowed = {64 * i + bit for i in range(16) for bit in range(64) if int(masks[i]) >> bit & 1}
    assert allowed == os.sched_getaffinity(0)
    assert foundation("cpu", i32)() in allowed
    # A thread that is elsewhere already does not have to go.
    assert foundation("avoid_cpu", i1, cpu=i32, cpus=ptr)(9999, masks.ctypes.data) is False


@pytest.mark.parametrize("target", [TARGET, TARGET._replace(futex_call=None)], ids=["platform", "posix"])
def test_who_sleeps_on_a_word_is_woken_by_who_changes_it(target):
    """The caller sleeps while the word is what it saw; another thread changes the word, then wakes."""
    from extempo.backends.llvm.ir.builder import IRModule
    from extempo.backends.llvm.ir.machine import machine

    module = IRModule()
    write_foundations(module, target)
    with module.function("fall_asleep", void, seen=i32) as b:
        call(b, "sleep_while", void, Words(b).at("pending"), b.arg("seen"))
    with module.function("change_and_wake", void, value=i32) as b:
        Words(b).store("pending", b.arg("value"))
        call(b, "wake", void, Words(b).at("pending"), b.const(i32, 1))
    library = machine().load(module.text(), ["fall_asleep", "change_and_wake"], module.imports)
    import ctypes

    sleep, wake = (ctypes.CFUNCTYPE(None, C[i32])(library.address[n]) for n in ("fall_asleep", "change_and_wake"))
    wake(3)
    sleep(4)  # it is not what was seen: no sleep
    sleeper = threading.Thread(target=sleep, args=(3,), daemon=True)
    sleeper.start()
    for value in range(4, 2000):  # the sleeper may not sleep yet when it is first woken
        wake(value)
        sleeper.join(0.005)
        if not sleeper.is_alive():
            break
    assert not sleeper.is_alive()
