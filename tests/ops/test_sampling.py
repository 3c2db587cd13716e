"""Random tensors: one draw number a call, the right distributions, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.graph_interpreter import Interpreter
from extempo.dispatch.dispatcher import apply
from extempo.dispatch.graph_tracer import trace_graph
from extempo.errors import DtypeError, NumericalError, ShapeError
from extempo.ops.draws import RandomNormal

N = 20_000


@pytest.fixture(autouse=True)
def _seeded():
    ex.manual_seed(0)


CALLS = {
    "rand": lambda n: ex.rand(n),
    "randn": lambda n: ex.randn(n),
    "randint": lambda n: ex.randint(9, (n,)),
    "randperm": lambda n: ex.randperm(n),
    "rand_like": lambda n: ex.rand_like(ex.zeros(n)),
    "randn_like": lambda n: ex.randn_like(ex.zeros(n)),
    "randint_like": lambda n: ex.randint_like(ex.zeros(n), 9),
    "normal": lambda n: ex.normal(0.0, 1.0, (n,)),
    "normal of tensors": lambda n: ex.normal(ex.zeros(n), ex.ones(n)),
    "bernoulli": lambda n: ex.bernoulli(ex.full((n,), 0.5)),
    "bernoulli p": lambda n: ex.zeros(n).bernoulli(0.5),
    "multinomial": lambda n: ex.multinomial(ex.ones(n), 1),
    "poisson": lambda n: ex.poisson(ex.ones(n)),
    "uniform_": lambda n: ex.zeros(n).uniform_(),
    "normal_": lambda n: ex.zeros(n).normal_(),
    "log_normal_": lambda n: ex.zeros(n).log_normal_(),
    "exponential_": lambda n: ex.zeros(n).exponential_(),
    "cauchy_": lambda n: ex.zeros(n).cauchy_(),
    "geometric_": lambda n: ex.zeros(n).geometric_(0.5),
    "bernoulli_": lambda n: ex.zeros(n).bernoulli_(),
    "bernoulli_ of a tensor": lambda n: ex.zeros(n).bernoulli_(ex.full((n,), 0.5)),
    "random_": lambda n: ex.zeros(n).random_(9),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_takes_one_draw_number_whatever_its_size(name):
    ex.rand(1)
    expected = ex.rand(5)
    for size in (1, 3, 1000):
        ex.manual_seed(0)
        CALLS[name](size)
        assert ex.rand(5).tolist() == expected.tolist()


@pytest.mark.parametrize("name", CALLS)
def test_the_same_seed_draws_the_same(name):
    first = CALLS[name](50)
    ex.manual_seed(0)
    assert CALLS[name](50).tolist() == first.tolist()


@pytest.mark.parametrize("name", ["rand", "randn", "randint", "normal", "poisson", "exponential_"])
def test_a_short_draw_is_the_beginning_of_a_long_one(name):
    short = CALLS[name](7)
    ex.manual_seed(0)
    assert CALLS[name](1000)[:7].tolist() == short.tolist()


def test_a_generator_is_a_stream_of_its_own():
    generator = ex.Generator().manual_seed(3)
    first = ex.randn(4, generator=generator)
    ex.rand(100)
    second = ex.randn(4, generator=generator)
    generator.manual_seed(3)
    ex.manual_seed(99)
    assert ex.randn(4, generator=generator).tolist() == first.tolist()
    assert ex.zeros(4).normal_(generator=generator).tolist() == second.tolist()
    with pytest.raises(DtypeError, match=r"expected an ex\.Generator"):
        ex.rand(2, generator=3)


def test_normal_takes_tensors_and_numbers_in_all_four_forms():
    mean, std = ex.tensor([0.0, 100.0]), ex.tensor([[1.0], [0.0]])
    both = ex.normal(mean, std)
    assert both.shape == (2, 2)
    assert both[1].tolist() == [0, 100]
    assert ex.normal(mean, 0.0).tolist() == [0, 100]
    assert ex.normal(mean).shape == (2,)
    assert ex.normal(2.0, ex.zeros(3)).tolist() == [2, 2, 2]
    assert ex.normal(0, 1, (2, 3), dtype=ex.float64).dtype is ex.float64
    assert ex.normal(ex.zeros(2, dtype=ex.float64), ex.ones(2)).dtype is ex.float64
    out = ex.zeros(2)
    assert ex.normal(mean, 1.0, out=out) is out
    with pytest.raises(NumericalError, match="std must not be negative"):
        ex.normal(mean, -1.0)
    with pytest.raises(NumericalError, match="std must not be negative"):
        ex.normal(0.0, -1.0, (2,))
    with pytest.raises(DtypeError, match="continuous"):
        ex.normal(ex.zeros(2, dtype=ex.int64), 1.0)
    with pytest.raises(DtypeError, match="leave size"):
        ex.normal(mean, std, (2,))
    with pytest.raises(DtypeError, match="size="):
        ex.normal(0.0, 1.0)


def test_randint_draws_every_number_of_its_range_and_no_other():
    drawn = ex.randint(-2, 3, (500,))
    assert drawn.dtype is ex.int64
    assert set(drawn.tolist()) == {-2, -1, 0, 1, 2}
    assert ex.randint(low=2, high=3, size=(2,)).tolist() == [2, 2]
    assert ex.randint(1, size=(2,)).tolist() == [0, 0]
    assert ex.randint(5, (2,), dtype=ex.float32).dtype is ex.float32
    assert set(ex.randint_like(ex.zeros(100, dtype=ex.uint8), 254, 256).tolist()) == {254, 255}
    with pytest.raises(NumericalError, match="low must be less than high"):
        ex.randint(5, 5, (2,))
    with pytest.raises(DtypeError, match="holds whole numbers from 0 to 255"):
        ex.randint(300, (2,), dtype=ex.uint8)
    with pytest.raises(DtypeError, match="must be ints"):
        ex.randint(2.5, (2,))
    with pytest.raises(DtypeError, match=r"randint\(high, size\)"):
        ex.randint(5)


def test_random_fills_with_all_that_a_dtype_holds():
    assert set(ex.empty(50, dtype=ex.bool).random_().tolist()) == {True, False}
    assert ex.empty(500, dtype=ex.int8).random_().min().item() >= 0
    assert ex.empty(500, dtype=ex.int8).random_().max().item() > 100
    assert ex.empty(500, dtype=ex.bfloat16).random_().max().item() <= 256
    assert set(ex.empty(100).random_(3).tolist()) == {0, 1, 2}
    assert set(ex.empty(100).random_(5, 7).tolist()) == {5, 6}
    assert ex.empty(3, dtype=ex.int64).random_(-(2**62), 2**62).abs().max().item() > 2**32


def test_randperm_holds_each_number_once():
    assert sorted(ex.randperm(100).tolist()) == list(range(100))
    assert ex.randperm(0).shape == (0,)
    assert ex.randperm(5, dtype=ex.int32).dtype is ex.int32
    with pytest.raises(DtypeError, match="cannot hold"):
        ex.randperm(300, dtype=ex.uint8)
    with pytest.raises(ShapeError, match="negative"):
        ex.randperm(-1)


def test_multinomial_draws_in_proportion_and_never_a_weight_of_zero():
    weights = ex.tensor([1.0, 0.0, 3.0])
    drawn = ex.multinomial(weights, N, replacement=True)
    counts = np.bincount(drawn.numpy(), minlength=3) / N
    np.testing.assert_allclose(counts, [0.25, 0, 0.75], atol=0.02)
    assert sorted(ex.multinomial(ex.ones(4), 4).tolist()) == [0, 1, 2, 3]
    assert ex.multinomial(ex.ones(2, 5), 3).shape == (2, 3)
    for bad, error, text in [
        (ex.zeros(2), NumericalError, "all 0"),
        (ex.tensor([-1.0, 2.0]), NumericalError, "not negative"),
        (ex.tensor([float("inf"), 2.0]), NumericalError, "finite"),
        (ex.ones(2, 2, 2), ShapeError, "expected weights of shape"),
        (ex.tensor([1, 2]), DtypeError, "floating weights"),
    ]:
        with pytest.raises(error, match=text):
            ex.multinomial(bad, 1)
    with pytest.raises(ShapeError, match="replacement=True"):
        ex.multinomial(ex.ones(2), 3)
    with pytest.raises(ShapeError, match="at least one sample"):
        ex.multinomial(ex.ones(2), 0)


def test_continuous_distributions_refuse_integers():
    whole = ex.zeros(3, dtype=ex.int64)
    for fill in (
        whole.uniform_,
        whole.normal_,
        whole.exponential_,
        whole.cauchy_,
        whole.log_normal_,
        lambda: ex.rand_like(whole),
        lambda: ex.rand(2, dtype=ex.int64),
        lambda: ex.poisson(whole),
    ):
        with pytest.raises(DtypeError, match="continuous"):
            fill()
    assert whole.geometric_(0.5).dtype is ex.int64


def test_parameters_outside_their_range_are_refused():
    x = ex.zeros(3)
    for call in (
        lambda: x.uniform_(2, 1),
        lambda: x.normal_(std=-1),
        lambda: x.exponential_(0),
        lambda: x.cauchy_(0, 0),
        lambda: x.geometric_(0.0),
        lambda: x.geometric_(1.0),
        lambda: x.log_normal_(0, -1),
        lambda: ex.poisson(ex.tensor([-1.0])),
    ):
        with pytest.raises(NumericalError):
            call()
    assert x.tolist() == [0, 0, 0]


def test_keyword_from_of_pytorch_is_understood():
    assert ex.zeros(3).uniform_(**{"from": 2, "to": 3}).min().item() >= 2
    assert ex.zeros(3).random_(**{"from": 2, "to": 3}).tolist() == [2, 2, 2]
    with pytest.raises(DtypeError, match="unknown arguments"):
        ex.zeros(3).uniform_(high=3)


def test_an_in_place_draw_is_a_write_like_any_other():
    x = ex.zeros(4)
    before = x._version
    assert x[:2].uniform_(1, 2) is not None
    assert x._version == before + 1
    assert (x[:2] >= 1).all().item()
    assert x[2:].tolist() == [0, 0]


def test_empty_and_zero_dim_draws():
    for name, call in CALLS.items():
        if name != "multinomial":
            assert call(0).shape == (0,)
    assert ex.rand(()).shape == ()
    assert ex.randint(3, ()).shape == ()
    assert ex.bernoulli(ex.tensor(0.5)).shape == ()


def test_a_recording_replays_with_other_draw_numbers():
    def draw(seed, number):
        return apply(RandomNormal, (seed, number), {"shape": (3,), "dtype": ex.float64}) * 2.0

    graph, _, _ = trace_graph(draw, (int, int))
    leaves = graph.inputs
    for seed, number in [(1, 2), (1, 3), (7, 2)]:
        (replayed,) = Interpreter(graph).run({leaves[0]: seed, leaves[1]: number})
        np.testing.assert_array_equal(replayed, draw(seed, number).numpy())
