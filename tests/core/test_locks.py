"""Every lock is one that a forked child finds free, and what it guards is fit for use there."""

from __future__ import annotations

import ast
import importlib
import os
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import extempo
import extempo as ex
from extempo import random
from extempo.autograd import accumulating
from extempo.backends import selection
from extempo.core import active_traces, effect_hooks, locks, trace_tree
from extempo.scheduling import loop_cache
from extempo.tracing import compiled_function

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
native = pytest.mark.skipif(selection.native() is None, reason="needs native kernels")

ROOT = Path(extempo.__file__).parent
LOCKS = {"Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier", "Timer", "allocate_lock"}
QUEUES = {"Queue", "SimpleQueue", "LifoQueue", "PriorityQueue", "JoinableQueue"}
NOT_ALLOWED = LOCKS | QUEUES | {"cached_property", "ThreadPoolExecutor", "ProcessPoolExecutor"}
MODULES = {"threading", "_thread", "queue", "functools", "multiprocessing", "concurrent.futures"}
ALLOWED = {
    "core/locks.py",  # where they are made
    "data/workers.py",  # the queue of a worker: no child that it may fork has a use for it
    "cli/studio_command.py",  # events that nobody sets, to wait a moment without a clock
    "studio_server/server.py",  # likewise
    "studio_server/session.py",  # of the thread that trains: a child is not watched
}


def names_of_locks(tree: ast.AST) -> list[str]:
    """What a module takes from modules that have locks."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES and not node.level:
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found += [node.attr] if node.value.id in MODULES else []
    return [name for name in found if name in NOT_ALLOWED]


def test_no_module_makes_locks_of_its_own():
    modules = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}
    found = {name for name, path in modules.items() if names_of_locks(ast.parse(path.read_text()))}
    assert found == ALLOWED
    told = "import threading\nfrom threading import RLock\nfrom functools import cached_property\nthreading.Event()"
    assert names_of_locks(ast.parse(told)) == ["RLock", "cached_property", "Event"]


def child(run) -> int:
    """What a forked child that runs this ends with; it is killed if it hangs."""
    process = os.fork()
    if not process:
        code = 1
        try:
            signal.alarm(60)
            run()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@contextmanager
def held(lock, until_forking=False):
    """The lock is another thread's; or until a fork waits for it."""
    taken, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(60)
    if until_forking:
        WAITING.append(done)
    try:
        yield
    finally:
        done.set()
        thread.join(60)
        WAITING.clear()


WAITING: list[threading.Event] = []
if hasattr(os, "fork"):
    # What is registered last is called first: a fork is about to take the locks that it waits for.
    os.register_at_fork(before=lambda: [done.set() for done in WAITING])


def draw():
    ex.rand(2)
    ex.rand(2, generator=ex.Generator().manual_seed(1))
    ex.manual_seed(3)


def compile_and_ask():
    f = ex.compile(lambda x: (x * 2).sum())
    for _ in range(4):
        f(ex.ones(3))
    del f
    ex.compile(lambda x: x)
    str(ex.compile.stats())


def call_static():
    f = ex.compile(lambda x: x.exp() * 2, static=True)
    for _ in range(3):
        f(ex.ones(3))


def train():
    w = ex.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


RENEWED = {
    "statistics": (compiled_function.FUNCTIONS._lock, compile_and_ask),
    "generators": (random._taking, draw),
    "hooks of effects": (effect_hooks._lock, call_static),
    "adding gradients": (accumulating._accumulating, train),
    "tapes that were left": (active_traces.escaped_lock, compile_and_ask),
    "tries": (trace_tree.tree_lock, compile_and_ask),
}


@forks
@pytest.mark.parametrize("name", RENEWED)
def test_a_child_uses_what_another_thread_had_locked(name):
    lock, use = RENEWED[name]
    use()
    with held(lock):
        assert child(use) == 0
    use()


@forks
def test_a_child_draws_from_a_users_generator_that_another_thread_draws_from():
    generator = ex.Generator().manual_seed(7)
    expected = ex.rand(3, generator=ex.Generator().manual_seed(7)).tolist()

    def use():
        assert ex.rand(3, generator=generator).tolist() == expected

    with held(random._taking):
        assert child(use) == 0


@forks
@native
def test_a_child_calls_a_static_function_that_another_thread_records():
    inside, done = threading.Event(), threading.Event()

    @contextmanager
    def pausing():
        inside.set()
        done.wait(60)
        yield

    pauses = [True]

    def body(x):
        if pauses and pauses.pop():
            with pausing():
                pass
        return x.exp() + x.sum()

    f = ex.compile(body, static=True)
    thread = threading.Thread(target=f, args=(ex.ones(3),))
    thread.start()
    assert inside.wait(60)
    item = ex.Tensor.item

    def use():
        x = ex.arange(3.0)
        for _ in range(3):
            assert ex.equal(f(x), x.exp() + x.sum())
        assert ex.Tensor.item is not item, "nobody watches any more, so what stood there is back"

    try:
        assert child(use) == 0
    finally:
        done.set()
        thread.join(60)


