"""What a program is made of: pure functions alone, whose effects are those of the loop if there are any."""

from __future__ import annotations

import functools
import itertools
import random
import time

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.batching.lockstep.trace import SampleSizes

from .loops_beside import alike, assert_same, check, n_in_lockstep, ragged, weight

COUNTS = {"calls": 0}
TOTAL = 0


def _impure():
    """Makers of functions with something that counts what they have done, or that draws."""

    def prints(log):
        def fn(x):
            print("called", file=log)
            return x.sum()

        return fn

    def appends(log):
        def fn(x):
            log.seen.append(len(x))
            return x.sum()

        return fn

    def counts_in_an_attribute(log):
        def fn(x):
            log.n += 1
            return x.sum()

        return fn

    def counts_in_a_dict(log):
        def fn(x):
            log.table["n"] = log.table.get("n", 0) + 1
            return x.sum()

        return fn

    def counts_in_a_global(log):
        def fn(x):
            global TOTAL
            TOTAL += 1
            log.n = TOTAL
            return x.sum()

        return fn

    def counts_in_a_closure(log):
        n = 0

        def fn(x):
            nonlocal n
            n += 1
            log.n = n
            return x.sum()

        return fn

    def caches(log):
        @functools.lru_cache
        def factor(n):
            log.seen.append(n)
            return n * 2.0

        def fn(x):
            return x.sum() * factor(len(x))

        return fn

    def takes_the_time(log):
        def fn(x):
            log.seen.append(time.perf_counter() > 0)
            return x.sum()

        return fn

    def advances_a_generator(log):
        numbers = itertools.count()

        def fn(x):
            log.n = next(numbers)
            return x.sum()

        return fn

    def draws_in_python(log):
        def fn(x):
            log.seen.append(random.random() < 2)
            return x.sum()

        return fn

    def keeps_a_tensor(log):
        def fn(x):
            y = x.sum()
            log.seen.append(y)
            return y

        return fn

    def reads_a_value(log):
        def fn(x):
            log.seen.append(float(x.sum()) < 1e9)
            return x.sum()

        return fn

    def is_a_generator_inside(log):
        def rows(x):
            for row in x:
                log.n += 1
                yield row

        def fn(x):
            return sum(row.sum() for row in rows(x)) + 0

        return fn

    def calls_a_method_that_counts(log):
        def fn(x):
            return log.count(x).sum()

        return fn

    def sets_a_default(log):
        def fn(x, seen=log.seen):
            seen += [len(x)]
            return x.sum()

        return fn

    def uses_numpy(log):
        def fn(x):
            log.n += int(np.sum([1]))
            return x.sum()

        return fn

    def enters_a_context(log):
        def fn(x):
            with log:
                return x.sum() * 1

        return fn

    return [value for value in locals().values() if callable(value)]


class _Log:
    def __init__(self):
        self.n = 0
        self.seen = []
        self.table = {}
        self.tensor = ex.zeros(3)
        self.text = ""

    def write(self, text):
        self.text += text

    def count(self, x):
        self.n += 1
        return x

    def __enter__(self):
        self.n += 1

    def __exit__(self, *error):
        self.n += 1

    def state(self):
        seen = [x.item() if isinstance(x, ex.Tensor) else x for x in self.seen]
        return self.n, sorted(map(str, seen)), self.table, self.tensor.tolist(), self.text


@pytest.mark.parametrize("maker", _impure(), ids=lambda maker: maker.__name__)
def test_functions_that_do_more_than_compute_do_it_as_often_as_in_the_loop(maker):
    global TOTAL
    states = []
    for batches in (False, True):
        log, TOTAL = _Log(), 0
        fn = maker(log)
        batched = ex.batch(fn)
        for _ in range(3):
            for own in (ragged(3), ragged(3, lengths=[3, 3])):
                results = batched(own) if batches else [fn(x) for x in own]
                assert n_in_lockstep(batched) == 0
                expected = [x.sum() * (len(x) * 2.0 if maker.__name__ == "caches" else 1.0) for x in own]
                np.testing.assert_allclose([float(r) for r in results], [float(e) for e in expected], 1e-4)
        states.append(log.state())
    assert states[0] == states[1]


def test_an_exception_that_the_function_catches_is_caught_for_each_sample():
    seen = []

    def fn(x):
        try:
            return x[2].sum() * 2
        except IndexError:
            seen.append(len(x))
            return x.sum() * 3

    batched = ex.batch(fn)
    expected = [x[2].sum() * 2 if len(x) > 2 else x.sum() * 3 for x in ragged(3)]
    for n_calls in (1, 2, 3):
        assert_same(batched(ragged(3)), expected, "result")
        assert n_in_lockstep(batched) in (0, 4)  # those whose way has no effect
        assert seen == [1] * n_calls


def test_dropout_in_training_is_recorded():
    layer = nn.Dropout(0.5)
    batched = ex.batch(lambda x: layer(x).sum(0))
    batched(ragged(3))
    assert n_in_lockstep(batched) == 0


def test_writing_to_what_samples_share_is_refused_and_nothing_is_written():
    norm, w = nn.BatchNorm1d(3), ex.ones(3)

    def adds(x):
        w.add_(1.0)
        return x.sum()

    def sets(x):
        w[0] = 2.0
        return x.sum()

    def scales(x):
        x.mul_(2.0)
        return x.sum()

    samples = ragged(3, lengths=[4, 2, 3])
    for fn in (adds, sets, scales, lambda x: norm(x).sum(0)):
        batched = ex.batch(fn)
        for _ in range(2):
            with pytest.raises(ex.errors.AutogradError, match=r"inside ex\.batch, a sample writes to a tensor"):
                batched(samples)
    assert w.tolist() == [1.0] * 3
    assert norm.running_mean.tolist() == [0.0] * 3
    assert_same(samples, ragged(3, lengths=[4, 2, 3]), "sample")


