"""Emit for arm64 whatever native code a program asks for: `python scripts/emit_for_arm64.py [MODULE ARGUMENT...]`.

The program, by default `extempo demo`, runs on this machine, with vectors as wide as they are on arm64. Every text that
is compiled for it is also assembled for aarch64 with NEON by LLVM, which must need nothing that the text does not
declare.
The exit status is 1 where some text fails, or the program does.
"""

from __future__ import annotations

import os
import re
import runpy
import struct
import sys
import tempfile
from collections.abc import Iterator

import llvmlite.binding as llvm

from extempo.backends.llvm.ir import machine
from extempo.backends.llvm.ir.machine import Machine, ObjectEmitter, Processor
from extempo.backends.llvm.threads import pool

ARM64 = Processor("aarch64-unknown-linux-gnu", "generic", "+neon")
DEMO = ["extempo", "demo"]
_AARCH64 = 183  # e_machine of an ELF file
# Calls, also as jumps at the end, and addresses; what begins with a dot is a label.
_NAME = re.compile(r"^\s+(?:bl?\s+|mov[zk]\s.*:abs_\w+:)([A-Za-z_$][\w.$]*)", re.MULTILINE)


def has_backend() -> bool:
    """Whether this LLVM knows arm64 at all."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        llvm.Target.from_triple(ARM64.triple)
    except RuntimeError:
        return False
    return True


def faults(emitter: ObjectEmitter, text: str, kind: str) -> Iterator[str]:
    """What is wrong with the text on arm64."""
    if "@llvm.x86." in text:
        yield "has instructions of x86"
        return  # LLVM would end the process
    image = emitter.object_code(text, kind)
    if image[:4] != b"\x7fELF" or struct.unpack_from("<H", image, 18)[0] != _AARCH64:
        yield "is no object file of arm64"
    for name in sorted(set(_NAME.findall(emitter.assembly(text, kind)))):
        if not re.search(rf'@(llvm\.)?"?{re.escape(name)}\b', text):  # llvm.memset is a call of memset
            yield f"needs {name}, which it does not declare"


class Collector:
    """Emits for arm64 what the host's machine compiles."""

    def __init__(self) -> None:
        self.emitter = ObjectEmitter(ARM64)
        self.n_texts = 0
        self.found: list[str] = []

    def watch(self) -> None:
        """From now on, and as if this machine had the vectors of arm64; before the first op."""
        compiled, host, target = Machine._compile, machine.host, pool.target

        def also_for_arm64(this: Machine, text: str, kind: str) -> bytes:
            self.n_texts += 1
            self.found += [f"{fault}:\n{text}" for fault in faults(self.emitter, text, kind)]
            return compiled(this, text, kind)

        Machine._compile = also_for_arm64  # type: ignore[method-assign]  # in a process that does nothing else
        machine.host = lambda: host()._replace(features=host().features.replace("+avx512", "-avx512"))
        pool.target = lambda: target()._replace(x86=False)


def run(module: str, *arguments: str) -> int:
    """The exit status of `python -m module ...`."""
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def main() -> None:
    if not has_backend():
        sys.exit("this LLVM cannot emit code for arm64")
    collector = Collector()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["EXTEMPO_CACHE_DIR"] = directory  # nothing is known from earlier runs
        collector.watch()
        status = run(*(sys.argv[1:] or DEMO))
    for fault in collector.found:
        print(fault, file=sys.stderr)
    print(f"{collector.n_texts} texts emitted for {ARM64.triple}, {len(collector.found)} faults", file=sys.stderr)
    sys.exit(status or bool(collector.found) or not collector.n_texts)


if __name__ == "__main__":
    main()
