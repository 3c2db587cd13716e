"""A result never depends on history: cold or warm, watched or not, in any thread, programs give the same bits."""

import os
import pickle
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("llvmlite")

import extempo as ex
from extempo import short_path
from extempo.backends.choice import native
from extempo.kernel import CACHES
from extempo.op import REGISTRY, Refuse
from extempo.running import apply

from . import programs

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def examples(n):
    # The same programs in every run; the time of one depends on how many kernels it needs.
    return settings(max_examples=n, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def forget():
    """As if nothing had run yet: no signature, kernel, gradient or launch is known."""
    for cache in CACHES.values():
        cache.clear()
    for short in short_path._shorts:
        short.load(short_path._launcher[0])


@examples(80)
@given(programs.programs())
def test_the_first_run_and_later_ones_give_the_same_bits(program):
    forget()
    cold = programs.outcome(program)
    for _ in range(3):
        assert programs.outcome(program) == cold


@examples(80)
@given(programs.programs())
def test_however_backward_is_watched_the_bits_are_the_same(program):
    made, gradients, refused = programs.outcome(program)
    for way in programs.WAYS[1:]:
        other = programs.outcome(program, way)
        assert other[0] == made, way
        assert other[1] == gradients, way
        assert other[2] == refused, way


@examples(40)
@given(programs.programs())
def test_a_watched_first_run_changes_nothing_for_later_ones(program):
    forget()
    cold = programs.outcome(program, "create_graph")
    for way in ("plain", "hooks", "plain"):
        assert programs.outcome(program, way) == cold, way


@examples(40)
@given(programs.programs())
def test_another_thread_gives_the_same_bits(program):
    forget()
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(programs.outcome(program))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [programs.outcome(program)] * 3


def sample_outcome(op, sample, dtype, way):
    """Bits of the results of one call of an op and of its gradients."""
    ex.manual_seed(0)
    differentiable = not isinstance(op.vjp, Refuse)
    inputs = []
    for value in sample.inputs:
        if isinstance(value, np.ndarray):
            floating = value.dtype.kind == "f"
            value = ex.tensor(value, dtype=dtype if floating else None, requires_grad=floating and differentiable)
        inputs.append(value)
    results = apply(op, tuple(inputs), sample.attrs)
    results = results if isinstance(results, tuple) else (results,)
    roots = [r for r in results if r.requires_grad]
    leaves = [x for x in inputs if isinstance(x, ex.Tensor) and x.requires_grad]
    rng = np.random.default_rng(1)
    incoming = [ex.tensor(rng.normal(size=tuple(r.shape)), dtype=r.dtype) for r in roots]
    gradients = []
    if way == "hooks":
        for t in (*roots, *leaves):
            t.register_hook(lambda g: None)
    if roots and way == "grad":
        gradients = ex.autograd.grad(roots, leaves, incoming, allow_unused=True)
    elif roots:
        ex.autograd.backward(roots, incoming, create_graph=way == "create_graph")
        gradients = [x.grad for x in leaves]
    return [programs.bits(t) for t in (*results, *gradients)]


@pytest.mark.parametrize("dtype", [ex.float32, ex.float64], ids=str)
def test_every_op_gives_the_same_bits_in_every_way(dtype):
    for op in REGISTRY.values():
        for sample in () if isinstance(op.samples, Refuse) else op.samples(np.random.default_rng(0)):
            forget()
            cold = sample_outcome(op, sample, dtype, "plain")
            for way in ("plain", "hooks", "create_graph", "grad"):
                assert sample_outcome(op, sample, dtype, way) == cold, (op.name, sample, way)


@pytest.fixture(scope="module")
def oracle():
    """`numbers` of a program, computed in a process that runs NumPy's kernels."""
    environment = dict(os.environ, EXTEMPO_BACKEND="numpy")
    script = Path(programs.__file__)
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=script.parent
    ) as process:

        def ask(program):
            question = pickle.dumps(program)
            process.stdin.write(struct.pack("<q", len(question)) + question)
            process.stdin.flush()
            return pickle.loads(process.stdout.read(struct.unpack("<q", process.stdout.read(8))[0]))

        yield ask
        process.stdin.close()


@examples(100)
@given(program=programs.programs())
def test_numpys_kernels_agree_up_to_rounding(oracle, program):
    arrays, refused = programs.numbers(program)
    expected, expected_refused = oracle(program)
    assert refused == expected_refused
    assert len(arrays) == len(expected)
    for got, want in zip(arrays, expected, strict=True):
        assert (got is None) == (want is None)
        if got is not None:
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4 * scale)
