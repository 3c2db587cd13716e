"""Looking, again and again, where a program stands."""

from __future__ import annotations

import time

import extempo as ex
from extempo.profiling import sites
from extempo.profiling.sampling import Sample, Sampler, _phase, tree_of

CODE = (lambda: None).__code__


def test_a_sampler_sees_the_lines_of_the_thread_that_made_it():
    sampler = Sampler(0.001)
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end:
        pass
    sampler.stop()
    assert sampler.samples
    names = {code.co_name for sample in sampler.samples for code, _ in sample.frames}
    assert "test_a_sampler_sees_the_lines_of_the_thread_that_made_it" in names


def test_a_sample_counts_for_the_time_since_the_one_before():
    samples = [Sample(10, ((CODE, 0),), sites.PYTHON), Sample(90, ((CODE, 0),), sites.BACKWARD_PHASE)]
    tree = tree_of(samples, 0, 100)
    own = {node.stage: node.own for node in tree.walk() if node.own}
    assert own == {sites.PYTHON: 10, sites.BACKWARD_PHASE: 90}


def test_without_samples_nothing_is_known():
    tree = tree_of([], 0, 100)
    assert (tree.own, tree.total) == (100, 100)


def test_extempos_own_frames_say_the_phase():
    assert _phase(["extempo.optim.adam"], []) == sites.OPTIMIZER_PHASE
    assert _phase(["extempo.scheduling.fusion", "extempo.autograd.api"], []) == sites.PLANNING_PHASE
    assert _phase(["extempo.dispatch.dispatcher"], []) == sites.DISPATCH
    assert _phase([], []) == sites.PYTHON


def test_a_sampled_program_may_be_anything():
    with ex.profile(mode="sample") as prof:
        exec("for _ in range(100000): pass", {})
    assert prof.seconds > 0
