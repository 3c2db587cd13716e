"""What a sample may do inside ex.batch, and what it may not: modes, draws, exceptions, writes, hooks, debugging."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.nn import functional as F

from .agreement import check, draw, rows

# ---- values that are read


def test_a_sample_that_reads_a_value_waits_for_the_others():
    order = []

    def run(x, i):
        order.append(("begins", i))
        positive = bool((x.sum() * 2 > 0).item())
        order.append(("goes on", i))
        return x * 2 if positive else -x

    batched = check(run, rows(5, 3), range(5))
    assert [i for what, i in order[-10:] if what == "begins"] == [0, 1, 2, 3, 4]
    assert order[-10:-5] == [("begins", i) for i in range(5)]
    assert batched.stats()["waves"] == 2


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.item(),
        bool,
        float,
        lambda t: t.tolist(),
        lambda t: t.detach().numpy(),
        repr,
        lambda t: f"{t}",
        lambda t: list(range(3))[(t > 0).long()],
    ],
)
def test_ways_to_read(read):
    seen = []

    def run(x):
        y = (x * 3).sum()
        seen.append(read(y))
        return y

    ex.batch(run)(rows(3, 2))
    batched, seen = seen, []
    for x in rows(3, 2):
        run(x)
    assert str(batched) == str(seen)


def test_argmax_as_an_index():
    table = draw(9, 4, 2)
    check(lambda x: table[(x * 2).argmax()] + x[:2], rows(6, 4))


def test_a_value_that_was_read_goes_on_being_used():
    w = draw(0, 3).requires_grad_()

    def run(x):
        y = x * w
        if y.sum().item() > 0:
            y = y * 2
        return y * y

    check(run, rows(6, 3), parameters=[w])


def test_code_of_samples_interleaves_but_results_stay_in_order():
    seen = []

    def run(x, i):
        for _ in range(i % 3):
            x = x + 1
            x.sum().item()
        seen.append(i)
        return x.sum()

    got = ex.batch(run)(rows(6, 2), range(6))
    assert sorted(seen) == list(range(6))
    assert seen != list(range(6))
    for i, t in enumerate(got):
        assert t.item() == pytest.approx((draw(i, 2) + i % 3).sum().item(), rel=1e-5)


# ---- modes and draws


def test_no_grad_stays_with_its_sample():
    w = draw(0, 2).requires_grad_()

    def run(x, i):
        if i % 2:
            with ex.no_grad():
                y = x * w
                y.sum().item()
                assert not ex.is_grad_enabled()
                y = y * w
        else:
            y = x * w
            y.sum().item()
            assert ex.is_grad_enabled()
        return y

    check(run, rows(4, 2), range(4), parameters=[w])


def test_autocast_stays_with_its_sample():
    def run(x, i):
        with ex.autocast("cpu", enabled=bool(i % 2)):
            before = ex.is_autocast_enabled("cpu")
            (x * 2).sum().item()
            return before, ex.is_autocast_enabled("cpu")

    assert ex.batch(run)(rows(4, 3), range(4)) == [(False, False), (True, True)] * 2


@pytest.mark.parametrize("reads", [False, True])
def test_draws_belong_to_the_sample(reads):
    def run(x):
        noise = ex.randn(3)
        if reads:
            (x * 2).sum().item()
        return x + noise + ex.rand(3) + F.dropout(x, 0.5)

    check(run, rows(5, 3), seed=7)


def test_draws_do_not_depend_on_the_other_samples_or_on_reading():
    def run(x, n):
        for _ in range(n):
            x = x + 1
            x.sum().item()
        return ex.rand(4)

    def results(*reads):
        ex.manual_seed(5)
        return [t.tolist() for t in ex.batch(run)(rows(len(reads), 4), reads)]

    assert results(0, 0, 0) == results(3, 1, 2)
    assert results(0, 0, 0)[:2] == results(0, 0)
    first = results(0, 0)
    assert [t.tolist() for t in ex.batch(run)(rows(2, 4), [0, 0])] != first  # the next call draws anew


def test_dropout_in_training_and_not():
    ex.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    check(model, rows(5, 4), parameters=model.parameters())
    model.eval()
    check(model, rows(5, 4), parameters=model.parameters())


# ---- exceptions


def test_a_wrong_shape_is_found_at_its_line():
    with pytest.raises(ex.errors.ShapeError) as caught:
        ex.batch(lambda x: x + ex.ones(4))([ex.ones(4), ex.ones(3)])
    assert any("sample 1" in note for note in caught.value.__notes__)


def test_an_error_that_only_values_show_names_line_and_sample():
    table = draw(0, 5, 2).requires_grad_()

    def look(i):
        return F.embedding(i, table)

    with pytest.raises(ex.errors.IndexRangeError) as caught:
        ex.batch(look)([ex.tensor(1), ex.tensor(7), ex.tensor(2)])
    text = " ".join(caught.value.__notes__)
    assert "sample 1" in text
    assert "test_sample_tracer.py" in text
    assert ex.batch(look)([ex.tensor(4)])[0].shape == (2,)


# ---- what may not be done


def test_backward_inside_is_refused():
    w = draw(0, 2).requires_grad_()

    def run(x):
        (x * w).sum().backward()

    with pytest.raises(ex.errors.AutogradError, match="return the loss"):
        ex.batch(run)(rows(2, 2))
    with pytest.raises(ex.errors.AutogradError, match="return the loss"):
        ex.batch(lambda x: ex.autograd.grad((x * w).sum(), w))(rows(2, 2))


def test_writes_to_tensors_of_others_are_refused():
    total = ex.zeros(2)

    def run(x):
        total.add_(x)

    with pytest.raises(ex.errors.AutogradError, match="out-of-place"):
        ex.batch(run)(rows(2, 2))
    assert total.tolist() == [0, 0]


def test_batch_statistics_are_refused():
    norm = nn.BatchNorm1d(3)
    with pytest.raises(ex.errors.ExtempoError):
        ex.batch(norm)(rows(4, 2, 3))
    norm.eval()
    check(norm, rows(4, 2, 3))


def test_writes_to_its_own_tensors():
    w = draw(0, 3).requires_grad_()

    def run(x):
        y = x * w
        y += 1
        z = y * 2
        y.mul_(z)
        return y, z

    check(run, rows(4, 3), parameters=[w])


def test_writes_through_views_are_refused_with_advice():
    def run(x):
        y = x * 2
        y[0] = 1.0
        return y

    with pytest.raises(ex.errors.AutogradError, match="stack"):
        ex.batch(run)(rows(2, 3))


# ---- hooks, functions, nodes


def test_a_module_with_hooks_is_not_a_cell():
    layer = nn.Linear(3, 2)
    shapes = []
    layer.register_forward_hook(lambda module, args, out: shapes.append(tuple(args[0].shape)))
    check(layer, rows(4, 3), parameters=layer.parameters())
    assert shapes == [(3,)] * 8


# ---- stepping aside, threads, memory


def test_eager_is_the_plain_loop():
    seen = []

    def run(x):
        seen.append((x * 2)._data is not None)
        return x * 2

    with ex.eager():
        ex.batch(run)(rows(2, 2))
    ex.batch(run, debug=True)(rows(2, 2))
    assert seen == [True] * 4
    ex.batch(run)(rows(2, 2))
    assert seen[4:] == [False] * 2


def test_values_that_are_not_numbers():
    w = ex.tensor([1.0, float("nan"), float("inf")], requires_grad=True)
    got = ex.batch(lambda x: x * w)(rows(3, 3))
    for t, x in zip(got, rows(3, 3), strict=True):
        np.testing.assert_array_equal(t.detach().numpy(), (x * w).detach().numpy())


def test_empty_tensors_and_other_dtypes():
    check(lambda x: (x * 2).sum(), [ex.zeros(0), ex.zeros(2, 0), ex.ones(3)])
    check(lambda x: (x * 2 + 1, x > 3), [ex.arange(4), ex.arange(5), ex.arange(4)])
    w = draw(0, 3).double().requires_grad_()
    check(lambda x: (x * w + 0.1).sum(), [draw(i, 3).double() for i in range(4)], parameters=[w])


def test_numbers_differ_between_samples():
    w = draw(0, 3).requires_grad_()
    batched = check(lambda x, a, k: x * w * a + k, rows(6, 3), [0.5, 1.5, 2, -1, 0.0, 3.25], range(6), parameters=[w])
    assert batched.stats()["launches"] <= 4


# ---- tensors that a sample fills itself


def _total(xs):
    total = ex.zeros(3)
    before = total + 1
    for x in xs:
        total += x * x
    total.mul_(2)
    return (before * total).sum() + before.sum()


def _drawn(x):
    logits = x.reshape(-1)[:3]
    noise = ex.empty(3).uniform_()
    choice = ex.distributions.Categorical(logits=logits).sample()
    return (logits * noise).sum() + choice


@pytest.mark.parametrize("fn", [_total, _drawn])
def test_a_sample_may_write_to_what_it_has_made(fn):
    samples = [ex.randn(n, 3, requires_grad=True) for n in (2, 5, 1, 4)]
    results = {}
    for debug in (False, True):
        ex.manual_seed(3)
        out = ex.batch(fn, debug=debug)(samples)
        ex.stack(out).sum().backward()
        results[debug] = [t.item() for t in out], [x.grad.tolist() for x in samples]
        for x in samples:
            x.grad = None
    np.testing.assert_allclose(results[False][0], results[True][0], rtol=1e-5)
    for ours, theirs in zip(results[False][1], results[True][1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_write_that_a_view_would_have_to_see_is_refused():
    def fn(x):
        total = ex.zeros(3)
        first = total[0]
        total += x
        return first

    with pytest.raises(ex.errors.AutogradError, match="that others share memory with"):
        ex.batch(fn)(ex.randn(4, 3))


def test_results_are_row_major_however_they_are_computed():
    def fn(x):
        y = x.T.exp()
        assert y.stride() == (3, 1)
        return y, (y + 1).T

    run = ex.batch(fn)
    samples = [ex.randn(3, 4) for _ in range(5)]
    for _ in range(4):
        for x, results in zip(samples, run(samples), strict=True):
            for y, expected in zip(results, (x.T.exp(), x.exp() + 1), strict=True):
                assert y.is_contiguous()
                np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-6)


def test_a_sample_may_not_write_to_what_another_has_made():
    made = []

    def fn(x, number):
        made.append(ex.zeros(3))
        x.sum().item()  # all samples have made theirs by then
        return made[number - 1].add_(x)

    with pytest.raises(ex.errors.AutogradError, match="that it has not made"):
        ex.batch(fn)(ex.randn(4, 3), range(4))
