"""A structure that was met at some sizes runs as a plan at others that are new: with eager mode's bits."""

from __future__ import annotations

import random

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F
from extempo.scheduling import affine_instructions, size_ranges
from extempo.tracing import dynamic_shapes
from extempo.tracing.compiled_function import CompiledFunction

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")
pytestmark = pytest.mark.skipif(ex.backends.selection.native() is None, reason="the native backend does not run here")


@pytest.fixture(autouse=True)
def plans_at_once(monkeypatch):
    """Nothing is run eagerly to save the price of recording."""
    monkeypatch.setattr(CompiledFunction, "_may_plan", lambda self, flush, n_steps, is_range=False, is_loop=False: True)
    ex.compile.clear()


def drawn(first, last, n, seed=0):
    sizes = list(range(first, last))
    random.Random(seed).shuffle(sizes)
    return sizes[:n]


def same_bits(make, inputs, sizes, at_least):
    """`make()`: a step and its parameters. Both see the same inputs; at least so many sizes were like others."""
    step, weights = make()
    other, others = make()
    compiled = ex.compile(other)
    before = ex.compile.stats()
    for n in sizes:
        given = inputs(n)
        want, got = step(*given), compiled(*given)
        for a, b in zip(_flat(want), _flat(got), strict=True):
            assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes(), n
        for a, b in zip(weights, others, strict=True):
            assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes(), n
    stats = ex.compile.stats()
    runs, plans = (stats[name] - before[name] for name in ("runs", "plans"))
    assert runs - plans >= at_least, (runs, plans)


def _flat(results):
    return results if isinstance(results, tuple) else (results,)


def trained(model, loss_of):
    weights = list(model.parameters())
    optimizer = optim.SGD(weights, lr=0.01)

    def step(*given):
        loss = loss_of(model, *given)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, weights


def mlp():
    ex.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 5))
    return trained(model, lambda m, x, y: F.cross_entropy(m(x), y))


@pytest.mark.parametrize(("first", "last"), [(9, 130), (300, 500), (1000, 1100), (4000, 4100)])
def test_a_training_step_of_batches_of_any_size(first, last):
    def inputs(n):
        return ex.randn(n, 12), ex.randint(0, 5, (n,))

    same_bits(mlp, inputs, drawn(first, last, 70), at_least=25)


def test_sizes_that_something_else_has_too():
    def inputs(n):
        return ex.randn(n, 12), ex.randint(0, 5, (n,))

    sizes = [*drawn(17, 32, 15), 24, 12, 5, 1, 2, 24, 12, *drawn(33, 64, 25), 32, 16, 64, 24]
    same_bits(mlp, inputs, sizes, at_least=15)


def test_sizes_that_come_back():
    def inputs(n):
        return ex.randn(n, 12), ex.randint(0, 5, (n,))

    same_bits(mlp, inputs, drawn(65, 128, 40) * 3, at_least=90)


