"""Generators: seeds, states, threads."""

from __future__ import annotations

import contextvars
import copy
import gc
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


@pytest.mark.alone
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


def test_the_generator_of_a_block_serves_calls_that_name_none_in_this_context_alone():
    generator, inner = ex.Generator().manual_seed(3), ex.Generator().manual_seed(4)
    seen = []
    with ex.random.use_generator(generator) as entered:
        assert entered is ex.random.current_generator() is generator
        drawn = ex.rand(3).tolist()
        with pytest.raises(DtypeError), ex.random.use_generator(inner):
            ex.manual_seed(ex.manual_seed(5))
        assert ex.random.current_generator() is generator
        for context in (contextvars.Context(), contextvars.copy_context()):
            seen.append(context.run(ex.random.current_generator))
        thread = threading.Thread(target=lambda: seen.append(ex.random.current_generator()))
        thread.start()
        thread.join()
    assert seen == [ex.default_generator, generator, ex.default_generator]
    assert ex.random.current_generator() is ex.default_generator
    assert inner.initial_seed() == 5
    assert drawn == ex.rand(3, generator=generator.manual_seed(3)).tolist()


def test_a_generator_may_be_set_for_the_rest_of_a_context():
    def sample() -> ex.random.Generator:
        ex.random.use_generator(generator).__enter__()
        gc.collect()
        return ex.random.current_generator()

    generator = ex.Generator()
    assert contextvars.copy_context().run(sample) is generator
    assert ex.random.current_generator() is ex.default_generator


def test_every_sample_of_every_batch_has_a_stream_of_its_own():
    seeds = {}
    for seed in (0, 1, 2, 2**63, 2**64 - 1):
        parent = ex.Generator().manual_seed(seed)
        for call in range(20):
            for sample in range(50):
                made = ex.random.sample_generator(parent, call, sample)
                seeds[seed, call, sample] = made.initial_seed()
                assert made.take() == (made.initial_seed(), 0)
        assert parent.take() == (seed, 0), "asking for generators draws nothing"
    assert len({*seeds.values(), 0, 1, 2, 2**63, 2**64 - 1}) == len(seeds) + 5
    again = ex.random.sample_generator(ex.Generator().manual_seed(1), 7, 9)
    copies = [again.clone_state(), copy.deepcopy(again), pickle.loads(pickle.dumps(again))]
    assert [g.initial_seed() for g in (again, *copies)] == [seeds[1, 7, 9]] * 4
    assert again.manual_seed(3).take() == (3, 0)
    bits = [bin(a ^ seeds[s, c, (i + 1) % 50]).count("1") for (s, c, i), a in seeds.items()]
    assert 31.5 < sum(bits) / len(bits) < 32.5, "seeds of neighbours differ in half of their bits"


def test_batches_are_counted_from_the_seed_on_and_the_count_is_part_of_the_state():
    generator = ex.Generator().manual_seed(1)
    assert [generator.next_batch() for _ in range(3)] == [0, 1, 2]
    state = generator.get_state()
    copies = [generator.clone_state(), copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    assert [generator.next_batch(), *(other.next_batch() for other in copies)] == [3, 3, 3, 3]
    generator.set_state(state)
    assert generator.next_batch() == 3
    assert generator.take() == (1, 0)
    assert generator.manual_seed(1).next_batch() == 0


def test_a_state_from_before_batches_were_counted_is_read():
    old = ex.tensor([*b"philox10", 5, *[0] * 7, 9, *[0] * 7], dtype=ex.uint8)
    generator = ex.Generator()
    generator.next_batch()
    generator.set_state(old)
    assert generator.take() == (5, 9)
    assert generator.next_batch() == 0
