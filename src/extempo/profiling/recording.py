"""Recording: who writes records while a profile runs, natively into a ring or in Python, and what comes of it.

There is one recorder at a time, which all profiles that run share: the first one starts it and the last one stops it.
Each takes what was written between its own beginning and end.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..backends.llvm.calls.profile_records import RECORD
from ..backends.selection import native
from ..core import locks
from ..core.interrupts import certainly
from ..core.source_location import user_line
from . import sites
from .hooks import Exchange, Hook
from .sites import Site

Array = Any
_NODE = 1  # the site of nodes of backward, after that of instructions of plans


class Recording(NamedTuple):
    """What was written. Times are nanoseconds of `time.perf_counter_ns`."""

    records: Array  # in the order in which they ended
    n_lost: int  # written before these, and overwritten
    sites: list[Site]
    objects: dict[int, Any]  # what records refer to, by address
    thread: int  # the one that asked for it
    begin: int
    end: int


def nothing() -> Array:
    """No records."""
    return np.empty(0, RECORD)


class NativeRecorder:
    """Probes before all native functions, and around the hooks."""

    def __init__(self, n_records: int) -> None:
        self._probes = _native_probes()
        self._sites: list[Site] = [Site("instruction", sites.INSTRUCTION), Site("node", sites.NODE, True)]
        self._numbers: dict[Any, int] = {}
        self._hooked: dict[str, Hook] = {}
        self._addresses = _Addresses()
        self._probes.begin(n_records)
        self._start = (self._probes.now(), time.perf_counter_ns())
        from ..backends.llvm.calls import callables

        self._callables = callables
        self._exchange = Exchange(self._around)
        callables.replace_code(self._stub)

    def _around(self, hook: Hook, fn: Callable[..., Any]) -> Any:
        if hook.kind == sites.NODE:
            return _around_node(fn, self.now, self._write_node)
        self._hooked[hook.name] = hook
        made = self._probes.around(hook.name, fn)
        return _as_method(made) if isinstance(hook.owner, type) else made

    def label(self, name: str) -> Callable[[int, int], None]:
        """What writes a record of a stretch of code with a name, from one moment to another."""
        site = self._number(("label", name), Site(name, sites.LABEL))

        return lambda begin, end: self._write(begin, end, site, user_line(), None)

    def _write_node(self, begin: int, end: int, node: Any) -> None:
        self._write(begin, end, _NODE, node.where, node.op)

    def _write(self, begin: int, end: int, site: int, where: Any, o: Any) -> None:
        """A record that Python writes."""
        code, instruction = where if where is not None else (None, -1)
        for kept in (code, o):
            if kept is not None:
                self._probes.kept[id(kept)] = kept
        self._probes.write(begin, end, site, instruction, *_ids(code, o))

    @property
    def now(self) -> Callable[[], int]:
        return self._probes.now

    def _number(self, key: Any, site: Site) -> int:
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._sites)
            self._sites.append(site)
        return found

    def _stub(self, key: tuple[str, int, bool]) -> int | None:
        """The address of the code that a function runs while this records."""
        name, address, _ = key
        hook = self._hooked.get(name) if address == self._probes.call_address else None
        if hook is not None:
            site, flags = Site(hook.name, hook.kind), self._probes.FINDS_LINE
            flags |= self._probes.KEEPS_FIRST if hook.keeps_first else 0
        else:
            found = self._addresses.site(name, address)
            if found is None:
                return None
            site, flags = found
        number = self._number(key, site)
        if number >= self._probes.N_STUBS:
            return None
        guarded = self._callables.variant_of(address)  # a guard goes on: the time of its kernels counts as the op's
        own = self._addresses.timed.get(address, address) if guarded == address else guarded
        return self._probes.stub(number, own, flags)

    def taken(self, begin: int) -> Recording:
        """What was written since a moment, in ticks, up to now."""
        now = (self._probes.now(), time.perf_counter_ns())
        records, n_written = self._probes.written()
        (first_tick, first), (last_tick, last) = self._start, now
        rate = (last - first) / max(last_tick - first_tick, 1)
        made = np.array(records[records["end"] >= begin])
        for name in ("begin", "end"):
            made[name] = first + ((made[name] - first_tick) * rate).astype(np.int64)
        made["inner"] = (made["inner"] * rate).astype(np.int64)
        lost = n_written - len(records)
        began = first + int((begin - first_tick) * rate)
        return Recording(made, lost, list(self._sites), dict(self._probes.kept), _thread_state(), began, last)

    def stop(self) -> None:
        self._callables.replace_code(None)
        self._exchange.end()
        self._probes.end()


class _Addresses:
    """What stands at an address of native code, and what stands there while it is timed."""

    def __init__(self) -> None:
        from ..autograd.native_engine import walker
        from ..backends.llvm.calls import glue, probes, views
        from ..backends.llvm.elementwise import kernels
        from ..backends.llvm.plans import runtime
        from ..dispatch.fast_path import launcher

        self._probes = probes
        at = launcher().addresses
        self._ops = {at[f"extempo_{name}"] for name in ("launch1", "launch2", "operator", "front")}
        self._apply = at["extempo_apply"]
        elementwise = kernels.runtime().address
        self._kernels = {
            glue.address(),
            views.load_views().address["extempo_view_call"],
            *(elementwise[f"extempo_elementwise_{name}"] for name in ("call", "tuple")),
        }
        self.timed = _timed_code()
        self._plan = runtime.runtime()["extempo_plan_run"]
        self._walk = walker().address

    def site(self, name: str, address: int) -> tuple[Site, int] | None:
        """What runs there, and the flags of its probe; None: it is not recorded."""
        p = self._probes
        if address in self._ops:
            return Site(name.strip("_"), sites.OP), p.FINDS_LINE
        if address == self._apply:
            return Site("apply", sites.OP, names_itself=True), p.FINDS_LINE | p.KEEPS_FIRST
        if address in self._kernels:
            return Site(name, sites.KERNEL), 0
        if address == self._plan:
            return Site("plan", sites.PLAN), p.FINDS_LINE | p.KEEPS_SELF
        if address in self._walk.values():
            return Site(name, sites.BACKWARD), 0
        if name in ("flush", "backward"):
            return Site(name, sites.SEGMENT if name == "flush" else sites.BACKWARD), p.FINDS_LINE
        if name.startswith(("rows_", "update")):
            return Site(name, sites.KERNEL), 0
        if name == "empty":
            return None  # of memory, within others
        return Site(name, sites.OTHER), p.FINDS_LINE


@functools.cache
def _timed_code() -> dict[int, int]:
    """Native code that times what it calls without a probe, by the address of that which does not."""
    from ..autograd.native_engine import walker
    from ..backends.llvm.plans.runtime import runtime, timed_run
    from ..dispatch.fast_path import launcher

    own, timed = walker().address, walker(True).address
    return {
        **launcher().timed(),
        own["extempo_walk"]: timed["extempo_walk"],
        runtime()["extempo_plan_run"]: timed_run(),
    }


@functools.cache
def _native_probes() -> Any:
    from ..backends.llvm.calls.probes import Probes
    from ..dispatch.fast_path import launcher

    return Probes(launcher())


def _thread_state() -> int:
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))
    return int(get())


def _ids(code: Any, o: Any) -> tuple[int, int]:
    return 0 if code is None else id(code), 0 if o is None else id(o)


def _around_node(fn: Any, now: Callable[[], int], write: Callable[[int, int, Any], None]) -> Any:
    """What visits a node of backward that native code does not visit, with a record of that."""

    @functools.wraps(fn)
    def visit(engine: Any, node: Any, g: Any) -> None:
        begin = now()
        fn(engine, node, g)
        write(begin, now(), node)

    return visit


def _as_method(fn: Any) -> Any:
    bind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(("PyInstanceMethod_New", ctypes.pythonapi))
    return bind(fn)


class PythonRecorder:
    """The same where NumPy's kernels run: functions of Python around `apply`, kernels and the hooks."""

    def __init__(self, n_records: int) -> None:
        from ..dispatch import dispatcher as loaded

        dispatcher: Any = loaded
        self._written: deque[tuple[int, ...]] = deque(maxlen=n_records)
        self._n_written = 0
        self._sites: list[Site] = [Site("instruction", sites.INSTRUCTION), Site("node", sites.NODE, True)]
        self._kept: dict[int, Any] = {}
        self.now = time.perf_counter_ns
        self._dispatcher = dispatcher
        self._kernel = dispatcher.numpy_kernel
        self._apply = dispatcher.apply.func
        self._exchange = Exchange(self._around)
        op = Site("apply", sites.OP, names_itself=True)
        dispatcher.numpy_kernel = self._timed(self._kernel, Site("kernel", sites.KERNEL, True), True, finds_line=False)
        _set_function(dispatcher.apply, self._timed(self._apply, op, True))

    def _around(self, hook: Hook, fn: Callable[..., Any]) -> Any:
        if hook.kind == sites.NODE:
            return _around_node(fn, self.now, self._write_node)
        return self._timed(fn, Site(hook.name, hook.kind), hook.keeps_first)

    def _write_node(self, begin: int, end: int, node: Any) -> None:
        self._write(begin, end, _NODE, node.where, node.op)

    def _timed(self, fn: Callable[..., Any], site: Site, keeps_first: bool, finds_line: bool = True) -> Any:
        number, now = len(self._sites), self.now
        self._sites.append(site)

        @functools.wraps(fn)
        def timed(*args: Any, **kwargs: Any) -> Any:
            where = user_line() if finds_line else None
            begin = now()
            try:
                return fn(*args, **kwargs)
            finally:
                self._write(begin, now(), number, where, args[0] if keeps_first and args else None)

        return timed

    def _write(self, begin: int, end: int, site: int, where: Any, o: Any) -> None:
        code, instruction = where if where is not None else (None, -1)
        for kept in (code, o):
            if kept is not None:
                self._kept[id(kept)] = kept
        self._n_written += 1
        self._written.append((begin, end, site, instruction, *_ids(code, o), threading.get_ident(), 0, -1))

    def label(self, name: str) -> Callable[[int, int], None]:
        """What writes a record of a stretch of code with a name, from one moment to another."""
        site = Site(name, sites.LABEL)
        if site not in self._sites:
            self._sites.append(site)
        number = self._sites.index(site)
        return lambda begin, end: self._write(begin, end, number, user_line(), None)

    def taken(self, begin: int) -> Recording:
        """What was written since a moment up to now."""
        end = time.perf_counter_ns()
        records = np.array(list(self._written), RECORD)
        lost = self._n_written - len(records)
        kept = records[records["end"] >= begin]
        return Recording(kept, lost, list(self._sites), dict(self._kept), threading.get_ident(), begin, end)

    def stop(self) -> None:
        _set_function(self._dispatcher.apply, self._apply)
        self._dispatcher.numpy_kernel = self._kernel
        self._exchange.end()


def _set_function(partial: Any, fn: Any) -> None:
    partial.__setstate__((fn, (), {}, {}))


Recorder = NativeRecorder | PythonRecorder
_lock = locks.renewed()
_recorder: Recorder | None = None
_n_users = 0


def current() -> Recorder | None:
    """Who records now."""
    return _recorder


def start(n_records: int) -> Recorder:
    """Record from now on; `stop` must be called as often."""
    global _recorder, _n_users
    with _lock:
        if _recorder is None:
            _recorder = PythonRecorder(n_records) if native() is None else NativeRecorder(n_records)
        _n_users += 1
        return _recorder


def stop() -> None:
    """One profile less: the last one ends the recording."""
    global _recorder, _n_users
    with _lock:
        _n_users -= 1
        if _n_users == 0 and _recorder is not None:
            ended, _recorder = _recorder, None
            certainly(ended.stop)
