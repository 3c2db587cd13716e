"""Functions that make one op of their arguments: what they made is remembered by types, and nothing is mixed up."""

import gc
import threading
import weakref

import numpy as np
import pytest

import extempo as ex
from extempo.backends.selection import native
from extempo.dispatch import inline_cache
from extempo.errors import DtypeError, ShapeError
from extempo.nn import functional as F

pytestmark = pytest.mark.skipif(native() is None, reason="only the native backend remembers")
RNG = np.random.RandomState(0)


def tensor(*shape, dtype="f4"):
    return ex.from_numpy(RNG.randn(*shape).astype(dtype))


def entries_of(name):
    known = [entry for (front, *_), entry in inline_cache._KNOWN.items() if front.fn.__name__ == name]
    return [entry for entry in known if isinstance(entry, inline_cache.Entry)]  # of kinds that were met again


@pytest.fixture
def asked():
    """A function by types that counts how often its Python runs."""
    calls = []

    def scaled(x, y, factor, dims):
        calls.append((x, y))
        if y is None:
            return inline_cache.apply(ex.core.op.REGISTRY["softmax"], (x,), {"dim": dims[0]})
        return inline_cache.apply(ex.core.op.REGISTRY["mul"], (x, y))

    front = inline_cache.InlineCache(scaled)
    yield front.call, calls
    inline_cache._CACHES.remove(front)
    calls.clear()  # the function stays, and tensors of a batch would keep it alive


def test_python_runs_twice_for_the_same_types(asked):
    call, calls = asked
    x, y = tensor(2, 3), tensor(3)
    for other in (y, tensor(3), tensor(3), tensor(3)):
        assert np.array_equal(call(x, other, 2, (1,)).numpy(), x.numpy() * other.numpy())
    assert call(tensor(2, 3), y, 2, (1,)).shape == (2, 3)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"x": tensor(3, 3)},
        {"x": tensor(2, 3, dtype="f8")},
        {"y": tensor(1)},
        {"y": None},
        {"factor": 3},
        {"factor": 2.0},
        {"factor": True},
        {"dims": (0,)},
        {"dims": (1, 1)},
    ],
    ids=lambda changed: "".join(changed),
)
def test_anything_else_is_asked_again(asked, changed):
    call, calls = asked
    for _ in range(4):
        call(tensor(2, 3), tensor(3), 2, (1,))
    for _ in range(4):
        call(*{"x": tensor(2, 3), "y": tensor(3), "factor": 2, "dims": (1,), **changed}.values())
    assert len(calls) == 4


def test_equal_numbers_of_other_kinds_are_told_apart(asked):
    call, calls = asked
    x, y = tensor(2, 3), tensor(3)
    for _ in range(4):
        for factor in (1, 1.0, True, 0.0, -0.0):
            call(x, y, factor, (1,))
    assert len(calls) == 10


def test_large_ints_floats_and_new_tuples_are_the_same_again(asked):
    call, calls = asked
    x, y = tensor(2, 3), tensor(3)
    for _ in range(4):
        call(x, y, int("123456789"), (1, int("123456789")))
        call(x, y, float("0.125"), (1,))
    assert len(calls) == 4


def test_lists_and_arrays_are_never_remembered(asked):
    call, calls = asked
    dims = [1]
    for expected in (1, 2, 3):
        call(tensor(2, 3), tensor(3), 2, dims)
        assert len(calls) == expected


def test_a_tensor_that_is_there_twice_says_nothing_about_which_is_read():
    def second(a, b):
        return ex.neg(b)

    front = inline_cache.InlineCache(second)
    try:
        x, y = tensor(3), tensor(3)
        assert np.array_equal(front.call(x, x).numpy(), -x.numpy())
        for _ in range(3):
            assert np.array_equal(front.call(x, y).numpy(), -y.numpy())
            assert np.array_equal(front.call(y, x).numpy(), -x.numpy())
    finally:
        inline_cache._CACHES.remove(front)


@pytest.mark.parametrize(
    "fn", [lambda x, n: F.max_pool1d(x, n), lambda x, n: x.softmax(n - 2), lambda x, n: x.sum(n - 2)]
)
def test_a_tensor_that_is_taken_for_its_number_is_asked_each_time(fn):
    x = tensor(2, 3, 4)
    for _ in range(3):
        for n in (2, 3, 4):
            assert ex.equal(fn(x, ex.tensor(n)), fn(x, n))


