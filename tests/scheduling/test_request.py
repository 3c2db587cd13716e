"""A plan's values and gradients are eager mode's, bit for bit."""

from __future__ import annotations

import gc

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import extempo as ex
from extempo.backends.selection import native
from extempo.scheduling.request import Plan, Request, Unplannable, plan

from .programs import LSTM_CELL, lstm_cell, program
from .taping import check, draw, record

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

F = ex.nn.functional


@pytest.mark.parametrize("seed", range(60))
def test_a_random_program_has_eager_bits(seed):
    rng = np.random.default_rng(seed)
    fn, arguments = program(rng, int(rng.integers(3, 25)))
    fixed_starts = bool(rng.random() < 0.7)
    cut = int(rng.integers(1, 12)) if rng.random() < 0.4 else None
    check(fn, arguments, fixed_starts=fixed_starts, cut=cut)


def attention(x, w, b, out):
    batch, length, width = x.shape
    q, k, v = (t.reshape(batch, length, 2, width // 2).transpose(1, 2) for t in F.linear(x, w, b).chunk(3, -1))
    y = F.softmax(q @ k.transpose(-1, -2) * 0.5, -1) @ v
    return (F.gelu(F.linear(y.transpose(1, 2).reshape(batch, length, width), out)) + x).mean()


def conv_net(x, w, b):
    return (F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2) ** 2).mean()


ROWS = ex.tensor([0, 3, 1, 3, 2])

CASES = {
    "an LSTM cell": (lstm_cell, LSTM_CELL),
    "attention": (attention, [(2, 5, 8), (24, 8), (24,), (8, 8)]),
    "fused attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True).sum(), [(2, 2, 5, 4)]),
    "convolution and pooling": (conv_net, [(2, 3, 8, 8), (4, 3, 3, 3), (4,)]),
    "layer norm": (lambda x, w, b: (F.layer_norm(x, (4,), w, b) * x).sum(), [(5, 4), (4,), (4,)]),
    "batch norm": (lambda x: (F.batch_norm(x, None, None, training=True) * x).sum(), [(5, 4)]),
    "variance": (lambda x: x.var(1).sum() + x.std(), [(5, 4)]),
    "largest elements": (lambda x: x.max(1)[0].sum() + x.amax(), [(5, 4)]),
    "cross entropy": (lambda x: F.cross_entropy(x, ROWS, label_smoothing=0.1), [(5, 4)]),
    "log softmax": (lambda x: F.nll_loss(F.log_softmax(x, -1), ROWS), [(5, 4)]),
    "embedding": (lambda x: (F.embedding(ROWS, x) ** 2).sum(), [(5, 4)]),
    "indexing": (lambda x: x[ROWS].sum() + (x[ROWS, ROWS] ** 2).sum(), [(5, 4)]),
    "a number written by index": (lambda x: (x.scatter(1, ROWS.reshape(5, 1), 1.5) * x).sum(), [(5, 4)]),
    "powers": (lambda x, y: ((x * x) ** 1.5 + x.abs() ** y.abs()).sum(), [(5, 4), (5, 4)]),
    "padding": (lambda x: (F.pad(x, (1, 2)) ** 2).sum(), [(5, 4)]),
    "stacking": (lambda x, y: (ex.stack([x, y, x], 1) * 2).sum(), [(5, 4), (5, 4)]),
    "masking": (lambda x: x.masked_fill(x > 0, float("-inf")).softmax(-1).sum(), [(5, 4)]),
    "an input used twice": (lambda x: (x * x).sum(), [(5, 4)]),
    "a value used often": (lambda x: sum((x.tanh() * float(i) for i in range(30)), x).sum(), [(5, 4)]),
    "a sum over what was broadcast": (lambda x, b, c: (x * b + c).sum(), [(5, 4), (4,), (5, 1)]),
    "views of views": (lambda x: (x.permute(1, 0).reshape(-1)[2:7] * 2).sum(), [(5, 4)]),
    "columns": (lambda x: (x[:, 1] * x[:, 2] + x[:, 1]).sum(), [(5, 4)]),
    "slices that overlap": (lambda x: (x[1:3] * x[2:4] + x[0]).sum(), [(5, 4)]),
    "a part after the whole": (lambda x: (x * 2).sum() + x[1:3].sum(), [(5, 4)]),
    "the whole after a part": (lambda x: x[1:3].sum() + (x * 2).sum(), [(5, 4)]),
    "a slice of everything": (lambda x: (x[:] * x[0:5]).sum(), [(5, 4)]),
    "a slice with a step": (lambda x: (x[::2] * x[1:4, ::3].sum()).sum(), [(5, 4)]),
    "a root that is a view": (lambda x: (x * 2)[1], [(5, 4)]),
    "a root with many elements": (lambda x: (x * 2).tanh(), [(5, 4)]),
    "no elements": (lambda x: (x * 2).tanh() + 1.0, [(0, 4)]),
    "one element": (lambda x: (x * x).tanh() * 3, [()]),
    "one row": (lambda x, w: (x @ w.T).sum(), [(1, 4), (1, 4)]),
    "a reshape that copies": (lambda x: (x.T.reshape(2, 10) * 2).sum(), [(5, 4)]),
    "expanding": (lambda x: (x.expand(3, 5, 4) * 2.0).sum(), [(5, 1)]),
}


@pytest.mark.parametrize("fixed_starts", [True, False], ids=["starts known", "starts given"])
@pytest.mark.parametrize("name", CASES)
def test_eager_bits(name, fixed_starts):
    fn, shapes = CASES[name]
    check(fn, [draw(*shape, seed=i) for i, shape in enumerate(shapes)], fixed_starts)


@pytest.mark.parametrize("cut", range(1, 17))
def test_steps_may_have_run_before(cut):
    check(lstm_cell, [draw(*shape) for shape in LSTM_CELL], cut=cut)


def test_memory_does_not_grow_with_what_is_not_kept():
    def chain(length):
        def fn(x, w):
            for _ in range(length):
                x = (x @ w).tanh()
            return x

        tape, (y,) = record(fn, [draw(8, 8, requires_grad=False), draw(8, 8, seed=1, requires_grad=False)])
        made = plan(Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(y),)))
        assert isinstance(made, Plan)
        return made.arena_bytes

    assert chain(12) == chain(4)
    assert chain(80) == chain(40) < 4 * chain(4)  # by way of a shorter loop


def test_a_value_that_was_not_kept_is_named():
    tape, (y,) = record(lambda x: (x.tanh() * 2).sum(), [draw(5, 4)])
    made = plan(Request(tape.steps, 1, tape.leaves, frozenset(), (tape.place(y),)))
    assert isinstance(made, Unplannable)
    assert made.reason == "the result of tanh was not kept"


@pytest.mark.parametrize("collects", [True, False])
def test_planning_leaves_nothing_to_the_garbage_collector_and_its_switch_as_it_was(collects):
    tape, (result,) = record(lambda x: (F.softmax(x @ x.T, -1) * 2).sum(), [draw(4, 4)])
    request = Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(result),))
    plan(request)
    was = gc.isenabled()
    try:
        gc.collect()
        (gc.enable if collects else gc.disable)()
        made = plan(request)
        assert gc.isenabled() is collects
        gc.disable()
        del made
        assert gc.collect() == 0
    finally:
        (gc.enable if was else gc.disable)()
