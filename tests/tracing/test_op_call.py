"""Arguments of every kind: dtypes, layouts, shared memory, sizes 0 and 1, special values, keyword arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.core.context import CONTEXT
from extempo.core.op import REGISTRY
from extempo.core.trace_tree import NONE, NUMBER
from extempo.nn import functional as F
from extempo.tracing.compiled_function import CompiledFunction
from extempo.tracing.op_call import OpCall, grad_key

from .agreement import CALLS, agree, agree_on_calls, draw, grads, needs_native_code, whole
from .by_hand import new_executor, tracing


def mixed(x):
    y = (x * 2 + 1).abs()
    return y, y.sum(0), y.max(), x + y


@pytest.mark.parametrize("dtype", [ex.float64, ex.float16, ex.bfloat16, ex.int64, ex.int32, ex.int8, ex.uint8], ids=str)
def test_dtypes(dtype):
    agree_on_calls(mixed, lambda i: (draw(i, 3, 4, scale=20.0).abs().to(dtype),))


def test_booleans():
    def f(x, y):
        return x & y, x | ~y, x ^ y, x.any(), y.all(0), x.sum(), ex.where(x, 1.0, 2.0)

    agree_on_calls(f, lambda i: (draw(i, 3, 4) > 0, draw(i + 50, 3, 4) > 0))


@pytest.mark.parametrize("dtype", [ex.float64, ex.float16, ex.bfloat16], ids=str)
def test_gradients_in_other_dtypes(dtype):
    def f(x, w):
        y = (x @ w).tanh().sum()
        y.backward()
        return y

    agree_on_calls(f, lambda i: (draw(i, 3, 4, dtype=dtype), draw(i, 4, 2, dtype=dtype, grad=True)))


def test_dtypes_that_change_between_calls_and_within():
    dtypes = [ex.float32, ex.float64, ex.int32, ex.float32, ex.float64, ex.int32] * 2

    def f(x, w):
        y = x * w + x.float() * 2
        return y.double().sum().float(), (y > 0).long().sum(), y.int() // 2

    agree_on_calls(f, lambda i: (draw(i, 3, scale=9.0).to(dtypes[i]), draw(1, 3)), calls=12)


def test_strided_arguments():
    def f(x, y):
        return x + y, (x * 2).sum(0), x @ y.T, x[1:] * y[:-1], ex.softmax(x, 1), x.reshape(-1)

    def strided(i):
        kinds = [lambda t: t.T, lambda t: t[::2], lambda t: t.flip(0), lambda t: t[:, ::2], lambda t: t]
        base = [(4, 6), (12, 4), (6, 4), (6, 8), (6, 4)]
        k = i // 3 % len(kinds)
        return kinds[k](draw(i, *base[k])), draw(i + 9, 6, 4)

    agree_on_calls(f, strided, calls=15)


def test_strided_arguments_with_gradients():
    def f(x):
        y = ((x.T * 2).tanh() @ x).sum()
        y.backward()
        return y

    def scenario(wrap):
        run = wrap(f)
        for i in range(CALLS):
            leaf = draw(i, 3, 4, grad=True)
            yield run(leaf.T), leaf.grad
            yield run(leaf[:, ::2]), leaf.grad
            yield run(leaf.expand(2, 3, 4)[1]), leaf.grad

    agree(scenario)


def test_expanded_arguments():
    agree_on_calls(lambda x, b: (x * b, b + 1, (b * 2).sum(0)), lambda i: (draw(i, 3, 4), draw(i, 1, 4).expand(3, 4)))


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1), (1, 0), (3, 1), (1, 40), (70, 1)])
def test_single_rows_and_columns(shape):
    """Their strides may be anything, and which routine runs depends on strides."""

    def f(x, w):
        y = x * 2
        return x @ x.T, y @ y.T, x @ x.T @ x, y.T @ x, (x * w) @ x.T, x.T @ y, x.T.sum(0), y[:, :1] @ y[:, :1].T

    agree_on_calls(f, lambda i: (draw(i, *shape), draw(i + 9, *shape)))
    agree_on_calls(
        f,
        lambda i: (draw(i, *shape), draw(i + 9, *shape, grad=True)),
        then=lambda results: sum(t.sum() for t in results if t.requires_grad).backward(),
    )


def test_arguments_that_share_memory():
    def scenario(wrap):
        def f(a, b):
            y = a * 2
            b.add_(1.0)
            return y, a + b

        run = wrap(f)
        for i in range(CALLS):
            x = draw(i, 6)
            yield run(x[:4], x[2:]), x
            yield run(x, x), x
            yield run(x[:4], draw(i, 4)), x

    agree(scenario)


def test_the_same_tensor_twice():
    def f(a, b):
        y = (a * b + a).sum()
        y.backward()
        return y

    def scenario(wrap):
        run = wrap(f)
        for i in range(8):
            x = draw(i, 3, grad=True)
            other = x if i % 2 else draw(i + 20, 3, grad=True)
            yield run(x, other), grads(x, other)

    agree(scenario)


def test_keyword_arguments_defaults_and_stars():
    def scenario(wrap):
        def f(x, *rest, scale=2.0, **named):
            y = x * scale
            for r in rest:
                y = y + r
            return y, {k: v * y for k, v in named.items()}

        run = wrap(f)
        for i in range(CALLS):
            x = draw(i, 3)
            yield run(x)
            yield run(x, x, scale=i)
            yield run(x=x, bias=x, gain=draw(i + 1, 3))

    agree(scenario)


def test_numbers_of_every_kind():
    def scenario(wrap):
        def f(x, n):
            return x * n, x + n, n - x, x > n, x.clamp(max=n)

        run = wrap(f)
        values = [1, 2.5, True, 0, -0.0, math.inf, -3, 1e30, math.nan, 2**40, np.float32(1.5), np.int64(4), 0.1]
        for n in values + values:
            yield run(draw(0, 3), n)
        for n in values[:7]:
            yield run(whole(0, 3), n)

    agree(scenario)


@needs_native_code
@pytest.mark.parametrize("how", [{}, {"padding_idx": 2}, {"scale_grad_by_freq": True}])
def test_rows_and_classes_as_numbers_are_inputs_of_one_plan(how):
    """Words, labels: an int is looked up, and its gradient scattered, without a plan for each int."""
    ints = np.random.RandomState(0).randint(0, 4, (40, 2)).tolist()

    def scenario(wrap):
        ex.manual_seed(0)
        embedding, classes = nn.Embedding(4, 6, **how), nn.Linear(6, 4)
        weights = [*embedding.parameters(), *classes.parameters()]

        @wrap
        def step(word, label):
            loss = F.cross_entropy(classes(embedding(word) * embedding(3)), label)
            loss.backward()
            return loss

        for word, label in ints:
            yield step(word, label), grads(*weights)
            for w in weights:
                w.grad = None

    agree(scenario)
    made = []

    def wrap(fn):
        made.append(CompiledFunction(fn, "step"))
        return made[0].run

    for _ in scenario(wrap):
        pass
    stats = made[0].stats()
    assert (stats["plans"], stats["unplannable"]) == (1, {})
    assert stats["runs"] >= len(ints) // 2  # LLVM may have had to be waited for


def test_special_values():
    values = ex.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e38, 1e-45, -1e-40])

    def f(x):
        y = x * 2 - x
        return y, x.exp().log(), x / x, x.max(), x.relu(), x.softmax(0), (x > 0), x.sign(), x.sum(), x.sqrt()

    agree_on_calls(f, lambda i: (values.roll(i),))
    agree_on_calls(lambda x: f(x)[1], lambda i: (values.roll(i).requires_grad_(),), then=lambda y: y.sum().backward())


def test_empty_batches():
    layer = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    def f(x):
        y = layer(x)
        return y, y.sum(), (x * 2).sum(0), x[:0]

    agree_on_calls(f, lambda i: (draw(i, [0, 2, 0, 2, 5][i % 5], 3),), calls=15)
    agree_on_calls(f, lambda i: (draw(i, [0, 2][i % 2], 3, grad=True),), calls=8, then=lambda r: r[1].backward())


def test_tensors_without_dimensions():
    def f(x, w):
        y = x * w + 1
        y.backward()
        return y, y.reshape(1), y[None]

    agree_on_calls(f, lambda i: (ex.tensor(float(i)), ex.tensor(1.5, requires_grad=True)))


def test_loops_of_length_zero_and_one():
    def f(x, n):
        total = ex.zeros(3)
        for k in range(n):
            total = total + x * k
        return total

    agree_on_calls(f, lambda i: (draw(i, 3, grad=True), [0, 1, 0, 3, 1, 0, 3, 1][i]), calls=8)


def test_no_tensor_at_all():
    agree_on_calls(lambda a, b: a + b, lambda i: (i, 2))
    agree_on_calls(lambda: ex.ones(3) * 2, lambda i: ())
    agree_on_calls(lambda n: ex.arange(n).sum(), lambda i: (i,))


def test_tensors_made_inside():
    def f(x):
        ramp = ex.arange(4.0)
        mask = ex.ones(3, 4).tril()
        index = ex.tensor([0, 2, 1, 1])
        made = ex.full((3, 4), 0.5)
        hot = F.one_hot(index, 4).float()
        return (x + ramp) * mask, x[:, index], x * made, x @ hot, ex.eye(3) @ x, ex.zeros_like(x) + x, x.new_ones(2)

    agree_on_calls(f, lambda i: (draw(i, 3, 4),))


def test_numpy_arrays_and_lists_as_arguments():
    def f(array, numbers, x):
        return ex.tensor(array) * x, ex.as_tensor(array) + 1, x * ex.tensor(numbers), ex.from_numpy(array) * x

    agree_on_calls(f, lambda i: (np.full(3, i, np.float32), [1.0, float(i), 2.0], draw(i, 3)))


def test_parameters_that_modules_share():
    def scenario(wrap):
        ex.manual_seed(0)
        embed, out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        out.weight = embed.weight

        def f(words):
            loss = F.cross_entropy(out(embed(words).tanh()), words)
            loss.backward()
            return loss

        run = wrap(f)
        for i in range(CALLS):
            yield run(whole(i, 6, high=7)), embed.weight.grad, out.weight.grad is embed.weight.grad

    agree(scenario)


def test_subclasses_and_parameters_as_arguments():
    class Named(ex.Tensor):
        pass

    agree_on_calls(lambda x, p: (x * p, type(x + 1).__name__), lambda i: (draw(i, 3), nn.Parameter(draw(i, 3))))
    named = ex.ones(3).as_subclass(Named) if hasattr(ex.Tensor, "as_subclass") else ex.ones(3)
    agree_on_calls(lambda x: type(x * 2).__name__, lambda i: (named,))


def test_large_arguments():
    """Large enough for threads and for packed weights."""

    def f(x, w):
        y = F.gelu(x @ w) * 0.5
        y = y - y.mean(1, keepdim=True)
        y.square().sum().backward()
        return y

    agree_on_calls(f, lambda i: (draw(i, 300, 200), draw(i, 200, 300, grad=True)), calls=4)


# ---- resolved against a trace


def resolved(executor, name, *inputs, **attrs):
    return OpCall.resolved(executor.trace, executor, REGISTRY[name], inputs, attrs, CONTEXT.get())


@needs_native_code
def test_inputs_are_values_leaves_numbers_or_nothing():
    x, w = draw(0, 3), draw(1, 3, grad=True)
    executor = new_executor()
    with tracing(executor):
        y = x * 2.0
    call = resolved(executor, "clamp", y, None, 3.0)
    assert call.refs == (0, NONE, NUMBER + 1)
    assert call.kinds == (y._type, type(None), float)
    assert (call.numbers, call.needs, call.fresh) == ([3.0], 0, [])
    call = resolved(executor, "add", w, x)
    assert call.refs == (-2, -1)  # the second leaf is new
    assert call.fresh == [w]
    assert [leaf.tracked for leaf in call.new_leaves] == [True]
    assert call.needs == 0b01


@needs_native_code
def test_a_leaf_that_comes_twice_is_one():
    x = draw(0, 3)
    call = resolved(new_executor(), "mul", x, x)
    assert call.refs == (-1, -1)
    assert len(call.new_leaves) == 1


@needs_native_code
def test_arrays_and_numpy_numbers_are_converted_first():
    x = draw(0, 3)
    call = resolved(new_executor(), "mul", x, np.float32(2.0))
    assert call.kinds == (x._type, float)
    call = resolved(new_executor(), "mul", x, np.ones(3, np.float32))
    assert call.refs == (-1, -2)


@needs_native_code
def test_a_tensor_whose_elements_are_not_aligned_cannot_be_on_a_trace():
    odd = np.frombuffer(b"\0" * 13, np.uint8)[1:].view(np.float32)
    assert not odd.flags.aligned
    x = draw(0, 3)
    x._data = odd
    assert resolved(new_executor(), "exp", x) is None


@needs_native_code
def test_an_edge_fits_if_op_attributes_inputs_and_leaves_are_the_same():
    x, wide = draw(0, 3, 4), draw(0, 4, 4)
    executor = new_executor()
    with tracing(executor):
        kept = x.sum(dim=1)
    (step,) = executor.trace.makers
    again = new_executor()
    attrs = dict(step.attrs)
    assert resolved(again, "sum", x, **attrs).fits(step)
    assert not resolved(again, "sum", wide, **attrs).fits(step)
    assert not resolved(again, "sum", x.t().contiguous().t(), **attrs).fits(step)
    assert not resolved(again, "sum", x, **{**attrs, "dim": (0,)}).fits(step)
    assert not resolved(again, "sum", x.detach().requires_grad_(), **attrs).fits(step)
    with ex.no_grad():
        assert not resolved(again, "sum", x, **attrs).fits(step)
    assert kept._data is None


@pytest.mark.parametrize(
    ("grad", "inference", "key"), [(True, False, True), (False, False, False), (False, True, None)]
)
def test_inference_mode_is_another_guard_than_no_grad(grad, inference, key):
    assert grad_key(CONTEXT.get().but(grad=grad, inference=inference)) is key