def test_what_is_more_than_one_op_is_left_as_it_is():
    def twice(x):
        return ex.neg(ex.exp(x))

    def itself(x):
        return x

    for fn in (twice, itself):
        front = inline_cache.InlineCache(fn)
        try:
            x = tensor(3)
            for _ in range(3):
                assert np.array_equal(front.call(x).numpy(), fn(x).numpy())
            assert [e.op for e in front._lately if e is not None] == [None]
        finally:
            inline_cache._CACHES.remove(front)


def test_more_kinds_than_are_kept_lately():
    for _ in range(3):
        for n in range(1, 40):
            assert F.softmax(tensor(2, n), -1).shape == (2, n)
            assert F.conv1d(tensor(1, 1, n + 2), tensor(1, 1, 3)).shape == (1, 1, n)


def test_many_kinds_are_found_again(asked):
    call, calls = asked
    for _ in range(4):
        for n in range(1, 40):
            call(tensor(2, n), tensor(1), n, (1,))
    assert len(calls) == 2 * 39


@pytest.mark.parametrize("reduce", [ex.sum, ex.mean, ex.amax, ex.softmax, ex.log_softmax])
def test_out(reduce):
    x = tensor(3, 4)
    expected = reduce(x, 0).numpy()
    for _ in range(4):
        out = ex.zeros(expected.shape)
        assert reduce(x, 0, out=out) is out
        assert np.array_equal(out.numpy(), expected)


def test_an_interrupt_leaves_nobody_watching():
    def interrupted(x):
        raise KeyboardInterrupt

    front = inline_cache.InlineCache(interrupted)
    try:
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                front.call(tensor(3))
            assert inline_cache.CONTEXT.get().interceptor is None
    finally:
        inline_cache._CACHES.remove(front)


def test_a_recording_that_gives_up_meanwhile_stays_given_up():
    def body(x):
        h = x * 2
        h._source.tracer.n_allowed = 0
        for _ in range(2):
            h = F.softmax(h, -1)
        assert inline_cache.CONTEXT.get().recording is None
        return h

    F.softmax(tensor(2, 19), -1)
    x = tensor(2, 19)
    assert np.allclose(ex.compile(body)(x).numpy(), F.softmax(F.softmax(x * 2, -1), -1).numpy())


def test_errors_are_raised_every_time():
    x, w = tensor(1, 3, 8, 8), tensor(4, 2, 3, 3)
    for _ in range(3):
        with pytest.raises(ShapeError, match="channels"):
            F.conv2d(x, w)
        with pytest.raises(DtypeError, match="stride"):
            F.conv2d(x, tensor(4, 3, 3, 3), stride=1.0)
        F.conv2d(x, tensor(4, 3, 3, 3), stride=1)


def test_gradients_hooks_and_modes_are_those_of_the_op():
    x = tensor(2, 5).requires_grad_()
    for _ in range(3):
        y = F.softmax(x, -1)
        assert y.grad_fn is not None
        y.square().sum().backward()
        with ex.no_grad():
            assert not F.softmax(x, -1).requires_grad
    parameter = ex.nn.Parameter(tensor(2, 5))
    assert F.softmax(parameter, -1).requires_grad


def test_results_of_an_op_with_several_are_picked():
    x = tensor(1, 1, 4, 4)
    for _ in range(3):
        values = F.max_pool2d(x, 2)
        both = F.max_pool2d(x, 2, return_indices=True)
        assert np.array_equal(values.numpy(), both[0].numpy())
        assert both[1].dtype is ex.int64
    assert [entry.pick for entry in entries_of("_max_pool_values") if entry is not None].count(0) >= 1


def test_views_stay_views():
    x = tensor(2, 3, 4)
    for _ in range(3):
        flat = x.flatten(1)
        flat[0, 0] = 7.0
        assert x[0, 0, 0].item() == 7.0
        x[0, 0, 0] = 1.0
        assert flat[0, 0].item() == 1.0


def test_subclasses_and_other_interceptors_go_by_python():
    x = tensor(4, 2, 5)
    expected = F.softmax(x, -1).numpy()
    for _ in range(3):
        got = ex.vmap(lambda row: F.softmax(row, -1))(x)
        assert np.allclose(got.numpy(), expected, atol=1e-6)
        assert ex.func.jvp(lambda x: F.softmax(x, -1), (x,), (x,))[0].shape == x.shape


