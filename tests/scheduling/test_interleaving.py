"""Units that run in turn: sums within the pass that makes what they add up, clusters on parts of a product."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import extempo as ex
from extempo.backends.selection import native
from extempo.errors import NumericalError
from extempo.scheduling import interleaving
from extempo.scheduling.request import forget

from .loops import CASES
from .programs import program
from .taping import check

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

F = ex.nn.functional


@pytest.fixture
def small(monkeypatch):
    """Whatever its size, what can be joined is."""
    monkeypatch.setattr(interleaving, "LEAST_SUMMED", 1)
    monkeypatch.setattr(interleaving, "LEAST_MADE", 1)
    forget()
    yield
    forget()


def draw(*shape, seed=0, dtype=np.float32, requires_grad=True):
    values = np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)
    return ex.tensor(values, requires_grad=requires_grad)


def lines(plan, *names):
    """The instructions that fuse all of these."""
    found = [line for line in plan.describe().splitlines() if line.startswith("fused:")]
    return [line for line in found if set(names) <= set(line[7:].partition(" -> ")[0].split(", "))]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(100, 150))
def test_a_random_program_has_eager_bits(seed):
    rng = np.random.default_rng(seed)
    fn, arguments = program(rng, int(rng.integers(3, 25)))
    check(fn, arguments, bool(rng.random() < 0.7), int(rng.integers(1, 12)) if rng.random() < 0.4 else None)


def test_a_loss_is_summed_while_it_is_computed():
    plans = check(lambda x, y: ((x - y) * x).mean(), [draw(90, 120), draw(90, 120, seed=1)])
    (line,) = lines(plans[-1], "mean")
    assert line.endswith("f32[]")


def test_gradients_of_biases_are_summed_while_they_are_computed():
    plans = check(lambda x, a, b: F.gelu(x * a + b).sum(), [draw(300, 70), draw(70), draw(70)])
    (line,) = lines(plans[-1], "gradient", "sum")
    # Only the gradient of x and what is added up in another order; what these sums alone read is not written.
    assert line.count("f32[300, 70]") == 2
    assert line.count("f32[70]") == 2


def test_a_value_that_is_read_again_is_stored_in_the_same_pass():
    plans = check(lambda x: ((x * x).sum(1, keepdim=True) + x * x).exp().sum(), [draw(80, 130)])
    assert any("f32[80, 130], f32[80, 1]" in line for line in lines(plans[-1], "mul", "sum")), plans[-1].describe()


def test_sums_of_several_orders_of_one_value():
    def fn(x, y):
        z = x * y
        return (z.sum(0) * 2.0).sum() + (z.sum(1) * 3.0).sum() + z.sum()

    check(fn, [draw(128, 129), draw(128, 129, seed=1)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sizes", [(1, 40, 70), (3, 700, 90), (5, 33, 100), (17, 40, 64), (33, 500, 300), (130, 64, 200)]
)
@pytest.mark.usefixtures("small")
def test_a_product_is_followed_by_its_activation(sizes, dtype):
    m, k, n = sizes
    x, w, b = draw(m, k, dtype=dtype), draw(n, k, seed=1, dtype=dtype), draw(n, seed=2, dtype=dtype)
    plans = check(lambda x, w, b: F.gelu(F.linear(x, w, b) * 0.1), [x, w, b])
    assert lines(plans[-1], "product", "gelu")
    plans = check(lambda x, w, b: F.relu(x @ w.T + b), [t.detach() for t in (x, w, b)])
    assert lines(plans[-1], "product", "add", "relu")
    plans = check(lambda x, w: F.relu(x @ w).sum(), [x, draw(k, n, dtype=dtype)])
    assert lines(plans[-1], "product", "relu") or lines(plans[-1], "relu", "sum")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("stack", [(2,), (5,), (2, 3)])
def test_products_of_a_stack(stack):
    a, b = draw(*stack, 9, 20), draw(*stack, 20, 33, seed=1)
    plans = check(lambda a, b: ex.softmax((a @ b) * 0.3, -1), [a, b])
    assert lines(plans[-1], "product", "mul")
    check(lambda a, b: (a @ b).tanh(), [a, draw(20, 33)])


@pytest.mark.usefixtures("small")
def test_what_a_product_reads_is_not_written_over():
    # The sum of a layer and its input could take the input's memory, but for the product, which still needs it.
    def fn(x, w):
        x = x * 1.5
        for _ in range(3):
            x = x + F.linear(x, w).tanh()
        return x

    check(fn, [draw(70, 70), draw(70, 70, seed=1)])
    check(fn, [draw(200, 200), draw(200, 200, seed=1)])


@pytest.mark.usefixtures("small")
def test_the_gradient_of_an_activation_follows_its_product():
    def fn(x, v, w):
        return F.linear(F.relu(F.linear(F.relu(F.linear(x, v)), v)), w).sum()

    plans = check(fn, [draw(40, 64), draw(64, 64, seed=1), draw(10, 64, seed=2)])
    assert lines(plans[-1], "product", "gradient")


@pytest.mark.usefixtures("small")
def test_an_error_within_an_epilogue_is_told():
    x, w = draw(40, 64, requires_grad=False), draw(64, 64, requires_grad=False)

    @ex.compile
    def fn(x, w, by):
        return (x @ w).to(ex.int64) // by

    by = ex.ones((40, 64), dtype=ex.int64)
    for _ in range(4):
        fn(x, w, by)
    with pytest.raises(NumericalError, match="floor_divide"):
        fn(x, w, by * 0).numpy()


def test_values_of_one_row_or_one_column():
    for shape in ((9000, 1), (1, 9000)):
        check(lambda x: (x * x).sum(0).sum() + (x * 2.0).sum(1).sum(), [draw(*shape)])


def test_what_is_small_stays_apart():
    plans = check(lambda x: (x * x).sum(), [draw(5, 6)])
    assert not lines(plans[-1], "sum")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][3]])
def test_long_loops_run_units_in_turn(name, rolled):
    fn, shapes, shape, _ = CASES[name]
    arguments = [draw(*s, seed=i) for i, s in enumerate(shapes)]
    for n in (20, 33):
        leaves = [draw(*shape, seed=7 + i, requires_grad=False) for i in range(n)]
        plans = check(fn, [*arguments, *leaves])
        assert lines(plans[-1], "product") or lines(plans[-1], "sum")
    assert rolled == [True, True]


@pytest.mark.usefixtures("small")
def test_sums_of_every_step_of_a_long_loop(rolled):
    def fn(b, h, *xs):
        for x in xs:
            h = (h * 0.5 + x * b).tanh()
            h = h + (h * x).sum(0)
        return (h * h).mean()

    check(fn, [draw(40), draw(70, 40), *(draw(70, 40, seed=7 + i, requires_grad=False) for i in range(25))])
    assert rolled == [True]