def test_draws_are_those_of_the_loop():
    def fn(x):
        return x + ex.randn(3)

    batched = ex.batch(fn)
    for seed in range(3):
        ex.manual_seed(seed)
        got = batched(ragged(3))
        ex.manual_seed(seed)
        assert_same(got, ex.batch(fn, debug=True)(ragged(3)), "draws")
        assert n_in_lockstep(batched) == 0


# ---- in place


def _on_a_fresh_tensor(x, w):
    y = x @ w
    y.mul_(2.0)
    y += 1.0
    return y.sum(0)


def _on_an_element_of_a_fresh_tensor(x, w):
    y = (x @ w).sum(0)
    y[0] = 5.0
    y[1:] += 1.0
    return y


def _on_a_view_of_a_fresh_tensor(x, w):
    y = (x @ w) * 1.0
    y[0].mul_(3.0)
    return y.sum(0)


def _on_zeros(x, w):
    y = ex.zeros(4)
    for row in x:
        y += row @ w
    return y


@pytest.mark.parametrize(
    "fn",
    [_on_a_fresh_tensor, _on_an_element_of_a_fresh_tensor, _on_a_view_of_a_fresh_tensor, _on_zeros],
    ids=lambda fn: fn.__name__.strip("_"),
)
def test_writing_in_place_gives_what_the_loop_gives(fn):
    w = weight(3, 4)
    expected = [fn(x, w) for x in ragged(3)]
    for _ in range(2):
        batched = ex.batch(lambda x: fn(x, w))
        assert_same(batched(ragged(3)), expected, "result")


def test_a_constant_that_is_written_and_then_detached_is_what_was_written():
    def fn(x):
        y = ex.zeros(2, 3).index_add_(0, ex.tensor([0, 1]), x)
        return y.detach() * 0.5 + y

    check(fn, alike(3, 2, 3), ran=False)


# ---- what is returned


def _tuple(x, w):
    return (x @ w).sum(0), (x @ w).amax(0)


def _dict(x, w):
    return {"a": (x @ w).sum(0), "b": [x.sum(), (x * 2, None)], "c": 3}


def _twice(x, w):
    y = x @ w
    return y, y


def _constant_beside(x, w):
    return (x @ w).sum(), 1.5, "text", True, None


def _with_a_constant_tensor(x, w):
    return (x @ w).sum(), ex.ones(2) * 3


@pytest.mark.parametrize("fn", [_tuple, _dict, _twice, _constant_beside], ids=lambda fn: fn.__name__.strip("_"))
def test_results_of_any_structure_run_in_lockstep(fn):
    w = weight(3, 4)
    check(lambda x: fn(x, w), ragged(3), parameters=[w])


def test_one_tensor_returned_twice_is_one_tensor():
    w = weight(3, 4)
    for a, b in ex.batch(lambda x: _twice(x, w))(ragged(3)):
        assert a is b


def _an_input(x, w):
    return x, (x @ w).sum()


def _a_weight(x, w):
    return w, (x @ w).sum()


def _a_view_of_an_input(x, w):
    return x[0], (x @ w).sum()


def _a_size(x, w):
    return len(x), (x @ w).sum()


def _a_shape(x, w):
    return x.shape, (x @ w).sum()


def _nothing(x, w):
    return None


def _a_number_of_a_loop(x, w):
    n = 0
    for _ in x:
        n += 1
    return (x @ w).sum(), n


def _a_float_of_a_loop(x, w):
    n = 0.0
    for _ in x:
        n = n * 0.5 + 1.0
    return (x @ w).sum(), n


@pytest.mark.parametrize(
    "fn",
    [
        *(_an_input, _a_weight, _a_view_of_an_input, _a_size, _a_shape, _nothing),
        *(_a_number_of_a_loop, _a_float_of_a_loop),
    ],
    ids=lambda fn: fn.__name__.strip("_"),
)
def test_what_a_program_cannot_return_is_recorded(fn):
    w = weight(3, 4)
    check(lambda x: fn(x, w), ragged(3), parameters=[w], ran=False)


def test_a_constant_tensor_is_each_samples_own():
    w = weight(3, 4)
    batched = check(lambda x: _with_a_constant_tensor(x, w), ragged(3), parameters=[w])
    results = batched(ragged(3))
    results[0][1].zero_()
    assert results[1][1].tolist() == [3.0, 3.0]


# ---- sizes


def test_sizes_that_are_always_equal_have_one_name():
    sizes = SampleSizes([[(2, 3), (4, 3)], [(2,), (4,)], [(5,), (4,)]])
    assert sizes.names == [("size0_0", 3), ("size0_0",), ("size2_0",)]
    found = sizes.of([[(7, 3)], [(7,)], [(1,)]])
    assert {name: values.tolist() for name, values in found.items()} == {"size0_0": [7], "size2_0": [1]}
    assert sizes.of([[(7, 3)], [(6,)], [(1,)]]) is None
    assert sizes.of([[(7, 2)], [(7,)], [(1,)]]) is None


def test_a_size_as_a_number_is_that_of_each_sample():
    w = weight(3, 4)

    def fn(x):
        n = len(x)
        return (x @ w).sum() / n + n * 2 - (n // 2) % 3 + max(n - 3, 0) + x.numel()

    check(fn, ragged(3), parameters=[w])


def test_a_size_in_a_call_of_a_library_is_that_of_each_sample():
    w = weight(3, 4)

    def fn(x):
        return (F.softmax(x @ w, 0) / len(x) ** 0.5).sum(0)

    check(fn, ragged(3), parameters=[w])