def test_the_default_dtype_is_asked_for_again():
    x = ex.tensor([1, 2, 3])
    with pytest.raises(DtypeError):
        x.mean()
    before = ex.softmax(tensor(3), 0).dtype
    ex.set_default_dtype(ex.float64)
    try:
        assert not inline_cache._KNOWN
    finally:
        ex.set_default_dtype(ex.float32)
    assert ex.softmax(tensor(3), 0).dtype is before


@pytest.mark.alone
def test_threads_may_share_one():
    failures = []

    def work(n):
        x = tensor(n, 7)
        expected = F.softmax(x, -1).numpy()
        failures.extend(1 for _ in range(300) if not np.array_equal(F.softmax(x, -1).numpy(), expected))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_entries_hold_no_tensors():
    x = tensor(11, 13)
    F.softmax(x, -1)
    F.softmax(x, -1)
    seen = weakref.ref(x)
    del x
    gc.collect()
    assert seen() is None


def test_a_tensor_that_was_never_filled_is_an_error():
    for _ in range(4):
        F.softmax(tensor(3), 0)
    empty = object.__new__(ex.Tensor)
    for use in (lambda: F.softmax(empty, 0), lambda: empty.sum(), lambda: F.cross_entropy(empty, empty)):
        with pytest.raises(AttributeError):
            use()


def test_what_is_more_than_one_op_is_found_out_once():
    asked = []

    def shifted(x, n):
        return x * 2 + n

    front = inline_cache.InlineCache(shifted)
    slow = front._slow

    def watched(*args):
        asked.append(args)
        return slow(*args)

    front._slow = watched
    front.binding.renew()
    try:
        for k in range(6):
            x = tensor(3)
            assert np.array_equal(front.call(x, 1.5).numpy(), (x * 2 + 1.5).numpy()), k
        assert len(asked) == 2
    finally:
        inline_cache._CACHES.remove(front)


def test_a_turn_of_many_kinds_does_not_forget_them(asked):
    call, calls = asked
    y, tensors = tensor(1), [ex.zeros(1, n) for n in range(1, 1501)]
    for _ in range(4):
        for x in tensors:
            call(x, y, 2, (1,))
    assert len(calls) == 2 * len(tensors)


def test_old_kinds_make_room_for_new_ones(asked, monkeypatch):
    call, calls = asked
    front = inline_cache._CACHES[-1]
    monkeypatch.setattr(front._entries, "limit", 8)
    y = tensor(1)
    for n in range(1, 40):
        for _ in range(3):
            call(ex.zeros(1, n), y, 2, (1,))
    assert len(front._entries) <= 8
    assert len(calls) == 2 * 39


def test_a_shape_is_taken_for_a_tuple():
    x = tensor(2, 3, 4)
    expected = F.layer_norm(x, (3, 4)).numpy()
    for shape in (x.shape[1:], [3, 4], (3, 4)):
        assert np.array_equal(F.layer_norm(x, shape).numpy(), expected)
    n_known = len(inline_cache._KNOWN)
    F.layer_norm(x, x.shape[1:])
    assert len(inline_cache._KNOWN) == n_known


def test_samples_of_a_batch_learn_what_functions_make_of_arguments(asked):
    call, calls = asked
    rows = [tensor(2, 3) for _ in range(5)]
    found = ex.batch(lambda x: call(x * 2, None, 2, (1,)))(rows)
    assert len(calls) == 2
    for x, row in zip(rows, found, strict=True):
        assert np.allclose(row.numpy(), F.softmax(x * 2, 1).numpy(), atol=1e-6)
    assert np.allclose(call(rows[0], None, 2, (1,)).numpy(), F.softmax(rows[0], 1).numpy())
    assert len(calls) == 2  # what a sample has learnt holds outside


def test_a_function_that_fills_a_tensor_may_write_to_it_in_a_sample():
    def filled(x, size):
        made = ex.zeros(size)
        made += x
        return made

    front = inline_cache.InlineCache(filled)
    rows = [tensor(3) for _ in range(5)]
    found = ex.batch(lambda x: front.call(x * 2, 3))(rows)
    assert all(np.array_equal(y.numpy(), 2 * x.numpy()) for x, y in zip(rows, found, strict=True))
    inline_cache._CACHES.remove(front)
