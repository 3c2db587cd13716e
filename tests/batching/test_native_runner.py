"""NativeRunner, the fast runner, does what VmapRunner does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.backends.selection import native
from extempo.batching.kinds import CallKind, Input
from extempo.batching.native_runner import NativeRunner
from extempo.batching.vmap_runner import VmapRunner

F = nn.functional
SIZES = (1, 2, 3, 15, 16, 17, 100, 1000)

pytestmark = pytest.mark.skipif(native() is None, reason="plans need the native backend")


def kind_of(fn: Any, samples: list[Any], captured: tuple[Any, ...] = (), grad: bool = True) -> CallKind:
    """A kind, from one sample."""

    def flat(*inputs: Any) -> tuple[Any, ...]:
        out = fn(*inputs)
        return tuple(out) if isinstance(out, tuple | list) else (out,)

    inputs = []
    for x in samples:
        if isinstance(x, ex.Tensor):
            inputs.append(Input(x._type, grad and x.dtype.is_floating_point))
        else:
            inputs.append(Input(type(x), False))
    given = [
        x.detach().requires_grad_(i.tracked) if isinstance(x, ex.Tensor) else x
        for x, i in zip(samples, inputs, strict=True)
    ]
    if not grad:
        with ex.no_grad():
            results = flat(*given)
    else:
        results = flat(*given)
    tracked = tuple(grad and y.requires_grad for y in results)
    return CallKind("test", flat, tuple(inputs), tuple(y._type for y in results), tracked, captured)


def rows_for(x: Any, n: int, rng: np.random.Generator) -> Any:
    """Rows like a sample: floats near it, integers among its own."""
    if not isinstance(x, ex.Tensor):
        if isinstance(x, float):
            return rng.standard_normal(n).astype(np.float32)
        return rng.integers(0, x + 1, n)
    a = x.detach().numpy()
    if a.dtype.kind == "f":
        return (np.broadcast_to(a, (n, *a.shape)) + 0.3 * rng.standard_normal((n, *a.shape))).astype(a.dtype)
    if a.dtype.kind == "b":
        return rng.integers(0, 2, (n, *a.shape)).astype(bool)
    return rng.integers(0, a.max() + 1, (n, *a.shape)).astype(a.dtype)


def close(a: Any, b: Any, what: str, scale: float = 1.0) -> None:
    if a is None or b is None:
        # No gradient and one of zeros are the same.
        assert a is None or not a.any(), what
        assert b is None or not b.any(), what
        return
    assert a.dtype == b.dtype, what
    assert a.shape == b.shape, what
    tolerance = (1e-9 if a.dtype == np.float64 else 2e-4) * scale
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


def check(
    fn: Any,
    samples: list[Any],
    captured: tuple[Any, ...] = (),
    shared: tuple[int, ...] = (),
    sizes: tuple[int, ...] = SIZES,
    grad: bool = True,
    masks: tuple[tuple[bool, ...], ...] = (),
    planned: bool = True,
) -> NativeRunner:
    """Compare with VmapRunner at several numbers of calls: forward, backward, and what is left over all of them."""
    kind = kind_of(fn, samples, captured, grad)
    which = tuple(i in shared for i in range(len(samples)))
    fast, slow = NativeRunner.make(kind, which), VmapRunner(kind, which)
    if fast is not None and planned:
        fast._vmap = None  # so that nobody falls back to it
    assert (fast is not None) == planned
    if fast is None:
        return None
    rng = np.random.default_rng(0)
    rests: list[tuple[Any, Any]] = []
    for n in sizes:
        inputs = [x if s else rows_for(x, n, rng) for x, s in zip(samples, which, strict=True)]
        (got, saved), (expected, kept) = fast.forward(inputs, n), slow.forward(inputs, n)
        assert len(got) == len(expected)
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            close(a, b, f"result {i} of {n}")
            assert a.flags.c_contiguous
        if not any(kind.tracked):
            assert saved is None
            continue
        for mask in masks or (kind.tracked,):
            gradients = [
                rng.standard_normal(y.shape).astype(y.dtype) if t else None for y, t in zip(expected, mask, strict=True)
            ]
            (of_inputs, rest), (like, left) = fast.backward(saved, gradients), slow.backward(kept, gradients)
            for i, (a, b) in enumerate(zip(of_inputs, like, strict=True)):
                close(a, b, f"gradient {i} of {n}", 1.0 if not which[i] else n**0.5)
            rests.append((rest, left))
    if rests:
        got = {id(t): g for t, g in fast.finish([a for a, _ in rests])}
        expected = {id(t): g for t, g in slow.finish([b for _, b in rests])}
        for t in captured:
            close(got.get(id(t)), expected.get(id(t)), f"gradient of {tuple(t.shape)}", float(sum(sizes)) ** 0.5)
    return fast


def x(*shape: int, dtype: Any = ex.float32) -> Any:
    return ex.randn(shape, dtype=dtype)


def parameters(module: Any) -> tuple[Any, ...]:
    return tuple(module.parameters())


@pytest.fixture(autouse=True)
def _seed():
    ex.manual_seed(0)


@pytest.mark.parametrize("dtype", [ex.float32, ex.float64])
def test_an_lstm_cell(dtype):
    cell = nn.LSTMCell(5, 6, dtype=dtype)
    check(
        lambda a, h, c: cell(a, (h, c)),
        [x(5, dtype=dtype), x(6, dtype=dtype), x(6, dtype=dtype)],
        parameters(cell),
        masks=((True, True), (True, False), (False, True)),
    )


def test_a_cell_whose_sizes_are_numbers_of_calls():
    cell = nn.LSTMCell(16, 16)
    check(lambda a, h, c: cell(a, (h, c)), [x(16)] * 3, parameters(cell), sizes=(1, 4, 16, 64))


def test_a_gru_cell():
    cell = nn.GRUCell(5, 6)
    check(cell, [x(5), x(6)], parameters(cell))


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_an_rnn_cell(nonlinearity):
    cell = nn.RNNCell(5, 6, nonlinearity=nonlinearity)
    check(cell, [x(5), x(6)], parameters(cell))


def test_a_linear_layer():
    layer = nn.Linear(7, 3)
    check(layer, [x(7)], parameters(layer))
    check(layer, [x(4, 7)], parameters(layer))


def test_a_linear_layer_of_one_result():
    layer = nn.Linear(7, 1)
    check(layer, [x(7)], parameters(layer))


def test_an_embedding():
    layer = nn.Embedding(10, 4)
    check(layer, [ex.tensor(9)], parameters(layer))
    check(layer, [ex.tensor([9, 3, 0])], parameters(layer))


def test_tree_cells():
    cell = nn.NaryTreeLSTMCell(5, 6, 2)
    state = [x(6), x(6), x(6), x(6)]
    check(lambda a, b, c, d: tuple(cell(nn.TreeState(a, b), nn.TreeState(c, d))), state, parameters(cell))
    check(lambda a: tuple(cell.leaf(a)), [x(5)], parameters(cell))
    other = nn.ChildSumTreeLSTMCell(5, 6)
    check(lambda a, b, c, d, e: tuple(other((a, b), (c, d), x=e)), [*state, x(5)], parameters(other))


def test_a_layer_norm():
    layer = nn.LayerNorm(12)
    layer.weight.data.copy_(ex.randn(12))
    check(layer, [x(12)], parameters(layer))


def test_softmax_and_cross_entropy():
    check(lambda a: F.softmax(a, -1), [x(9)])
    check(lambda a: F.log_softmax(a, 0), [x(9, 2)])
    check(F.cross_entropy, [x(9), ex.tensor(8)])
    check(lambda a, b: F.cross_entropy(a, b, reduction="sum"), [x(4, 9), ex.tensor([8, 1, 2, 3])])


def test_attention_over_one_sample():
    def attention(q, k, v):
        weights = F.softmax(q @ k.mT / 2.0, -1)
        return weights @ v

    check(attention, [x(3, 4), x(5, 4), x(5, 6)], sizes=(1, 2, 3, 17, 100))
    check(F.scaled_dot_product_attention, [x(2, 3, 4), x(2, 5, 4), x(2, 5, 4)], sizes=(1, 2, 3, 17, 100))


def test_a_query_against_a_memory_that_all_share():
    def read(q, memory):
        return F.softmax(memory @ q, 0) @ memory

    check(read, [x(4), x(7, 4)], shared=(1,))
    check(read, [x(4), x(7, 4)])


def test_elementwise_ops():
    check(lambda a, b: a * b + ex.tanh(a) / (1.5 + b * b), [x(5), x(5)])
    check(lambda a, b: (a * b, a - b, ex.where(a > b, a, b)), [x(3, 4), x(4)])
    check(lambda a: (a, a + 1.0), [x(3)])
    check(lambda a, b: a * b, [x(), x(3)])


def test_products_with_a_parameter():
    w, v = nn.Parameter(x(4, 3)), nn.Parameter(x(4))
    check(lambda a: a @ w, [x(4)], (w,))
    check(lambda a: a @ w, [x(5, 4)], (w,))
    check(lambda a: w.T @ a, [x(4)], (w,))
    check(lambda a: a @ v, [x(4)], (v,))
    check(lambda a: a * v, [x(4)], (v,))
    check(lambda a: (a * v).sum(), [x(4)], (v,))


def test_a_parameter_that_is_changed_first():
    w = nn.Parameter(x(4, 3))
    check(lambda a: a @ ex.tanh(w * 2.0), [x(4)], (w,))


def test_a_parameter_and_something_shared_in_one_product():
    w = nn.Parameter(x(4, 3))
    check(lambda a, s: a @ (w * s), [x(4), x(3)], (w,), shared=(1,))
    check(lambda a, s: a @ (w * s), [x(4), 2.5], (w,), shared=(1,))


def test_joining_and_cutting():
    check(lambda a, b: ex.cat([a, b]), [x(3), x(4)])
    check(lambda a, b: ex.stack([a, b], 1), [x(3), x(3)])
    check(lambda a: a[1:3], [x(5)])
    check(lambda a: (a[::2], a[1]), [x(5, 2)])
    check(lambda a: tuple(a.chunk(3, -1)), [x(2, 6)], masks=((True, True, True), (False, True, False)))
    check(lambda a: a.reshape(6, 2).T, [x(3, 4)])
    check(lambda a: a.T.reshape(12), [x(3, 4)])


def test_results_that_are_inputs_or_the_same_in_all_calls():
    w = nn.Parameter(x(3))
    check(lambda a: (a, a, a * 2.0), [x(3)], masks=((True, True, True), (True, False, False), (False, True, True)))
    check(lambda a: w, [x(3)], (w,))
    check(lambda a: (w * 2.0, a), [x(3)], (w,))
    check(lambda a: (a.argmax(), a.exp()), [x(3)])
    check(lambda a, b: (b, a), [x(3), ex.tensor([1, 2])])


def test_reductions():
    check(lambda a: a.sum(), [x(5)])
    check(lambda a: (a.mean(0), a.sum(1, keepdim=True)), [x(5, 3)])
    check(lambda a: a.max(0).values, [x(5, 3)])
    check(lambda a: a.logsumexp(0), [x(5)])
    check(lambda a: a.sum(), [x()])


def test_numbers_that_all_share_are_not_fixed():
    kind = kind_of(lambda a, s: a * s + 1.0, [x(3), 2.0])
    fast = NativeRunner.make(kind, (False, True))
    a = np.ones((4, 3), np.float32)
    for number in (2.0, 3.0, -1.5):
        (y,), saved = fast.forward([a, number], 4)
        np.testing.assert_allclose(y, a * number + 1)
        (g, none), _ = fast.backward(saved, [a])
        np.testing.assert_allclose(g, a * number)
        assert none is None
    check(lambda a, s: a * s, [x(3), 2], shared=(1,))
    check(lambda a, s: a * s, [x(3), True], shared=(1,))


def test_rows_of_numbers():
    check(lambda a, s: a * s, [x(3), 2.0])
    check(lambda a, k: a + k, [x(3), 5])


def test_a_function_that_looks_at_a_number_is_not_planned():
    check(lambda a, s: a * s if s > 0 else a, [x(3), 2.0], shared=(1,), planned=False)
    check(lambda a, s: a * (s + 1), [x(3), 2.0], shared=(1,), planned=False)


def test_where_a_slice_begins_may_be_a_number():
    from extempo.core.op import REGISTRY
    from extempo.dispatch.dispatcher import apply

    spec = {"spec": ((2, 1),)}
    kind = kind_of(lambda a, k: apply(REGISTRY["slice"], (a, k), spec), [x(6), 1])
    fast = NativeRunner.make(kind, (False, True))
    if fast is None:
        pytest.skip("slices by numbers are not planned")
    a = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    for k in range(5):
        (y,), saved = fast.forward([a, k], 5)
        np.testing.assert_array_equal(y, a[:, k : k + 2])
        (g, _), _ = fast.backward(saved, [np.ones_like(y)])
        assert g.sum() == 10
        assert (g[:, k : k + 2] == 1).all()


def test_without_gradients():
    cell = nn.LSTMCell(5, 6)
    fast = check(lambda a, h, c: cell(a, (h, c)), [x(5), x(6), x(6)], parameters(cell), grad=False)
    assert fast is not None


def test_gradients_stop_where_they_are_told_to():
    w = nn.Parameter(x(4, 3))
    check(lambda a: (a @ w).detach() * a.sum(), [x(4)], (w,))

    def part(a):
        with ex.no_grad():
            b = a @ w
        return b * a[:3]

    check(part, [x(4)], (w,))


def test_random_draws_and_writes_are_not_planned():
    before = ex.get_rng_state().numpy().tobytes()
    check(lambda a: F.dropout(a, 0.5), [x(4)], planned=False)
    kind_before = ex.get_rng_state().numpy().tobytes()
    assert before != kind_before  # the sample itself was run

    def written(a):
        b = a.clone()
        b.add_(1.0)
        return b

    check(written, [x(4)], planned=False)


def test_a_tensor_that_the_function_makes():
    check(lambda a: a + ex.arange(4).float(), [x(4)])
    check(lambda a: ex.cat([a, ex.zeros(2)]), [x(4)])
    w = nn.Parameter(x(4))
    check(lambda a: a * w.data, [x(4)], (w,), planned=False)  # memory that may be exchanged


def test_memory_that_lies_otherwise():
    layer = nn.Linear(6, 3)
    kind = kind_of(layer, [x(6)], parameters(layer))
    fast, slow = NativeRunner.make(kind, (False,)), VmapRunner(kind, (False,))
    a = np.asfortranarray(np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32))
    (got, _), (expected, _) = fast.forward([a], 8), slow.forward([a], 8)
    close(got[0], expected[0], "of columns")
    layer.weight.data = ex.randn(6, 3).T
    close(fast.forward([a], 8)[0][0], slow.forward([a], 8)[0][0], "after the weight moved")


def test_an_index_that_is_out_of_range_says_so():
    layer = nn.Embedding(10, 4)
    kind = kind_of(layer, [ex.tensor(9)], parameters(layer))
    fast = NativeRunner.make(kind, (False,))
    with pytest.raises(IndexError):
        fast.forward([np.array([3, 12])], 2)


@pytest.mark.parametrize("n", [2, 5, 37, 211])
def test_a_template_says_what_planning_at_that_size_says(n):
    from extempo.batching.partition import Partition
    from extempo.batching.programs import Programs, _row_inputs
    from extempo.batching.row_tracer import KindTrace

    cell, tree = nn.LSTMCell(7, 11), nn.NaryTreeLSTMCell(7, 11, 2)
    kinds = [
        kind_of(lambda a, h, c: cell(a, (h, c)), [x(7), x(11), x(11)], parameters(cell)),
        kind_of(lambda a, b, c, d: tuple(tree((a, b), (c, d))), [x(11)] * 4, parameters(tree)),
        kind_of(lambda q, k, v: F.softmax(q @ k.mT, -1) @ v, [x(3, 4), x(7, 4), x(7, 6)]),
    ]
    for kind in kinds:
        shared = (False,) * len(kind.inputs)
        programs = Programs(kind, shared, ())
        split = Partition(KindTrace(kind, _row_inputs(kind, shared, (), n), n, 0), n, kind.tracked)
        back = programs._backwards[kind.tracked]
        for filled, part in ((back._backward, split.backward), (back._deferred, split.deferred)):
            if filled is None:
                assert part is None
                continue
            made, _ = filled.template._filled(n)
            assert made.program.types == part.program.types
            assert made.program.places == part.program.places
            assert made.program.roots == part.program.roots
            for a, b in zip(made.nodes, part.nodes, strict=True):
                assert a[2:] == b[2:]
                assert getattr(a[1], "meta", None) == getattr(b[1], "meta", None)
                assert getattr(a[1], "scratch", None) == getattr(b[1], "scratch", None)


def test_what_is_left_for_the_end_is_done_once_whichever_results_have_gradients():
    cell, rng = nn.LSTMCell(7, 11), np.random.default_rng(0)
    kind = kind_of(lambda a, h, c: cell(a, (h, c)), [x(7), x(11), x(11)], parameters(cell))
    runners = [NativeRunner.make(kind, (False,) * 3), VmapRunner(kind, (False,) * 3)]
    found = []
    for runner in runners:
        rng, rests = np.random.default_rng(0), []
        for n, given in ((4, (True, False)), (3, (True, True)), (2, (False, True))):
            rows = [rng.standard_normal((n, size)).astype(np.float32) for size in (7, 11, 11)]
            _, saved = runner.forward(rows, n)
            g = [rng.standard_normal((n, 11)).astype(np.float32) for _ in given]
            rests.append(
                runner.backward(saved, [one if is_there else None for one, is_there in zip(g, given, strict=True)])[1]
            )
        found.append({id(t): g for t, g in runner.finish(rests)})
    assert found[0].keys() == found[1].keys() == {id(t) for t in parameters(cell)}
    for t in parameters(cell):
        close(found[0][id(t)], found[1][id(t)], "a weight")
    backs = runners[0]._programs[()]._backwards
    assert backs[True, False] is not backs[True, True]
    assert backs[True, False].leader is backs[True, True]


def test_kinds_that_leave_other_things_for_the_end_are_kept_apart():
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    captured = (*parameters(first), *parameters(second))
    kind = kind_of(lambda a: (first(a), second(a)), [x(5)], captured)
    made = NativeRunner.make(kind, (False,))
    programs = made._programs[()]
    backs = [programs.backward_for(given) for given in ((True, True), (True, False), (False, True))]
    assert len({id(back.leader) for back in backs}) == 3
