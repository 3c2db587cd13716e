"""Probes: native code that stands before other native code, and writes down when that began and ended.

While somebody profiles, the functions of `callables` run a *stub* instead of their own code. Each stub has a number,
its site; all of them end in one function, which looks up the site's own code, calls it between two readings of the
processor's clock, and writes a record into a ring of memory: site, both readings, the user's line as (code object,
instruction), what it was called with, and the thread. Nothing is tested or written where nobody profiles, for the stubs
are not there then.

A ring that is full goes on with its first record; `n_written` says how many there were. The clock counts ticks (of the
time stamp counter, or of the system's counter on arm64); whoever reads the ring knows two moments in ticks and in
seconds.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i32, i64, ptr, void
from ..ir.machine import machine
from .callables import function
from .cpython import Python
from .objects import TABLE, Objects
from .profile_records import RECORD, offset

N_STUBS = 512
INSTRUCTION_SITE, NODE_SITE = 0, 1  # of records that no stub writes: an instruction of a plan, a node of backward
FIRST_SITE = 2
# What a site's record has beside its times.
FINDS_LINE, KEEPS_FIRST, KEEPS_SELF = 1, 2, 4
_STATE = ("ring", "mask", "n_written", "inner")
_RECORDED = (
    *(ctypes.c_int64, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p),
    *(ctypes.c_int64, ctypes.c_int64),
)
_SITE_WORDS = 2  # address of its own code, flags
_N_KEPT = 1024
_EXTRA = ("kept",)


def now(b: IRFunction) -> Value:
    """The clock: ticks of one rate on all cores."""
    if machine().processor.is_x86:
        return b.call(b.module.declare("llvm.readcyclecounter", i64, []))
    return b.emit(i64, 'call i64 asm sideeffect "mrs $0, cntvct_el0", "=r"()')


class _Writer:
    """Writes the functions, with the words that they share."""

    def __init__(self, module: IRModule, offsets: dict[str, int]) -> None:
        self.module = module
        self.offsets = offsets
        module.global_("state", i64, len(_STATE))
        module.global_("sites", i64, _SITE_WORDS * N_STUBS)
        module.global_("kept_lately", ptr, _N_KEPT)

    def objects(self, b: IRFunction) -> Objects:
        return Objects(b, self.offsets, TABLE + _EXTRA)

    def state(self, b: IRFunction) -> Pointer:
        return Pointer(self.module.address_of(b, "state"), i64)

    def write_all(self) -> None:
        self._write_keep()
        self._write_line()
        self._write_record()
        self._write_probe()
        self._write_call()
        self._write_elementwise()
        with self.module.function("extempo_probe_state", ptr) as b:
            b.ret(self.module.address_of(b, "state"))
        with self.module.function("extempo_probe_inner", i64) as b:
            b.ret(self.state(b)[_STATE.index("inner")])
        with self.module.function("extempo_probe_sites", ptr) as b:
            b.ret(self.module.address_of(b, "sites"))
        with self.module.function("extempo_probe_kept", ptr) as b:
            b.ret(self.module.address_of(b, "kept_lately"))
        with self.module.function("extempo_probe_now", i64) as b:
            b.ret(now(b))
        self._write_stubs()

    def _write_keep(self) -> None:
        """extempo_probe_keep(o): what a record refers to lives as long as the profile; one met lately is known to."""
        with self.module.function("extempo_probe_keep", void, o=ptr) as b:
            o, number = b.arg("o"), b.emit(i64, f"ptrtoint ptr {b.arg('o').text} to i64")
            lately = Pointer(self.module.address_of(b, "kept_lately"), ptr)
            place = lately.at(b.binary("lshr", number, 5) & (_N_KEPT - 1))
            with b.if_(b.load(ptr, place) != o):
                objects = self.objects(b)
                address = b.call(self.module.declare("PyLong_FromLongLong", ptr, [i64]), number)
                with b.if_(address == 0):
                    objects.python.forget("MemoryError")
                    b.ret()
                put = self.module.declare("PyDict_SetItem", i32, [ptr, ptr, ptr])
                failed = b.call(put, objects.known("kept"), address, o)
                objects.python.decref(address)
                with b.if_(failed != 0):
                    objects.python.forget("MemoryError")
                    b.ret()
                b.store(o, place)
            b.ret()

    def _write_line(self) -> None:
        """probe_line(where): the user's code object, borrowed, and in `where` its instruction; null if there is none.

        Mirrors `core.source_location.user_line`.
        """
        module = self.module
        with module.function("probe_line", ptr, internal=True, where=ptr) as b:
            o = self.objects(b)
            python, declare = o.python, module.declare
            frame = b.var(ptr, b.call(declare("PyEval_GetFrame", ptr, [])))
            python.incref(frame.value)
            with b.while_(lambda: frame.value != 0):
                found = b.call(declare("PyFrame_GetGlobals", ptr, [ptr]), frame.value)
                python.decref(found)  # the frame holds it
                is_user = b.var(i1, found == o.known("user_globals"))
                with b.if_(~is_user.value):
                    get = declare("PyDict_GetItem", ptr, [ptr, ptr])
                    package = b.call(get, found, o.known("package"))  # code that was made by code has none
                    internal = b.var(ptr, o.known("true"))
                    with b.if_(package != 0):
                        internal.set(b.call(get, o.known("packages"), package))
                        with b.if_(internal.value == 0):  # Python says what it is, and remembers it
                            asked = b.call(declare("PyObject_CallNoArgs", ptr, [ptr]), o.known("find_line"))
                            with b.if_(asked == 0):  # an interrupt came in
                                python.decref(frame.value)
                                b.ret(b.const(ptr, 0))
                            python.decref(asked)
                            internal.set(b.call(get, o.known("packages"), package))
                    with b.if_(internal.value != o.known("true")):
                        is_user.set(1)
                        with b.if_(internal.value == o.known("false")):
                            before = o.known("user_globals")
                            o.remember("user_globals", python.incref(found))
                            python.decref(before)
                with b.if_(is_user.value):
                    code = b.call(declare("PyFrame_GetCode", ptr, [ptr]), frame.value)
                    Pointer(b.arg("where"), i32)[0] = b.call(declare("PyFrame_GetLasti", i32, [ptr]), frame.value)
                    python.decref(frame.value)
                    python.decref(code)  # a frame that runs holds it
                    b.ret(code)
                back = b.call(declare("PyFrame_GetBack", ptr, [ptr]), frame.value)
                python.decref(frame.value)
                frame.set(back)
            with b.if_(python.is_raised()):
                python.forget("MemoryError")
            b.ret(b.const(ptr, 0))

    def _write_record(self) -> None:
        """extempo_probe_record(begin, end, site, instruction, code, object, inner, index): one more in the ring."""
        args: dict[str, Any] = {"begin": i64, "end": i64, "site": i32, "instruction": i32, "code": ptr, "object": ptr}
        args |= {"inner": i64, "index": i64}
        with self.module.function("extempo_probe_record", void, **args) as b:
            state = self.state(b)
            ring = state[_STATE.index("ring")]
            with b.if_(ring == 0):  # the profile has ended meanwhile
                b.ret()
            count = _STATE.index("n_written")
            n = state[count]
            state[count] = n + 1
            place = b.byte_offset(_as_pointer(b, ring), (n & state[_STATE.index("mask")]) * RECORD.itemsize)
            thread = b.call(self.module.declare("PyThreadState_Get", ptr, []))
            for name in args:
                b.set_field(place, offset(name), b.arg(name))
            b.set_field(place, offset("thread"), thread)

    def _write_probe(self) -> None:
        """probe(site, self, args, nargs, kwnames): what the site's own code returns."""
        module = self.module
        given: dict[str, Any] = {"site": i64, "self": ptr, "args": ptr, "nargs": i64, "kwnames": ptr}
        with module.function("probe", ptr, internal=True, **given) as b:
            entry = Pointer(module.address_of(b, "sites"), i64) + b.arg("site") * _SITE_WORDS
            flags, state, inner = entry[1], self.state(b), _STATE.index("inner")
            code, o, where = b.var(ptr, 0), b.var(ptr, 0), b.array(i32, 1)
            where[0] = b.const(i32, -1)
            with b.if_((flags & FINDS_LINE) != 0):
                code.set(b.call(module.defined["probe_line"], where.address))
                found, nowhere = b.if_else(code.value != 0)
                with found:
                    b.call(module.defined["extempo_probe_keep"], code.value)
                with nowhere, b.if_(Python(b).is_raised()):
                    b.ret(b.const(ptr, 0))
            with b.if_((flags & KEEPS_SELF) != 0):
                o.set(b.arg("self"))
            with b.if_(((flags & KEEPS_FIRST) != 0) & (b.arg("nargs") > 0)):
                o.set(Pointer(b.arg("args"), ptr)[0])
            with b.if_(o.value != 0):
                b.call(module.defined["extempo_probe_keep"], o.value)
            before = state[inner]
            begin = now(b)
            callee = _as_pointer(b, entry[0])
            made = b.call_address(callee, ptr, b.arg("self"), b.arg("args"), b.arg("nargs"), b.arg("kwnames"))
            end = now(b)
            site = b.cast("trunc", b.arg("site"), i32)
            more = (state[inner] - before, b.const(i64, -1))
            b.call(module.defined["extempo_probe_record"], begin, end, site, where[0], code.value, o.value, *more)
            b.ret(made)

    def _write_call(self) -> None:
        """extempo_probe_call(*args, **kwargs): a call of the Python function that stands in `self`."""
        with self.module.function("extempo_probe_call", ptr, self=ptr, args=ptr, nargs=i64, kwnames=ptr) as b:
            python = Python(b)
            callee = python.item(b.arg("self"), 0)
            b.ret(python.vectorcall(callee, b.arg("args"), b.arg("nargs"), b.arg("kwnames")))

    def _write_elementwise(self) -> None:
        """extempo_elementwise_timed: as extempo_elementwise; what it takes is added to the word `inner`."""
        parts: dict[str, Any] = {"record": ptr, "inputs": ptr, "results": ptr, "given": i64}
        with self.module.function("extempo_elementwise_timed", i64, **parts) as b:
            own = self.module.declare("extempo_elementwise", i64, [ptr, ptr, ptr, i64])
            begin = now(b)
            status = b.call(own, *(b.arg(name) for name in parts))
            state, inner = self.state(b), _STATE.index("inner")
            state[inner] = state[inner] + (now(b) - begin)
            b.ret(status)

    def _write_stubs(self) -> None:
        names = [f"stub{k}" for k in range(N_STUBS)]
        given: dict[str, Any] = {"self": ptr, "args": ptr, "nargs": i64, "kwnames": ptr}
        for k, name in enumerate(names):
            with self.module.function(name, ptr, internal=True, **given) as b:
                b.ret(b.call(self.module.defined["probe"], k, *(b.arg(part) for part in given)))
        self.module.table_of("stubs", names)
        with self.module.function("extempo_probe_stubs", ptr) as b:
            b.ret(self.module.address_of(b, "stubs"))


