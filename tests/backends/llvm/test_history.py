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
from extempo.backends.entry_points import FAST_OP, OPERATOR
from extempo.backends.selection import native
from extempo.core.cache import CACHES
from extempo.core.op import REGISTRY, Refuse
from extempo.dispatch.dispatcher import apply

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
    for op in REGISTRY.values():
        op._save_plans.clear()
    for entry_point in (FAST_OP, OPERATOR):
        for binding in entry_point.bindings:
            binding.renew()


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


def test_a_reshaped_view_has_the_same_strides_from_the_first_time_on():
    sources = [lambda x: x[:1], lambda x: x[:1].T, lambda x: x[:, :1], lambda x: x[1:2]]
    for source in sources:
        for shape in [(5, 1), (1, 5), (5,), (5, 1, 1), (1, 1, 5), (1, 5, 1)]:
            forget()
            strides = []
            for tracked in (True, True, True, False, False):
                x = ex.ones(5, 5, requires_grad=tracked)
                strides.append(source(x).reshape(shape).detach().numpy().strides)
            assert len(set(strides)) == 1, (source(x).stride(), shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_summed", [1, 5, 40])
def test_the_stride_of_a_single_row_or_column_changes_no_product(dtype, n_summed):
    """It says nothing about where elements lie, and views come by it in several ways."""
    rng = np.random.default_rng(0)
    for n_rows, n_columns in [(1, 1), (1, 3), (3, 1), (9, 1), (1, 40), (9, 40)]:
        a, b = (rng.normal(size=s).astype(dtype) for s in ((n_rows, n_summed), (n_summed, n_columns)))
        seen = set()
        for step in (None, 1, 77):
            for x, y in ((with_ones(a, step), b), (a, with_ones(b, step)), (with_ones(a, step), with_ones(b, step))):
                product = ex.compile(lambda x=x, y=y: ex.from_numpy(x) @ ex.from_numpy(y))
                seen |= {product().numpy().tobytes() for _ in range(3)}
        assert len(seen) == 1, (n_rows, n_columns)


def with_ones(x, step):
    """The array with that stride, in elements, in its dimensions of size 1."""
    dims = zip(x.shape, x.strides, strict=True)
    strides = [stride if size > 1 or step is None else step * x.itemsize for size, stride in dims]
    return np.lib.stride_tricks.as_strided(x, x.shape, strides)


def test_the_first_einsum_with_gradients_has_the_bits_of_later_ones():
    for seed in range(8):
        values = np.random.default_rng(seed).normal(size=(1, 5))

        def weighted(tracked, values=values):
            y = ex.tensor(values, requires_grad=tracked)
            return ex.einsum("ij,kj->ik", y.softmax(-1), y).detach().numpy().tobytes()

        forget()
        compiled = ex.compile(weighted)
        seen = [function(tracked) for function in (weighted, compiled) for tracked in (True, False) for _ in range(4)]
        assert len(set(seen)) == 1


def test_an_odd_address_changes_no_bits():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 40)), rng.normal(size=(7, 40))
    odd = []
    for x in (a, b):
        odd.append(np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape))
        odd[-1][...] = x
    assert not odd[0].flags.aligned
    expected, found = (ex.from_numpy(x) @ ex.from_numpy(y).T for x, y in ((a, b), odd))
    assert found.numpy().tobytes() == expected.numpy().tobytes()


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
