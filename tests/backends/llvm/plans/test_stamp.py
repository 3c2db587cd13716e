"""Kernels are found on disk by what they were made from, and never where that could have changed."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.elementwise import kernels
from extempo.backends.llvm.ir import sources
from extempo.backends.llvm.ir.machine import machine
from extempo.backends.llvm.plans import clusters, expressions, stamp
from extempo.backends.llvm.plans.clusters import ClusterKernel, cluster_kernel, known_kernel
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32, float64

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

SINGLE = TensorType((3,), float32)


@pytest.fixture(autouse=True)
def sure(monkeypatch):
    """Files count as older than this process, however recently they were edited."""
    monkeypatch.setattr(sources, "_loaded_at", [time.time() + 1e6])
    monkeypatch.setattr(sources, "_digests", {})
    monkeypatch.setattr(clusters, "_writers", [])
    monkeypatch.setattr(expressions, "_OF_OPS", type(expressions._OF_OPS)("ops in a test", 100))
    monkeypatch.setattr(expressions, "_OF_KERNELS", type(expressions._OF_KERNELS)("kernels in a test", 100))


def kernel_of(name, kinds=(SINGLE,), attrs=None):
    expression = expressions.of_op(REGISTRY[name], kinds, attrs or {})
    return ClusterKernel(((expression, tuple(range(len(kinds)))),), expression.inputs, (0,), "1" * len(kinds))


def forget(monkeypatch):
    """As in a new process."""
    monkeypatch.setattr(machine(), "_libraries", {})
    monkeypatch.setattr(clusters, "_CLUSTERS", type(clusters._CLUSTERS)("clusters in a test", 100))


def test_a_later_process_finds_a_kernel_without_writing_it(monkeypatch, no_kernels_on_disk):
    forget(monkeypatch)
    assert known_kernel(kernel_of("atan2", (SINGLE, SINGLE))) is None
    cluster_kernel(kernel_of("atan2", (SINGLE, SINGLE)))
    forget(monkeypatch)

    def write(*args):
        raise AssertionError("it is on disk")

    monkeypatch.setattr(clusters, "_written", write)
    assert known_kernel(kernel_of("atan2", (SINGLE, SINGLE)))
    assert cluster_kernel(kernel_of("atan2", (SINGLE, SINGLE)))


def test_different_kernels_have_different_texts():
    double = TensorType((3,), float64)
    made = [
        kernel_of("add", (SINGLE, SINGLE)),
        kernel_of("add", (SINGLE, float)),
        kernel_of("add", (SINGLE, int)),
        kernel_of("add", (double, double)),
        kernel_of("mul", (SINGLE, SINGLE)),
        kernel_of("add", (SINGLE, SINGLE))._replace(kinds="10"),
        kernel_of("neg"),
        kernel_of("abs"),
    ]
    texts = [clusters._identity(kernel) for kernel in made]
    assert None not in texts
    assert len(set(texts)) == len(made)


def test_every_op_that_is_native_has_a_text():
    ops = [op for op in REGISTRY.values() if kernels.lowered(op) and op.__module__.startswith("extempo.")]
    assert [op.name for op in ops if stamp.identity_of(op) is None] == []


def test_an_op_that_was_changed_or_is_defined_elsewhere_has_none(monkeypatch):
    monkeypatch.setattr(REGISTRY["neg"], "lower", staticmethod(lambda e, x: e.abs(x)))
    assert stamp.identity_of(REGISTRY["neg"]) is None
    assert clusters._identity(kernel_of("neg")) is None
    monkeypatch.setattr(REGISTRY["abs"], "__module__", __name__)
    assert stamp.identity_of(REGISTRY["abs"]) is None


def test_without_sources_there_is_no_text(monkeypatch, tmp_path):
    assert stamp.writers() is not None
    monkeypatch.setattr(sources, "PACKAGE", tmp_path)
    assert stamp.writers() is None
    assert clusters._identity(kernel_of("neg")) is None
