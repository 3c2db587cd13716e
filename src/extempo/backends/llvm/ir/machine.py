"""The one importer of llvmlite: IR text in, addresses of native functions out.

Text -> SROA -> object code -> the process. Object code is kept on disk, keyed by the text, the CPU and LLVM's version,
so a second process only loads it. Nothing is optimised but register allocation of locals: the text has explicit
vectors already, and passes would take longer than they save.

There are three kinds of code: `KERNEL` for loops over elements; `CALLS` for what is between Python and them; `RARE` for
such calls that are made once a step rather than once an op, where nothing is optimised at all: that takes LLVM a tenth
of the time.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm

from ....core import locks
from . import disk
from .builder import IRModule

_numbers = itertools.count(1)
KERNEL, CALLS, RARE = "kernel", "calls", "rare calls"


class Processor(NamedTuple):
    """What code is written and emitted for, as LLVM names it."""

    triple: str
    cpu: str
    features: str  # "+avx2,-sse4a,..."

    def has(self, feature: str) -> bool:
        """Whether it has what LLVM calls so."""
        return f"+{feature}" in self.features.split(",")

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86_64", "i686"))

    @property
    def vector_bytes(self) -> int:
        """How wide vectors are where they fill registers: AVX-512's, AVX's, or two of NEON's."""
        return 64 if self.has("avx512f") else 32

    @property
    def multiplies_and_adds(self) -> bool:
        """Whether it multiplies and adds vectors in one instruction."""
        return not self.is_x86 or (self.has("fma") and self.has("avx2"))

    @property
    def links_nearby(self) -> bool:
        """Whether the linker puts all of an object in one place, with stubs for what is far away.

        Then four bytes will do to refer to what is outside instead of eight, which is better for calls (LLVM's fast
        selector of instructions knows nothing else), while loops prefer their constants in registers. It is used where
        it was tried. On arm64 nothing else works: the older linker ends the process where Python is too far away.
        """
        return self.triple.startswith(("x86_64", "aarch64")) and "linux" in self.triple


def host() -> Processor:
    """The processor of this machine."""
    features = llvm.get_host_cpu_features().flatten()
    return Processor(llvm.Target.from_default_triple().triple, llvm.get_host_cpu_name(), features)


class ObjectEmitter:
    """Makes object code of IR text, for a processor that need not be the host's."""

    def __init__(self, processor: Processor) -> None:
        target = llvm.Target.from_triple(processor.triple)
        common = {"cpu": processor.cpu, "features": processor.features, "jit": True}
        nearby = {"codemodel": "small", "reloc": "pic"} if processor.links_nearby else {}
        self.targets = {
            KERNEL: target.create_target_machine(**common, opt=1),  # as fast as 2, a tenth sooner there
            CALLS: target.create_target_machine(**common, **nearby, opt=1),
            RARE: target.create_target_machine(**common, **nearby, opt=0),
        }
        self._passes: Any = None

    def object_code(self, text: str, kind: str = KERNEL) -> bytes:
        """An object file."""
        image: bytes = self.targets[kind].emit_object(self._prepared(text))
        return image

    def assembly(self, text: str, kind: str = KERNEL) -> str:
        """The same for readers."""
        listing: str = self.targets[kind].emit_assembly(self._prepared(text))
        return listing

    def _prepared(self, text: str) -> Any:
        module = llvm.parse_assembly(text)
        if self._passes is None:
            builder = llvm.create_pass_builder(self.targets[KERNEL], llvm.create_pipeline_tuning_options(0))
            manager = llvm.create_new_module_pass_manager()
            manager.add_sroa_pass()
            self._passes = (manager, builder)
        self._passes[0].run(module, self._passes[1])
        return module


