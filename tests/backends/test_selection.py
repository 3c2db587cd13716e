"""Which kernels run, and what is said when they are not the native ones."""

import os
import subprocess
import sys

import pytest

import extempo as ex

pytestmark = pytest.mark.alone


def python(code, **environment):
    environment = os.environ | {"EXTEMPO_BACKEND": ""} | environment
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran


TRAIN = """
import extempo as ex
x = ex.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
for _ in range(2):
    (x @ x.T).tanh().sum().backward()
print(ex.backends.stats()["backend"], round(float(x.grad.sum()), 4))
"""


def test_numpy_can_be_chosen_and_gives_the_same_gradients():
    pytest.importorskip("llvmlite")
    native = python(TRAIN).stdout.split()
    plain = python(TRAIN, EXTEMPO_BACKEND="numpy")
    assert native[0] == "native"
    assert plain.stdout.split() == ["numpy", native[1]]
    assert plain.stderr == ""


def test_without_llvmlite_numpy_runs_and_one_warning_says_so():
    ran = python("import sys; sys.modules['llvmlite'] = None\n" + TRAIN)
    assert ran.stdout.split()[0] == "numpy"
    assert ran.stderr.count("NumPy kernels") == 1
    assert "pip install llvmlite" in ran.stderr


def test_a_platform_that_fails_the_self_test_falls_back_and_says_so_once():
    pytest.importorskip("llvmlite")
    broken = """
from extempo.backends.llvm import native
native.Native._test_itself = lambda self: (_ for _ in ()).throw(RuntimeError("2 + 2 is 5"))
"""
    ran = python(broken + TRAIN)
    assert ran.stdout.split()[0] == "numpy"
    assert ran.stderr.count("self-test") == 1
    assert "2 + 2 is 5" in ran.stderr


def test_stats_count_the_ops_that_had_no_native_kernel():
    if ex.backends.stats()["backend"] == "numpy":
        pytest.skip("the native backend is off")
    before = ex.backends.stats()["fallbacks"].get("special_bessel_j0", 0)
    ex.special.bessel_j0(ex.ones(3))
    assert ex.backends.stats()["fallbacks"]["special_bessel_j0"] == before + 1
