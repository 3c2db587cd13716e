"""Numbers among the arguments of static functions: another one at each call, unless Python went by it."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import GraphError, ShapeError
from extempo.nn import functional as F

from ..agreement import draw, grads, needs_native_code
from .static_agreement import CALLS, agree, mlp, state, static

W, TARGET, ROWS, INDEX = draw(1, 4, 3), ex.tensor([0, 2, 1, 1]), ex.tensor([0, 2]), ex.tensor([[0, 1, 2]])
VALUES = (0.5, 0.25, 0.75, 0.125, 0.6, 0.3)


def in_place(change):
    def changed(x, a):
        y = x * 2
        change(y, a)
        return y

    return changed


def _set(key):
    return in_place(lambda y, a: y.__setitem__(key, a))


TAKES_NUMBERS = {
    "masked_fill": lambda x, a: x.masked_fill(x > 0, a),
    "masked_fill_": in_place(lambda y, a: y.masked_fill_(W > 0, a)),
    "full": lambda x, a: x + ex.full((3,), a),
    "full_like": lambda x, a: x * ex.full_like(x, a),
    "new_full": lambda x, a: x * x.new_full((3,), a),
    "tensor": lambda x, a: x * ex.tensor(a) + ex.tensor([a, 1.0, 2 * a]),
    "add": lambda x, a: ex.add(x, x, alpha=a),
    "sub": lambda x, a: ex.sub(x, W, alpha=a),
    "add_": in_place(lambda y, a: y.add_(W, alpha=a)),
    "sub_": in_place(lambda y, a: y.sub_(W, alpha=a)),
    "addmm": lambda x, a: ex.addmm(ex.ones(4, 4), x, W.T, alpha=a, beta=1 - a),
    "fill_": in_place(lambda y, a: y[1:].fill_(a)),
    "setitem": _set((slice(None), 1)),
    "setitem by rows": _set(ROWS),
    "setitem by a mask": _set(W > 0),
    "addcmul": lambda x, a: ex.addcmul(x, W, W, value=a),
    "addcdiv": lambda x, a: ex.addcdiv(x, W, W, value=a),
    "scatter": lambda x, a: x.scatter(0, INDEX, a) + x.scatter(0, INDEX, value=-a),
    "index_fill": lambda x, a: x.index_fill(0, ROWS, a),
    "pad": lambda x, a: F.pad(x, (1, 1), value=a),
    "dropout": lambda x, a: F.dropout(x, p=a),
    "label_smoothing": lambda x, a: F.cross_entropy(x, TARGET, label_smoothing=a),
    "layer_norm": lambda x, a: F.layer_norm(x, (3,), eps=a),
    "batch_norm": lambda x, a: F.batch_norm(x, None, None, training=True, eps=a),
    "smooth_l1_loss": lambda x, a: F.smooth_l1_loss(x, W, beta=a),
    "huber_loss": lambda x, a: F.huber_loss(x, W, delta=a),
    "normal": lambda x, a: x + ex.normal(a, a, size=(4, 3)),
    "uniform_": in_place(lambda y, a: y.detach().uniform_(-a, a)),
    "bernoulli": lambda x, a: x * ex.bernoulli(x, a),
    "div": lambda x, a: ex.div(x, a, rounding_mode="trunc"),
    "norm": lambda x, a: x * ex.linalg.vector_norm(W, 2) * a,
    "annealing": lambda x, a: x * (1 - a) + (2 * a**2 / 3) * x.tanh() - abs(-a) + round(a, 1) * x,
    "the larger": lambda x, a: x * max(a, 0.01) * min(a, 1.0),
}


@pytest.mark.parametrize("name", TAKES_NUMBERS)
def test_a_number_is_another_one_at_each_call(name):
    fn = TAKES_NUMBERS[name]

    def scenario(wrap):
        ex.manual_seed(0)
        run = wrap(fn)
        for i, a in enumerate(VALUES):
            x = draw(i, 4, 3, grad=True)
            y = run(x, a)
            if y.requires_grad:
                y.square().sum().backward()
            yield y, x.grad

    agree(scenario)


def test_a_factor_may_be_one_in_some_calls():
    def scenario(wrap):
        run = wrap(lambda x, a: (ex.add(x, W, alpha=a), ex.addcmul(x, W, x, value=a)))
        for a in (1.0, 0.5, 1.0, -0.0, 1.0):
            yield run(draw(0, 4, 3), a)

    agree(scenario)


def test_whole_numbers_where_their_kind_decides_the_dtype():
    def scenario(wrap):
        counts = ex.tensor([1, 2, 3])
        run = wrap(
            lambda n, a: (
                ex.full((2,), n),
                ex.tensor([n, n + 1]),
                counts.masked_fill(counts > 1, n),
                counts[[0, n % 3]],
                a,
            )
        )
        for i in range(CALLS):
            yield run(i, i / 2)

    agree(scenario)


def test_numbers_that_were_computed_are_results_and_entries_of_containers():
    def scenario(wrap):
        run = wrap(lambda x, a, more: {"sum": a + more["b"], "x": x * (a + more["b"]), "mixed": [a * 2, 3]})
        for i in range(CALLS):
            yield run(draw(i, 3), 0.5 * i, {"b": i})

    agree(scenario)


@pytest.mark.parametrize("how", ["norm", "value"])
def test_the_bound_of_clipping_is_read_anew(how):
    def scenario(wrap):
        model = mlp(4, 5, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.5)

        def step(x, bound):
            optimizer.zero_grad()
            (model(x) * 50).square().mean().backward()
            clip = nn.utils.clip_grad_norm_ if how == "norm" else nn.utils.clip_grad_value_
            norm = clip(model.parameters(), bound)
            optimizer.step()
            return norm

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 3, 4), 1.0 / (i + 1)), state(model), grads(*model.parameters())

    agree(scenario)


@pytest.mark.parametrize("before", [True, False])
def test_a_learning_rate_that_is_an_argument(before):
    def scenario(wrap):
        model = mlp(4, 5, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.5)

        def step(x, lr):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            if before:
                optimizer.param_groups[0]["lr"] = lr * 0.5
            optimizer.step()
            if not before:
                optimizer.param_groups[0]["lr"] = lr * 0.5

        run = wrap(step)
        for i in range(CALLS):
            run(draw(i, 3, 4), 1.0 / (i + 1))
            yield state(model), optimizer.param_groups[0]["lr"]

    agree(scenario)


def test_a_mask_in_an_assignment_is_not_read():
    def scenario(wrap):
        def f(x, mask, rows, value):
            y, z, u = x * 1, x * 2, x * 3
            y[mask] = 0
            z[rows] = value
            u[:, rows[:3]] = value.sum()
            u[..., rows[:3]] = -1.5
            (y + z + u).square().sum().backward()
            return y, z, u

        run = wrap(f)
        for i in range(CALLS):
            x, value = draw(i, 4, 3, grad=True), draw(i + 9, grad=True)
            yield run(x, draw(i + 20, 4, 3) > 0, draw(i + 30, 4) > 0, value), x.grad, value.grad

    agree(scenario)


def test_a_mask_in_an_assignment_may_cover_some_dimensions():
    x, rows, columns = ex.zeros(2, 3), ex.tensor([True, False]), ex.tensor([False, True, True])
    x[rows] = 1
    x[:, columns] = 2.0
    x[..., ex.tensor([True, False, False])] = ex.tensor(3)
    assert x.tolist() == [[3, 2, 2], [3, 2, 2]]
    x[rows, ...] = 4
    assert x.tolist() == [[4, 4, 4], [3, 2, 2]]
    small = ex.zeros(3, dtype=ex.uint8)
    with pytest.raises(ex.errors.DtypeError, match="300 does not fit"):
        small[columns] = 300
    for key in (columns, (slice(None), rows), (Ellipsis, rows), (rows, columns, columns)):
        with pytest.raises(IndexError):
            x[key] = 1.0


# ---- what is refused


@needs_native_code
def test_what_python_decided_by_a_number_has_to_come_out_again():
    def f(x, n, p, scale):
        for _ in range(n):
            x = x * scale
        return x if p > 0.5 else -x

    run = static(f)
    x = ex.ones(2)
    assert run(x, 2, 0.7, 3.0).tolist() == [9, 9]
    assert run(x, 2, 0.8, 2.0).tolist() == [4, 4]
    for args, words in [((x, 3, 0.7, 2.0), "argument n is 3"), ((x, 2, 0.1, 2.0), r"p > 0\.5 is False")]:
        with pytest.raises(
            GraphError, match=rf"{words}, when the function was recorded.*looked at.*test_sym_numbers\.py:\d+; "
        ):
            run(*args)
    assert run(x, 2, 0.9, 2.0).tolist() == [4, 4]


@needs_native_code
def test_a_refused_number_changes_nothing():
    total = ex.zeros(2)

    @static
    def f(x, a):
        total.add_(x)
        return total * 2 if 2 * a < 3 else total

    f(ex.ones(2), 1.0)
    with pytest.raises(GraphError, match=r"2 \* a < 3 is False"):
        f(ex.ones(2), 2.0)
    assert total.tolist() == [1, 1]


@needs_native_code
@pytest.mark.parametrize(
    ("fn", "values", "words"),
    [
        (lambda x, a: F.dropout(x, a), (0.5, 0.0), "a == 0 is True"),
        (lambda x, a: x * (1 if a == 0 else 2), (0.0, 1.0), "a == 0 is False"),
        (lambda x, a: x * (3 if a else 2), (0.0, 1.0), r"bool\(a\) is True"),
        (lambda x, a: x * int(a * 2), (1.2, 1.6), r"int\(a \* 2\) is 3"),
        (lambda x, a: x * {0.5: 1}.get(a, 2), (0.5, 0.25), r"argument a is 0\.25"),
        (lambda x, a: x.reshape(int(a), -1), (2.0, 3.0), r"int\(a\) is 3"),
        (lambda x, n: x[:n], (2, 3), "n is 3"),
        (lambda x, n: x.sum(n - 1), (2, 1), "n - 1"),
        (lambda x, n: ex.zeros(2 * n), (2, 3), r"2 \* n is 6"),
        (lambda x, a: f"{a}", (2.5, 3.5), r"argument a is 3\.5"),
        (lambda x, n: x * 2.0**n if isinstance(10**n, int) else x, (2, -2), r"10 \*\* n is 0\.01"),
        (lambda x, a: int(ex.tensor(a)), (2.5, 3.5), r"argument a is 3\.5"),
    ],
)
def test_numbers_that_python_looked_at_are_named(fn, values, words):
    run = static(fn)
    x = ex.ones(4, 6)
    run(x, values[0])
    run(x, values[0])
    with pytest.raises(GraphError, match=words):
        run(x, values[1])


@needs_native_code
def test_what_an_op_checks_is_checked_at_each_call():
    run = static(lambda x, a: ex.full((2,), a, dtype=ex.int8) + x)
    run(ex.ones(2), 100)
    with pytest.raises(ex.errors.DtypeError, match="1000 does not fit"):
        run(ex.ones(2), 1000)
    scaled = static(lambda x, a: x * (1 / a))
    scaled(ex.ones(2), 2.0)
    with pytest.raises(ZeroDivisionError) as caught:
        scaled(ex.ones(2), 0.0)
    assert "test_sym_numbers.py" in caught.value.__notes__[0]


def test_zeros_of_both_signs_and_nan_are_told_apart():
    def scenario(wrap):
        run = wrap(lambda x, a: x * a + ex.full((2,), a))
        for a in (0.0, -0.0, float("nan"), float("inf"), -0.0):
            yield run(-ex.ones(2), a)

    agree(scenario)


@needs_native_code
def test_a_number_that_is_kept_is_a_number_after_the_call():
    kept = []
    run = static(lambda x, a: x * (kept.append(a * 2) or a))
    run(ex.ones(2), 2.0)
    assert kept[0] + 1 == 5.0
    assert kept[0] > 3
    assert run(ex.ones(2), 1.0).tolist() == [1, 1]


@needs_native_code
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: ex.unique(x),
        lambda x: ex.unique_consecutive(x),
        lambda x: ex.masked_select(x, x > 0),
        lambda x: ex.bincount(x.long()),
    ],
)
def test_a_size_that_depends_on_values_is_an_error_that_says_what_to_do(fn):
    with pytest.raises(GraphError, match=r"size of the result depends on values, at .*\.py:\d+; .*masked_fill.*where"):
        static(lambda x: fn(x))(ex.ones(3))


@needs_native_code
def test_a_dtype_that_follows_from_a_number_is_refused_as_eager_would_have_another_one():
    run = static(lambda n, a: ex.add(n, n, alpha=a))
    assert run(ex.tensor([1]), 2.0).dtype is ex.float32
    with pytest.raises((GraphError, ShapeError)):
        run(ex.tensor([1]), 1.0)