def _as_pointer(b: IRFunction, number: Value) -> Value:
    return b.emit(ptr, f"inttoptr i64 {number.text} to ptr")


def time_kernels(module: IRModule) -> None:
    """In a module that is written after this, elementwise kernels add what they take to the word `inner`."""
    module.defined["extempo_elementwise"] = module.declare("extempo_elementwise_timed", i64, [ptr, ptr, ptr, i64])


def keep(b: IRFunction, o: Value) -> None:
    """An object that a record will refer to lives as long as the profile."""
    b.call(b.module.declare("extempo_probe_keep", void, [ptr]), o)


def inner(b: IRFunction) -> Value:
    """The word that kernels without a record add to."""
    return b.call(b.module.declare("extempo_probe_inner", i64, []))


def record(b: IRFunction, begin: Value, end: Value, site: int, **parts: Value) -> None:
    """Write a record in code that stands nowhere else than in a profile."""
    zeros = {"instruction": b.const(i32, -1), "code": b.const(ptr, 0), "object": b.const(ptr, 0)}
    given = zeros | {"inner": b.const(i64, 0), "index": b.const(i64, -1)} | parts
    types = [i64, i64, i32, i32, ptr, ptr, i64, i64]
    callee = b.module.declare("extempo_probe_record", void, types)
    b.call(callee, begin, end, b.const(i32, site), *given.values())


