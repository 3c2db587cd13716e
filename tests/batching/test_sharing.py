"""A tensor that all calls share is not stacked, wherever it comes from, and everything is as in a plain loop."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.batching import run
from extempo.batching.agenda import Calls
from extempo.batching.kinds import CallKind, Input
from extempo.batching.sharing import row_major, shared_columns, split_by_weights
from extempo.core.types import TensorType
from extempo.errors import OverwrittenError

from .agreement import check, draw, rows

N_IN, N = 5, 6
GLOBAL: dict[str, ex.Tensor] = {}


@pytest.fixture
def shared(monkeypatch):
    """Which inputs of the kinds that ran were shared: (name, which) of each."""
    found = []
    decide = run.BatchExecutor._shared

    def noted(self, kind, refs):
        made = decide(self, kind, refs)
        found.append((kind.name, made.which))
        return made

    monkeypatch.setattr(run.BatchExecutor, "_shared", noted)
    return found


def weight(*shape, grad=True, seed=9):
    return draw(seed, *shape).requires_grad_(grad)


def recurrent(x, h, w, b):
    return ex.tanh(F.linear(ex.cat([x, h]), w, b)) * 0.5 + h * b


# ---- where a weight comes from


def by_argument(w, b):
    step = ex.cell(recurrent)
    return lambda x, h: step(x, h, w, b)


def by_closure(w, b):
    return ex.cell(lambda x, h: recurrent(x, h, w, b))


def by_global(w, b):
    GLOBAL.update(w=w, b=b)
    return ex.cell(lambda x, h: recurrent(x, h, GLOBAL["w"], GLOBAL["b"]))


def by_attribute(w, b):
    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.b = w, b

        def forward(self, x, h):
            return recurrent(x, h, self.w, self.b)

    return ex.cell(Step())


def by_op(w, b):
    return lambda x, h: recurrent(x, h, w, b)


def in_a_list(w, b):
    step = ex.cell(lambda x, h, weights: recurrent(x, h, *weights))
    return lambda x, h: step(x, h, [w, b])


def by_name(w, b):
    step = ex.cell(recurrent)
    return lambda x, h: step(x, h, w=w, b=b)


ORIGINS = [by_argument, in_a_list, by_name, by_closure, by_global, by_attribute, by_op]


def loop_of(step, n_steps=3):
    """A recurrence of each sample's own length, from few levels to many."""

    def one(x, length):
        h = x[:N] * 0
        for t in range(length * n_steps):
            h = step(x[t % 2 : t % 2 + N_IN], h)
        return h

    return one


SAMPLES = (rows(5, N_IN + N), [1, 2, 3, 2, 1])


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("grad", [True, False], ids=["tracked", "not tracked"])
def test_a_weight_means_the_same_wherever_it_comes_from(origin, grad):
    w, b = weight(N, N_IN + N, grad=grad), weight(N, grad=grad)
    check(loop_of(origin(w, b)), *SAMPLES, parameters=[w, b] if grad else [])


@pytest.mark.parametrize("origin", ORIGINS)
def test_frozen_and_trained_weights_may_meet(origin):
    w, b = weight(N, N_IN + N, grad=False), weight(N)
    check(loop_of(origin(w, b)), *SAMPLES, parameters=[b])


