"""Arguments of samples: tensors in containers, numbers of each sample's own, and what is not read."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.batching.lockstep.arguments import SampleArguments, holds_tensors

from ..agreement import close
from .loops_beside import alike, check, n_in_lockstep, ragged, weight


def test_tensors_in_tuples_lists_and_dicts_are_inputs():
    w = weight(3, 4)

    def fn(sample):
        (x, [y]), named = sample
        return ex.tanh(x @ w).sum(0) + named["z"] + y

    xs, ys, zs = ragged(3), alike(5, 4), alike(5, 4)
    samples = [((x, [y]), {"z": z, "n": 3}) for x, y, z in zip(xs, ys, zs, strict=True)]
    check(fn, samples, parameters=[w])


def test_containers_of_different_lengths_are_recorded():
    w = weight(3)

    def fn(parts):
        return sum((part * w).sum() for part in parts)

    check(fn, [alike(n, 3) for n in (1, 2, 3)], parameters=[w], ran=False)


@pytest.mark.parametrize("labels", [[0, 3, 1, 2, 0], [2, 2, 2, 2, 2], [0, 0, 0, 0, 1]])
def test_an_int_may_be_an_index(labels):
    w = weight(3, 4)
    check(lambda x, label: ex.log_softmax((x @ w).sum(0), 0)[label], ragged(3), labels, parameters=[w])


def test_an_int_may_be_a_row_of_the_sample():
    w = weight(3, 4)
    check(lambda x, i: (x @ w)[i].sum(), ragged(3), [3, 0, 1, 6, 2], parameters=[w])


def test_an_int_may_be_a_length():
    w = weight(3, 4)
    check(lambda x, n: (x[:n] @ w).sum(0), ragged(3), [3, 1, 1, 6, 2], parameters=[w])


def test_an_int_may_be_a_factor():
    w = weight(3)
    check(lambda x, n: (x * w).sum() * n + n, alike(4, 3), [3, 0, 1, 2], parameters=[w])


def test_an_int_decides_for_each_sample():
    w = weight(3)

    def fn(x, n):
        return (x * w).sum() if n > 2 else (x + w).amax()

    check(fn, alike(4, 3), [3, 0, 1, 7], parameters=[w])


@pytest.mark.parametrize(
    "values", [[1.5, 2.5, 3.5], [True, False, True], ["a", "bb", "c"], [-1, 2, -3], [None, 1, None], [2**40, 1, 2]]
)
def test_other_values_that_differ_are_not_read_wrongly(values):
    w = weight(3)

    def fn(x, value):
        y = (x * w).sum()
        if value is None or isinstance(value, str):
            return y * 2 if value in (None, "bb") else y
        return y * value

    expected = [fn(x, v) for x, v in zip(alike(3, 3), values, strict=True)]
    for _ in range(2):
        got = ex.batch(fn)(alike(3, 3), values)
        for a, b in zip(got, expected, strict=True):
            assert abs(float(a) - float(b)) <= 1e-5 * max(1.0, abs(float(b)))


def test_values_that_are_equal_in_one_call_may_be_others_in_the_next():
    w = weight(3)

    def fn(x, scale, name):
        return (x * w).sum() * scale + (1.0 if name == "a" else 2.0)

    for scale in (1, 2.5):
        for name in ("a", "b"):
            check(fn, alike(3, 3), [scale] * 3, [name] * 3, parameters=[w])


def test_an_argument_that_is_not_read_may_be_anything():
    w = weight(3)
    check(lambda x, other: (x * w).sum(), alike(3, 3), [object(), {1, 2}, "text"], parameters=[w])


def test_samples_of_which_some_are_tracked_are_recorded():
    w = weight(3, 4).detach()
    samples = ragged(3)
    samples[1].requires_grad_()
    samples[3].requires_grad_()
    fn = lambda x: ex.tanh(x @ w).sum(0)  # noqa: E731 # all calls are of one function
    for _ in range(4):
        batched = check(fn, samples, ran=False)
    assert "some samples are tracked and others are not" in str(batched.explain())
    check(fn, ragged(3))
    check(fn, [x.requires_grad_() for x in samples])


def test_samples_that_are_results_pass_gradients_on():
    w, v = weight(3, 4), weight(3)
    batched = ex.batch(lambda x: ex.tanh(x @ w).sum())
    sum(batched([x * v for x in ragged(3)])).backward()
    assert n_in_lockstep(batched) == 5
    got, v.grad = v.grad, None
    sum(ex.tanh(x * v @ w).sum() for x in ragged(3)).backward()
    close(got.numpy(), v.grad.numpy(), "gradient")


def test_one_tensor_as_several_samples_gets_the_sum_of_gradients():
    w, x = weight(3, 4), weight(2, 3, seed=8)
    check(lambda x: ex.tanh(x @ w).sum(0), [x, x, x], parameters=[w])


def test_a_weight_as_an_argument_is_shared_by_all():
    w = weight(3, 4)
    check(lambda x, w: ex.tanh(x @ w).sum(0), ragged(3), [w] * 5, parameters=[w])


@pytest.mark.parametrize("dtype", [ex.float64, ex.float16, ex.int64, ex.bool])
def test_dtypes_are_those_of_the_loop(dtype):
    samples = [(x * 3).to(dtype) for x in ragged(3)]
    check(lambda x: (x.sum(0), x * 2, x.amax(0)), samples)


def test_samples_of_different_dtypes_are_recorded():
    samples = [x.double() if i % 2 else x for i, x in enumerate(ragged(3))]
    check(lambda x: x.sum(0), samples, ran=False)


def test_a_view_as_a_sample_is_read_as_it_is():
    whole = weight(9, 3).detach()
    check(lambda x: (x * 2).sum(0), [whole[:4], whole[2:3], whole[::2]])


def test_a_tensor_is_taken_apart_along_its_first_dimension():
    w = weight(3)
    batched = ex.batch(lambda x: (x * w).sum())
    x = weight(4, 3, seed=2)
    got = batched(x)
    assert [n for _, n in batched._notes.programs] == [4]
    ex.stack(got).sum().backward()
    assert x.grad.tolist() == [w.tolist()] * 4


def test_places_of_arguments_make_a_key():
    a = SampleArguments([(ex.ones(2), 3, "a"), (ex.ones(4), 5, "a")])
    b = SampleArguments([(ex.ones(2), 7, "a"), (ex.ones(4), 6, "a")])
    c = SampleArguments([(ex.ones(2), 7, "a"), (ex.ones(4), 7, "a")])
    assert a.key == b.key != c.key
    assert [values.tolist() for values in a.numbers] == [[3, 5]]


def test_a_sample_is_searched_for_tensors_whatever_it_holds():
    inside_itself: list[object] = [1, 2]
    inside_itself.append(inside_itself)
    deep: object = 1
    for _ in range(10_000):
        deep = (deep,)
    assert not holds_tensors(([1, 2, 3], {"n": 2}, "word", inside_itself, deep))
    assert holds_tensors((3, [1, {"x": (2, ex.ones(2))}]))
    assert holds_tensors((ex.ones(2),))
    assert not holds_tensors(())