class Machine:
    """The host's CPU as a compiler target, and everything that was loaded for it."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.processor = host()
        self._emitter = ObjectEmitter(self.processor)
        self._jit = llvm.create_lljit_compiler(self._emitter.targets[KERNEL], use_jit_link=self.processor.links_nearby)
        version = ".".join(map(str, llvm.llvm_version_info))
        self._identity = (llvmlite.__version__, version, *self.processor)
        self._lock = locks.awaited()  # or a forked child would find one of LLVM's own locks taken for ever
        self._symbols: dict[str, int] = {}
        self._libraries: dict[str, Library] = {}  # by key: the same text is the same code, whoever asks, and stays
        self.compiled = 0
        self.compile_seconds = 0.0
        self.loaded = 0

    def offer(self, name: str, address: int) -> None:
        """Make an address known to code that declares a function of that name."""
        self._symbols[name] = address

    def load(self, text: str, names: list[str], imports: list[str], kind: str = KERNEL) -> Library:
        """Compile the text, or take it from the disk, and load it. `names`: the functions to be found in it."""
        key = disk.key_of(*self._identity, kind, text)
        with self._lock:
            return self._known(key, names) or self._compiled(key, text, names, imports, kind)

    def load_as(self, identity: str, names: list[str], write: Callable[[], IRModule], kind: str = KERNEL) -> Library:
        """Like `load`, for a text that follows from `identity`: it is only written when it has to be compiled."""
        key = disk.key_of(*self._identity, kind, "made from", identity)
        with self._lock:
            found = self._known(key, names)
        if found is None:
            module = write()
            text = module.text()
            own_key = disk.key_of(*self._identity, kind, text)  # it may be known by what it says
            with self._lock:  # another thread may have been faster
                found = self._libraries.get(key) or self._libraries.get(own_key)
                if found is None:
                    found = self._compiled(key, text, names, module.imports, kind)
                elif (entry := disk.default().get(own_key)) is not None:
                    disk.default().put(key, entry)  # so that the next process finds it without writing it
                self._libraries[key] = found
        return found

    def find(self, names: list[str], text: str = "", identity: str = "", kind: str = KERNEL) -> Library | None:
        """What `load` or `load_as` would not have to compile. One that is on disk may wait for what LLVM is at."""
        key = disk.key_of(*self._identity, kind, *(("made from", identity) if identity else (text,)))
        found = self._libraries.get(key)
        if found is None and (entry := disk.default().get(key)) is not None:
            with self._lock:
                found = self._libraries.get(key) or self._loaded(key, entry, names)
        return found

    def _known(self, key: str, names: list[str]) -> Library | None:
        """What is in memory or on disk."""
        found = self._libraries.get(key)
        if found is None:
            entry = disk.default().get(key)
            if entry is not None:
                found = self._loaded(key, entry, names)
        return found

    def _loaded(self, key: str, entry: bytes, names: list[str]) -> Library:
        imports, _, image = entry.partition(b"\n")
        return self._add(key, image, names, imports.decode().split())

    def _compiled(self, key: str, text: str, names: list[str], imports: list[str], kind: str = KERNEL) -> Library:
        image = self._compile(text, kind)
        disk.default().put(key, " ".join(imports).encode() + b"\n" + image)
        return self._add(key, image, names, imports)

    def _add(self, key: str, image: bytes, names: list[str], imports: list[str]) -> Library:
        self.loaded += 1
        found = self._libraries[key] = Library(self._link(image, names, imports), names)
        return found

    def _compile(self, text: str, kind: str) -> bytes:
        begin = time.thread_time()  # neither other threads nor other processes count
        image = self._emitter.object_code(text, kind)
        self.compiled += 1
        self.compile_seconds += time.thread_time() - begin
        return image

    def _link(self, image: bytes, names: list[str], imports: list[str]) -> Any:
        library = llvm.JITLibraryBuilder().add_object_img(image)
        for name in names:
            library.export_symbol(name)
        for name in imports:
            library.import_symbol(name, self._address_of(name))
        return library.link(self._jit, f"library {next(_numbers)}")

    def _address_of(self, name: str) -> int:
        found = self._symbols.get(name)
        if found is None:
            found = self._symbols[name] = _process_symbol(name)
        return found


class Library:
    """Loaded code: the addresses of its functions."""

    def __init__(self, tracker: Any, names: list[str]) -> None:
        self._tracker = tracker
        self.address: dict[str, int] = {name: tracker[name] for name in names}


_machine: list[Machine] = []


def machine() -> Machine:
    """The one compiler of this process."""
    if not _machine:
        _machine.append(Machine())
    return _machine[0]


def _process_symbol(name: str) -> int:
    """A function of Python's C interface or of the C library."""
    for library in (ctypes.pythonapi, ctypes.CDLL(None)):
        try:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
        if address:
            return address
    raise LookupError(f"native code needs {name}, which this process does not have")
