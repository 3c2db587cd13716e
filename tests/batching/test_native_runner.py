"""NativeRunner, the fast runner, does what VmapRunner does."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.backends.selection import native
from extempo.batching.native_runner import NativeRunner
from extempo.batching.vmap_runner import VmapRunner

from .runners import F, check, close, kind_of, parameters, x

pytestmark = pytest.mark.skipif(native() is None, reason="plans need the native backend")


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
