"""Generators: seeds, states, threads."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest

import extempo as ex
from extempo.errors import DtypeError, UnsupportedError


def test_a_new_generator_starts_where_pytorchs_does():
    generator = ex.Generator()
    assert generator.initial_seed() == 67280421310721
    assert generator.device == ex.device("cpu")
    with pytest.raises(UnsupportedError, match="Generator: Extempo runs on the CPU"):
        ex.Generator(device="cuda")


def test_manual_seed_returns_the_generator_and_takes_64_bits():
    assert ex.manual_seed(7) is ex.default_generator
    assert ex.initial_seed() == 7
    assert ex.manual_seed(-1).initial_seed() == 2**64 - 1
    assert ex.manual_seed(2**64 - 1).initial_seed() == 2**64 - 1
    for bad in (2**64, -(2**63) - 1, 1.5, "a"):
        with pytest.raises(DtypeError, match="manual_seed"):
            ex.manual_seed(bad)


def test_seed_is_never_the_same_and_says_what_it_took():
    taken = ex.seed()
    assert taken == ex.initial_seed()
    first = ex.rand(3).tolist()
    assert ex.seed() != taken
    ex.manual_seed(taken)
    assert ex.rand(3).tolist() == first


def test_a_state_is_a_uint8_tensor_that_brings_the_stream_back():
    ex.manual_seed(5)
    ex.rand(3)
    state = ex.get_rng_state()
    assert state.dtype is ex.uint8
    expected = ex.randn(4).tolist()
    ex.manual_seed(6)
    ex.set_rng_state(state)
    assert ex.randn(4).tolist() == expected
    assert ex.initial_seed() == 5
    for bad in (ex.zeros(5056, dtype=ex.uint8), ex.zeros(3), None):
        with pytest.raises(DtypeError, match="set_state"):
            ex.set_rng_state(bad)


def test_copies_of_a_generator_continue_from_the_same_place():
    generator = ex.Generator().manual_seed(11)
    ex.rand(2, generator=generator)
    copies = [generator.clone_state(), copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    expected = ex.rand(2, generator=generator).tolist()
    for other in copies:
        assert ex.rand(2, generator=other).tolist() == expected


def test_fork_rng_leaves_the_stream_outside_alone():
    ex.manual_seed(1)
    expected = ex.rand(3).tolist()
    ex.manual_seed(1)
    with ex.random.fork_rng():
        ex.manual_seed(2)
        ex.rand(10)
    assert ex.rand(3).tolist() == expected
    ex.manual_seed(1)
    with pytest.raises(DtypeError), ex.random.fork_rng(devices=[]):
        ex.rand(10) + ex.rand("a")
    assert ex.rand(3).tolist() == expected
    ex.manual_seed(1)
    with ex.random.fork_rng(enabled=False):
        ex.rand(10)
    assert ex.rand(3).tolist() != expected


def test_the_module_has_pytorchs_names():
    for name in ("manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "default_generator"):
        assert getattr(ex.random, name) is getattr(ex, name)


def test_threads_never_get_the_same_draw_number():
    generator = ex.Generator().manual_seed(0)
    taken: list[tuple[int, int]] = []

    def work() -> None:
        mine = [generator.take() for _ in range(2000)]
        taken.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(draw for _, draw in taken) == list(range(8000))