@forks
@native
def test_a_fork_waits_for_locks_whose_changes_cannot_be_mended():
    from extempo.backends.llvm.ir.machine import machine
    from extempo.backends.llvm.plans import background

    compile_and_ask()
    compiler = background._current()
    for lock in (selection._lock, loop_cache._filling, machine()._lock, background._making, compiler.changed):
        with held(lock, until_forking=True):
            assert child(compile_and_ask) == 0
    compile_and_ask()


@forks
def test_a_fork_waits_for_threads_that_take_several_locks_in_any_order():
    made = [locks.awaited() for _ in range(3)]
    stop, threads = threading.Event(), []

    def take(order):
        while not stop.is_set():
            with made[order[0]], made[order[1]]:
                pass

    for order in ((0, 1), (1, 2)):  # not (2, 0), with which they would lock each other out without any fork
        threads.append(threading.Thread(target=take, args=(order,)))
        threads[-1].start()
    try:
        for _ in range(20):
            assert child(lambda: [lock.acquire(blocking=False) or os._exit(2) for lock in made]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


@forks
def test_a_thread_that_forks_has_its_locks_in_the_child_too():
    for lock in (locks.renewed(), locks.awaited()):
        with lock:
            code = child(lock.release)
            assert code == 0


@forks
def test_what_is_mended_is_mended_only_where_another_thread_had_the_lock():
    mended = []
    lock = locks.renewed(lambda: mended.append(1))
    assert child(lambda: mended and os._exit(2)) == 0
    with held(lock):
        assert child(lambda: mended or os._exit(2)) == 0
    assert not mended


@forks
def test_a_fork_waits_for_modules_that_another_thread_imports(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import sys\nsys.begun.set()\nsys.go_on.wait(60)\nvalue = 3\n")
    monkeypatch.setattr(sys, "begun", threading.Event(), raising=False)
    monkeypatch.setattr(sys, "go_on", threading.Event(), raising=False)
    monkeypatch.setattr(extempo, "__path__", [*extempo.__path__, str(tmp_path)])
    name = "extempo.slow_to_import"
    thread = threading.Thread(target=importlib.import_module, args=(name,))
    thread.start()
    assert sys.begun.wait(60)
    WAITING.append(sys.go_on)
    try:
        assert child(lambda: importlib.import_module(name).value == 3 or os._exit(2)) == 0
    finally:
        WAITING.clear()
        sys.go_on.set()
        thread.join(60)
        sys.modules.pop(name, None)
        extempo.__dict__.pop("slow_to_import", None)


def test_a_lock_that_is_gone_is_forgotten():
    before = len(locks._RENEWED), len(locks._AWAITED)
    made = [locks.renewed(), locks.awaited()]
    assert (len(locks._RENEWED), len(locks._AWAITED)) == (before[0] + 1, before[1] + 1)
    made.clear()
    assert (len(locks._RENEWED), len(locks._AWAITED)) == before


class Attribute:
    value = 1


@forks
def test_a_child_puts_back_what_watches_of_other_threads_replaced_and_keeps_its_own():
    other = effect_hooks.EffectHooks(lambda: [(Attribute, "value", 2)])
    own = effect_hooks.EffectHooks(lambda: [(Attribute, "twice", 2 * Attribute.value)])
    Attribute.twice = 0

    def use():
        assert Attribute.value == 1
        assert Attribute.twice == 2
        own.__exit__(None, None, None)
        assert Attribute.twice == 0

    with held(other):
        assert Attribute.value == 2
        with own:
            assert child(use) == 0
        assert Attribute.value == 2
    assert (Attribute.value, Attribute.twice) == (1, 0)


@forks
def test_a_child_ends_what_another_thread_was_about_to_put_on_or_off():
    inside, done = threading.Event(), threading.Event()

    def replacements():
        yield Attribute, "value", 2
        inside.set()
        done.wait(60)

    watch = effect_hooks.EffectHooks(replacements)

    def run():
        with watch:
            pass

    thread = threading.Thread(target=run)
    thread.start()
    assert inside.wait(60)
    try:
        assert child(lambda: Attribute.value == 1 or os._exit(2)) == 0
    finally:
        done.set()
        thread.join(60)
    assert Attribute.value == 1


def test_a_cached_property_is_computed_once_and_can_be_set():
    class Counted:
        n = 0

        @locks.cached_property
        def value(self):
            """What it is."""
            self.n += 1
            return self.n

    x = Counted()
    assert (x.value, x.value, x.n) == (1, 1, 1)
    x.value = 5
    assert x.value == 5
    assert Counted.value.__doc__ == "What it is."