@pytest.mark.parametrize("origin", [by_argument, by_closure])
def test_a_weight_that_was_computed_before_gets_its_gradient(origin):
    raw, b = weight(N, N_IN + N), weight(N, grad=False)
    found = []
    for debug in (True, False):
        raw.grad = None
        ex.stack(ex.batch(loop_of(origin(raw * 0.5, b)), debug=debug)(*SAMPLES)).sum().backward()
        found.append(raw.grad.numpy().copy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("origin", ORIGINS)
def test_views_of_one_base_add_their_gradients(origin):
    base, found = weight(2, N, N_IN + N), []
    for debug in (True, False):
        base.grad = None
        steps = [origin(view, base[0, :, 0]) for view in (base[0], base[1].T.T)]

        def one(x, length, steps=steps):
            h = x[:N] * 0
            for t in range(2 * length):
                h = steps[t % 2](x[:N_IN], h)
            return h

        ex.stack(ex.batch(one, debug=debug)(*SAMPLES)).sum().backward()
        found.append(base.grad.numpy().copy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_weight_that_differs_for_some_samples(origin):
    ws = [weight(N, N_IN + N, seed=i) for i in range(2)]
    steps = [origin(w, weight(N, grad=False)) for w in ws]
    if origin is by_global:
        steps = [by_closure(w, weight(N, grad=False)) for w in ws]
    check(lambda x, i: loop_of(steps[i])(x, 1 + i), rows(5, N_IN + N), [0, 1, 1, 0, 1], parameters=ws)


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_weight_is_replaced_between_calls(origin):
    for seed in range(3):
        w, b = weight(N, N_IN + N, seed=seed), weight(N, seed=seed)
        check(loop_of(origin(w, b)), *SAMPLES, parameters=[w, b])


def test_one_cell_takes_other_weights_in_another_call_of_the_batch():
    step = ex.cell(recurrent)

    def one(x, length, *, w, b):
        return loop_of(lambda x, h: step(x, h, w, b))(x, length)

    for seed in range(3):
        w, b = weight(N, N_IN + N, seed=seed), weight(N, seed=seed)
        check(one, *SAMPLES, parameters=[w, b], w=w, b=b)
    check(one, *SAMPLES, w=w.detach(), b=b.detach())


def test_the_same_tensor_at_two_positions():
    product = ex.cell(lambda x, w, v: ex.tanh(x @ w) @ v)
    w = weight(4, 4)
    check(lambda x: product(x, w, w), rows(5, 4), parameters=[w])
    check(lambda x: product(x, w, w.detach()), rows(5, 4), parameters=[w])


def test_all_inputs_may_be_shared():
    scaled = ex.cell(lambda w, v: w * v)
    w, v = weight(4), weight(4, seed=1, grad=False)
    check(lambda x: x + scaled(w, v) + ex.exp(v), rows(5, 4), parameters=[w])


# ---- what is shared


@pytest.mark.parametrize("origin", [by_argument, in_a_list, by_name])
@pytest.mark.parametrize("grad", [True, False])
def test_weights_among_the_arguments_of_a_cell_are_shared(origin, grad, shared):
    w, b = weight(N, N_IN + N, grad=grad), weight(N, grad=grad)
    ex.batch(loop_of(origin(w, b)))(*SAMPLES)
    assert {which for _, which in shared if len(which) == 4} == {(False, False, True, True)}


def test_a_frozen_operand_of_an_op_is_shared(shared):
    w = weight(4, 3, grad=False)
    check(lambda x: (x * 2) @ w, rows(4, 4))
    assert ("matmul", (False, True)) in shared


def test_samples_of_their_own_are_not_shared(shared):
    ex.batch(ex.cell(lambda x: x * 2))(rows(4, 3))
    assert [which for _, which in shared] == [(False,)]


def test_values_of_the_run_are_not_shared(shared):
    step = ex.cell(lambda h, x: ex.tanh(h + x))
    h0 = ex.zeros(3)

    def one(x):
        return step(step(h0, x), x)

    check(one, rows(4, 3))
    assert shared[-1][1] == (False, False)


def test_columns_that_hold_one_value_from_outside():
    refs = np.array([[4, 7, 9, -1], [4, 8, 9, -1], [4, 7, 9, -1]])
    assert shared_columns(refs, {4, 7, 8}) == (True, False, False, False)
    assert shared_columns(refs[:1], {4, 7, 8}) == (False,) * 4


# ---- views that each sample makes for itself


VIEWS = {
    "transposed": lambda w: w.T,
    "a part": lambda w: w[1:5, :4].T,
    "a view of a view": lambda w: w[1:][:4, 1:5],
    "expanded": lambda w: w[0, :4].expand(4, 4),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("grad", [True, False], ids=["tracked", "not tracked"])
def test_views_of_a_weight_that_samples_make_are_shared(view, grad, shared):
    w = weight(6, 6, grad=grad)
    product = ex.cell(lambda x, v: ex.tanh(x[: v.shape[0]] @ v))
    for _ in range(2):
        check(lambda x: product(x, view(w)), rows(5, 6), parameters=[w] if grad else [])
        check(lambda x: (x * 2)[: view(w).shape[0]] @ view(w), rows(5, 6), parameters=[w] if grad else [])
    assert (False, True) in [which for name, which in shared if "lambda" in name]
    assert (False, True) in [which for name, which in shared if name == "matmul"]


def test_other_parts_of_one_base_stay_apart(shared):
    w = weight(5, 4, 4)
    check(lambda x, i: (x * 2) @ w[i], rows(5, 4), range(5), parameters=[w])
    assert ("matmul", (False, True)) not in shared


def test_a_view_that_is_asked_for_its_own_gradient_gets_its_own():
    w = weight(4, 4)

    def one(x, seen):
        v = w.T
        v.register_hook(lambda g: seen.append(g.numpy().copy()))
        return (x * 2) @ v

    found = []
    for debug in (True, False):
        logs = [[] for _ in range(3)]
        ex.stack(ex.batch(one, debug=debug)(rows(3, 4), logs)).sum().backward()
        found.append(np.array(logs))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_a_view_that_somebody_keeps_has_its_own_gradient():
    w, kept = weight(4, 4), []

    def one(x):
        kept.append(w.T)
        return (x * 2) @ kept[-1]

    for debug in (True, False):
        kept.clear()
        total = ex.stack(ex.batch(one, debug=debug)(rows(3, 4))).sum()
        gradients = [g.numpy() for g in ex.autograd.grad(total, kept)]
        if debug:
            expected = gradients
    np.testing.assert_allclose(gradients, expected, rtol=1e-5)


def test_memory_that_is_not_row_major_is_copied_once():
    w = draw(0, 3, 4).numpy()
    plain, one, other, part = row_major([w, w.T, w.T, w[:, :2]])
    assert plain is w
    assert one is other
    assert one.flags.c_contiguous
    np.testing.assert_array_equal(one, w.T)
    np.testing.assert_array_equal(part, w[:, :2])


# ---- large tensors of several kinds of calls


def test_layers_that_are_calls_of_one_cell_are_not_stacked(shared):
    dense = ex.cell(lambda x, w: ex.tanh(x @ w))
    ws = [(weight(64, 64, seed=i).detach() / 8).requires_grad_() for i in range(3)]

    def one(x):
        for w in ws:
            x = dense(x, w)
        return x

    batched = check(one, rows(8, 64), parameters=ws)
    assert batched.stats()["launches"] == 3
    assert {which for _, which in shared} == {(False, True)}


def calls_of(weights, shape=(64, 64)):
    kind = CallKind(
        "one",
        tuple,
        (Input(TensorType((3,), ex.float32), False), Input(TensorType(shape, ex.float32), False)),
        (),
        (),
        (),
    )
    calls = Calls(kind)
    for i, value in enumerate(weights):
        calls.refs += [100 + i, value]
        calls.firsts.append(200 + i)
        calls.samples.append(i)
        calls.wheres.append(("line", i))
    return calls


def test_calls_are_split_by_their_large_tensors():
    first, second = split_by_weights(calls_of([5, 6] * 4), {5, 6})
    assert (first.refs, first.firsts, first.samples) == (
        [100, 5, 102, 5, 104, 5, 106, 5],
        [200, 202, 204, 206],
        [0, 2, 4, 6],
    )
    assert second.wheres == [("line", i) for i in (1, 3, 5, 7)]


@pytest.mark.parametrize(
    ("weights", "shape", "outside"),
    [
        ([5] * 8, (64, 64), {5}),  # all share it
        ([5, 6] * 4, (8, 8), {5, 6}),  # small ones are stacked
        ([5, 6, 7, 8] * 2, (64, 64), {5, 6, 7, 8}),  # too many
        ([5, 6] * 4, (64, 64), {5}),  # a value of the run
        ([5, 5, 5, 6], (64, 64), {5, 6}),  # too few calls
    ],
)
def test_calls_that_stay_together(weights, shape, outside):
    calls = calls_of(weights, shape)
    assert split_by_weights(calls, outside) == [calls]


# ---- as in a plain loop


def test_draws_with_shared_operands_are_those_of_a_plain_loop():
    noisy = ex.cell(lambda x, w: F.dropout(x @ w, 0.5))
    w = weight(4, 4)
    check(lambda x: noisy(x, w), rows(6, 4), parameters=[w], seed=3)


def test_side_effects_happen_once_for_each_sample():
    seen = []
    scale = ex.cell(lambda x, w: x * w)
    w = weight(3)

    def one(x, i):
        y = scale(x, w)
        seen.append(i)
        return y

    check(one, rows(4, 3), range(4), parameters=[w])
    assert seen == [0, 1, 2, 3] * 2


def test_an_error_in_one_sample_names_it():
    pick = ex.cell(lambda table, i: F.embedding(i, table))
    table = weight(4, 3)
    with pytest.raises(IndexError) as error:
        ex.batch(lambda i: pick(table, i))([ex.tensor(k) for k in (0, 1, 7, 2)])
    assert "sample 2" in "".join(error.value.__notes__)


def test_values_may_be_read_between_calls():
    step = ex.cell(recurrent)
    w, b = weight(N, N_IN + N), weight(N)

    def one(x):
        h = x[:N] * 0
        while float(h.sum().detach()) < 0.5 and len(str(h.detach())) < 1_000:
            h = step(x[:N_IN], h, w, b) + 0.2
        return h

    check(one, rows(4, N_IN + N), parameters=[w, b])


def test_a_shared_weight_must_not_be_written_before_backward_reads_it():
    product = ex.cell(lambda x, w: x @ w)
    for w in (weight(4, 4, grad=False), weight(4, 4)):
        x = draw(0, 4).requires_grad_()
        losses = ex.batch(lambda i, w=w, x=x: product(x * i, w).sum())([1.0, 2.0, 3.0])
        with ex.no_grad():
            w.mul_(2)
        with pytest.raises(OverwrittenError):
            ex.stack(losses).sum().backward()


def test_a_shared_tensor_that_backward_does_not_read_may_be_written():
    shift = ex.cell(lambda x, b: x + b)
    b, x = weight(4), draw(0, 4).requires_grad_()
    losses = ex.batch(lambda i: shift(x * i, b).sum())([1.0, 2.0, 3.0])
    with ex.no_grad():
        b.mul_(2)
    ex.stack(losses).sum().backward()
    np.testing.assert_allclose(b.grad.numpy(), 3.0)
    np.testing.assert_allclose(x.grad.numpy(), 6.0)


def test_arguments_that_a_partial_binds_are_shared(shared):
    w, b = weight(N, N_IN + N), weight(N)
    step = functools.partial(ex.cell(recurrent), w=w, b=b)
    check(loop_of(step), *SAMPLES, parameters=[w, b])
    assert (False, False, True, True) in [which for _, which in shared]