class Probes:
    """The loaded code, its sites and its ring. There is one for the process."""

    N_STUBS, FINDS_LINE, KEEPS_FIRST, KEEPS_SELF = N_STUBS, FINDS_LINE, KEEPS_FIRST, KEEPS_SELF

    def __init__(self, launcher: Any) -> None:
        """`launcher` has the table of what native code knows of Extempo's objects."""
        self.kept: dict[int, object] = {}  # what records refer to, by address

        def write(module: IRModule) -> None:
            _Writer(module, launcher.offsets).write_all()

        parts = ("state", "sites", "kept", "keep", "inner", "now", "stubs", "call", "record")
        names = [*(f"extempo_probe_{name}" for name in parts), "extempo_elementwise_timed"]
        library = launcher.extend(write, names, launcher.offsets, {"kept": self.kept})
        address = library.address
        for name in (*(f"extempo_probe_{part}" for part in ("keep", "inner", "record")), "extempo_elementwise_timed"):
            machine().offer(name, address[name])
        found = ctypes.CFUNCTYPE(ctypes.c_void_p)
        self._state = (ctypes.c_int64 * len(_STATE)).from_address(found(address["extempo_probe_state"])())
        self._sites = (ctypes.c_int64 * (_SITE_WORDS * N_STUBS)).from_address(found(address["extempo_probe_sites"])())
        self._stubs = (ctypes.c_int64 * N_STUBS).from_address(found(address["extempo_probe_stubs"])())
        self._kept_lately = found(address["extempo_probe_kept"])()
        self._call = address["extempo_probe_call"]
        self._write = ctypes.PYFUNCTYPE(None, *_RECORDED)(address["extempo_probe_record"])
        self.now = ctypes.PYFUNCTYPE(ctypes.c_int64)(address["extempo_probe_now"])
        self._ring: Any = None

    def write(self, begin: int, end: int, site: int, instruction: int, code: int, o: int = 0) -> None:
        """A record from Python; what it refers to, by address, is `kept` already."""
        self._write(begin, end, site, instruction, code, o, 0, -1)

    def stub(self, site: int, address: int, flags: int) -> int:
        """The address of the stub of a site whose own code is at `address`."""
        self._sites[_SITE_WORDS * site] = address
        self._sites[_SITE_WORDS * site + 1] = flags
        stub: int = self._stubs[site]
        return stub

    def around(self, name: str, fn: Any) -> Any:
        """A function that calls `fn`, and has a site of its own by its name."""
        return function(name, self._call, (fn,), keywords=True)

    @property
    def call_address(self) -> int:
        """The code of all that `around` made."""
        return self._call

    def begin(self, n_records: int) -> None:
        """An empty ring of that many records, a power of two."""
        self._ring = np.zeros(n_records, RECORD)
        self.kept.clear()
        ctypes.memset(self._kept_lately, 0, 8 * _N_KEPT)
        self._put("mask", n_records - 1)
        self._put("n_written", 0)
        self._put("ring", self._ring.ctypes.data)

    def written(self) -> tuple[Any, int]:
        """All records that are still there, oldest first, and how many there were."""
        ring, n_written = self._ring, int(self._state[_STATE.index("n_written")])
        if n_written <= len(ring):
            return ring[:n_written], n_written
        first = n_written % len(ring)
        return np.concatenate([ring[first:], ring[:first]]), n_written

    def end(self) -> None:
        """Nothing is written any more, also where a function that was called before returns later."""
        self._put("ring", 0)
        self._ring = None
        self.kept.clear()

    def _put(self, name: str, value: int) -> None:
        self._state[_STATE.index(name)] = value
