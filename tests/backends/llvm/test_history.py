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

from extempo import short_path
from extempo.backends.choice import native
from extempo.kernel import CACHES

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


@examples(120)
@given(programs.programs())
def test_the_first_run_and_later_ones_give_the_same_bits(program):
    forget()
    cold = programs.outcome(program)
    for _ in range(3):
        assert programs.outcome(program) == cold


@examples(120)
@given(programs.programs())
def test_however_backward_is_watched_the_bits_are_the_same(program):
    made, gradients, refused = programs.outcome(program)
    for way in programs.WAYS[1:]:
        other = programs.outcome(program, way)
        assert other[0] == made, way
        assert other[1] == gradients, way
        assert other[2] == refused, way


@examples(60)
@given(programs.programs())
def test_a_watched_first_run_changes_nothing_for_later_ones(program):
    forget()
    cold = programs.outcome(program, "create_graph")
    for way in ("plain", "hooks", "plain"):
        assert programs.outcome(program, way) == cold, way


@examples(60)
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


@examples(150)
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
            tolerance = 2e-4 if got.dtype == np.float32 else 2e-4
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale)
