"""Code for arm64, emitted here: all that programs ask for, and that the check would notice what cannot run there."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.ir.builder import IRModule
from extempo.backends.llvm.ir.machine import KERNEL, RARE, ObjectEmitter
from extempo.backends.llvm.threads.pool import _FUTEX_CALLS, target
from extempo.backends.llvm.threads.thread_code import write_threads

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "emit_for_arm64.py"
check = runpy.run_path(str(SCRIPT))

pytestmark = pytest.mark.skipif(not check["has_backend"](), reason="this LLVM cannot emit code for arm64")


def faults(text: str, kind: str = KERNEL) -> list[str]:
    return list(check["faults"](ObjectEmitter(check["ARM64"]), text, kind))


@pytest.mark.parametrize(
    "program", [("extempo", "demo"), ("pytest", "-q", "-p", "no:xdist", "-m", "tiny")], ids=["demo", "tiny"]
)
def test_what_the_demo_and_the_tiny_tests_ask_for_is_emitted_for_arm64(program):
    done = subprocess.run([sys.executable, SCRIPT, *program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_threads_sleep_by_the_system_call_of_arm64():
    module = IRModule()
    write_threads(module, target()._replace(futex_call=_FUTEX_CALLS["aarch64"], x86=False))
    assert faults(module.text(), RARE) == []


def test_instructions_of_x86_are_found():
    module = IRModule()
    write_threads(module, target()._replace(x86=True))
    assert faults(module.text(), RARE) == ["has instructions of x86"]


def test_a_library_call_that_llvm_makes_up_is_found():
    text = "define double @kernel(double %a, double %b) {\n  %r = frem double %a, %b\n  ret double %r\n}\n"
    assert faults(text) == ["needs fmod, which it does not declare"]


def test_a_vector_wider_than_a_register_is_taken_apart():
    text = "define <8 x float> @kernel(<8 x float> %a) {\n  %r = fadd <8 x float> %a, %a\n  ret <8 x float> %r\n}\n"
    assert faults(text) == []
    assert ObjectEmitter(check["ARM64"]).assembly(text).count("fadd") == 2
