"""Results of samples: each one's own memory, and gradients as those of a loop."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import UnsupportedError

from ..agreement import close
from .loops_beside import LENGTHS, alike, assert_same, n_in_lockstep, ragged, weight


def _fn(w):
    return lambda x: ex.tanh(x @ w)


def _outputs(w):
    """Results of the loop, and those of lockstep."""
    samples = ragged(3)
    batched = ex.batch(_fn(w))
    got = batched(samples)
    assert n_in_lockstep(batched) == len(LENGTHS)
    return [_fn(w)(x) for x in samples], got


def _gradient(w):
    found, w.grad = w.grad, None
    return found


def test_results_of_each_sample_are_row_major_and_have_memory_of_their_own():
    w = weight(3, 4)
    batched = ex.batch(lambda x: ((x @ w).T, (x @ w).sum(0)))
    results = batched(ragged(3))
    expected = [((x @ w).T, (x @ w).sum(0)) for x in ragged(3)]
    assert_same(results, expected, "result")
    with ex.no_grad():
        for t in results[0]:
            t.zero_()
    assert_same(results[1:], expected[1:], "result")


def test_a_result_written_in_place_afterwards_has_the_gradient_of_what_was_written():
    w = weight(3, 4)
    found = []
    samples = ragged(3)
    for outputs in ([x @ w for x in samples], ex.batch(lambda x: x @ w)(samples)):
        outputs[0].mul_(3.0)
        outputs[1].add_(1.0)
        sum((y * y).sum() for y in outputs).backward()
        found.append(_gradient(w))
    close(found[1].numpy(), found[0].numpy(), "gradient")


def test_some_results_alone_give_the_gradient_of_those():
    w = weight(3, 4)
    found = []
    for outputs in _outputs(w):
        (outputs[3].sum() * 2 + outputs[1].sum()).backward()
        found.append(_gradient(w))
    close(found[1].numpy(), found[0].numpy(), "gradient")


def test_backward_of_one_result_after_the_other_gives_the_sum():
    w = weight(3, 4)
    found = []
    for outputs in _outputs(w):
        for y in outputs:
            y.sum().backward(retain_graph=True)
        found.append(_gradient(w))
    close(found[1].numpy(), found[0].numpy(), "gradient")


def test_backward_twice_needs_a_graph_that_is_retained():
    w = weight(3, 4)
    _, outputs = _outputs(w)
    total = sum(y.sum() for y in outputs)
    total.backward(retain_graph=True)
    once = _gradient(w)
    total.backward()
    close(_gradient(w).numpy(), once.numpy(), "gradient")
    with pytest.raises(ex.errors.GraphFreedError):
        total.backward()


def test_a_weight_that_the_used_results_do_not_need_has_no_gradient():
    a, b = weight(3, 4), weight(3, 4, seed=6)

    def fn(x):
        return (x @ a).sum(), (x @ b).sum()

    batched = ex.batch(fn)
    results = batched(ragged(3))
    assert n_in_lockstep(batched) == len(LENGTHS)
    sum(y for y, _ in results).backward()
    assert a.grad is not None
    assert b.grad is None


def test_a_sample_whose_result_is_not_used_has_the_gradient_of_the_loop():
    w = weight(3, 4)
    samples = [x.requires_grad_() for x in ragged(3)]
    ex.batch(_fn(w))(samples)[2].sum().backward()
    assert samples[2].grad is not None
    for i in (0, 1, 3, 4):
        assert samples[i].grad is None or not samples[i].grad.any()


def test_second_derivatives_are_refused_with_the_way_to_have_them():
    w = weight(3, 4)
    _, outputs = _outputs(w)
    with pytest.raises(UnsupportedError, match=r"create_graph=True through ex.batch.*debug=True"):
        ex.autograd.grad(sum(y.sum() for y in outputs), w, create_graph=True)


def test_results_of_no_rows_are_empty_and_their_gradients_are_zeros():
    w = weight(3, 4)
    batched = ex.batch(lambda x: x @ w)
    results = batched(ragged(3, lengths=[2, 0, 0]))
    assert [tuple(y.shape) for y in results] == [(2, 4), (0, 4), (0, 4)]
    results[1].sum().backward()
    assert not w.grad.any()


def test_hooks_on_results_and_gradients_of_results_work():
    w = weight(3, 4)
    batched = ex.batch(lambda x: (x * w[:, 0]).sum())
    results = batched(alike(3, 3))
    assert n_in_lockstep(batched) == 3
    seen = []
    results[0].register_hook(lambda g: seen.append(float(g)))
    results[1].retain_grad()
    (results[0] * 2 + results[1] * 3).backward()
    assert seen == [2.0]
    assert float(results[1].grad) == 3.0


def test_nan_and_infinity_stay_in_their_sample():
    w = weight(3, 4)
    samples = ragged(3)
    samples[1][0, 0] = float("nan")
    samples[3][2, 1] = float("inf")
    fn = lambda x: (ex.softmax(x @ w, 0).sum(0), x.amax(0), (x @ w).mean())  # noqa: E731
    batched = ex.batch(fn)
    for got, x in zip(batched(samples), samples, strict=True):
        for a, b in zip(got, fn(x), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-4, 1e-5)
    assert n_in_lockstep(batched) == len(LENGTHS)


def _gradients_of_both(use):
    """Gradients of what is made of the results of a loop, and of those in lockstep."""
    w = weight(3, 4)
    found = []
    for outputs in _outputs_of_sums(w):
        use(outputs).backward()
        found.append(_gradient(w).numpy())
    return found


def _outputs_of_sums(w):
    def fn(x):
        return ex.tanh(x @ w).sum(0)

    samples = ragged(3)
    return [fn(x) for x in samples], ex.batch(fn)(samples)


USES = {
    "stacked": lambda ys: (ex.stack(ys) ** 2).sum(),
    "stacked, and some again": lambda ys: (ex.stack(ys) ** 2).sum() + ys[0].sum() * ys[2].sum(),
    "stacked in another order": lambda ys: (ex.stack(ys[::-1]) * ex.arange(4.0)).sum(),
    "stacked along another dimension": lambda ys: (ex.stack(ys, 1) * ex.arange(float(len(ys)))).sum(),
    "some stacked": lambda ys: (ex.stack(ys[:3]) ** 2).sum(),
    "stacked twice": lambda ys: (ex.stack(ys) * ex.stack(ys)).sum(),
}


@pytest.mark.parametrize("use", USES)
def test_results_that_are_stacked_have_the_gradients_of_a_loop(use):
    expected, got = _gradients_of_both(USES[use])
    close(got, expected, "gradient")


def test_a_small_result_stays_as_it_is_when_another_one_is_written():
    w = weight(3, 4)
    _, results = _outputs_of_sums(w)
    before = [y.detach().numpy().copy() for y in results]
    with ex.no_grad():
        results[1].zero_()
    for i, (y, was) in enumerate(zip(results, before, strict=True)):
        np.testing.assert_array_equal(y.detach().numpy(), 0 * was if i == 1 else was)
    ex.stack([y for i, y in enumerate(results) if i != 1]).sum().backward()