def test_a_mean_and_a_layer_norm():
    def make():
        ex.manual_seed(0)
        model = nn.Sequential(nn.Linear(7, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
        return trained(model, lambda m, x: (m(x) ** 2).mean())

    same_bits(make, lambda n: (ex.randn(n, 7),), drawn(65, 128, 40), at_least=15)


def test_lengths_in_the_middle():
    def make():
        ex.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Softmax(dim=1), nn.Linear(16, 8))
        return trained(model, lambda m, x: (m(x).transpose(1, 2) @ x).exp().sum())

    same_bits(make, lambda n: (ex.randn(3, n, 8),), drawn(65, 128, 40), at_least=15)


@pytest.mark.parametrize("much", [1 << 10, 1 << 30])
def test_attention_over_rows_takes_numbers_and_scratch_memory(monkeypatch, much):
    """`much`: from how much on scratch memory has a place among the values."""
    monkeypatch.setattr(affine_instructions, "MUCH_SCRATCH", much)
    draws = random.Random(1)

    def make():
        ex.manual_seed(0)
        model = nn.MultiheadAttention(16, 2, batch_first=True)

        def loss_of(m, x):
            y = m(x, x, x, need_weights=False)[0]
            return (m(y, y, y, need_weights=False)[0] ** 2).mean()

        return trained(model, loss_of)

    def inputs(n):
        first = draws.randint(1, n // 2)
        return (ex.ragged_from_values(ex.randn(n, 16), [first, n - first - 3, 0, 3]),)

    same_bits(make, inputs, drawn(65, 128, 40), at_least=15)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_ragged_sequences_whose_lengths_never_repeat(layer):
    """The longest of them changes with the number of elements, but on its own."""
    draws = random.Random(2)

    def make():
        ex.manual_seed(0)
        return trained(layer(5, 6, bidirectional=True), lambda m, x: (m(x)[0].values() ** 2).sum())

    def inputs(n):
        longest = draws.randint(33, min(60, n - 3))
        return (ex.ragged_from_values(ex.randn(n, 5), [n - longest - 3, longest, 0, 3]),)

    same_bits(make, inputs, drawn(67, 96, 29), at_least=15)


@pytest.mark.parametrize("most_waste", [0, 1 << 12, 1 << 40])
def test_ranges_are_parted_where_memory_would_be_wasted(monkeypatch, most_waste):
    monkeypatch.setattr(size_ranges, "MOST_WASTE", most_waste)
    sizes = drawn(257, 512, 70)
    same_bits(
        mlp, lambda n: (ex.randn(n, 12), ex.randint(0, 5, (n,))), sizes, at_least=50 if most_waste > 1 << 12 else 0
    )


def test_an_embedding_and_positions():
    def make():
        ex.manual_seed(0)
        words, head = nn.Embedding(50, 16), nn.Linear(16, 50)
        positions = nn.Parameter(ex.randn(200, 16))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.head, self.positions = words, head, positions

            def forward(self, x):
                return self.head(self.words(x) + self.positions[: x.shape[1]])

        def loss_of(m, x):
            return F.cross_entropy(m(x).reshape(-1, 50), x.reshape(-1))

        return trained(Model(), loss_of)

    same_bits(make, lambda n: (ex.randint(0, 50, (4, n)),), drawn(65, 128, 40), at_least=0)


def test_values_that_are_read_on_the_way():
    def make():
        ex.manual_seed(0)
        w = ex.randn(6, 6, requires_grad=True)

        def step(x):
            y = (x @ w).relu()
            factor = 2.0 if y.sum().item() > 0 else 3.0
            z = (y * factor).sum(dim=0)
            (g,) = ex.autograd.grad(z.sum(), [w])
            return y.detach(), z.detach(), g

        return step, [w]

    same_bits(make, lambda n: (ex.randn(n, 6),), drawn(65, 128, 40), at_least=30)


def test_two_sizes_that_change_on_their_own():
    def make():
        ex.manual_seed(0)
        w = ex.randn(6, 6, requires_grad=True)

        def step(x, y):
            z = (x @ w).sum() + (y @ w).exp().mean()
            z.backward()
            g, w.grad = w.grad, None
            return z.detach(), g

        return step, [w]

    sizes = iter(drawn(9, 200, 100, seed=1))
    same_bits(make, lambda n: (ex.randn(n, 6), ex.randn(next(sizes), 6)), drawn(65, 128, 30), at_least=0)


def test_an_error_at_a_new_size_is_the_same():
    w = ex.randn(30, 4)

    @ex.compile
    def add(x):
        return x.relu() + w[: len(x)]

    for n in range(10, 24):
        assert add(ex.randn(n, 4)).shape == (n, 4)
    with pytest.raises(ex.errors.ShapeError):
        add(ex.randn(31, 4))


def test_a_program_that_does_something_else_at_some_size():
    def make():
        def step(x):
            y = x.exp()
            return y.sum(dim=0) if len(x) % 3 else y.neg().sum(dim=1)

        return step, []

    same_bits(make, lambda n: (ex.randn(n, 6),), drawn(65, 128, 60), at_least=25)


def test_members_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr(dynamic_shapes, "MOST_MEMBERS", 8)

    def make():
        return (lambda x: (x.exp() * 2 + 1).sum(dim=0)), []

    same_bits(make, lambda n: (ex.randn(n, 6),), drawn(65, 128, 50) * 2, at_least=80)
