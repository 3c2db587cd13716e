"""Stretches of programs: plans give the bits of the steps that they replace, at every size and layout, in threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.errors import ExtempoError
from extempo.exporting.stretches import MOST_LAYOUTS, PlannedStretch
from extempo.func.tree import leaves
from extempo.scheduling.request import can_plan

pytestmark = pytest.mark.skipif(not can_plan(), reason="there are no plans without native code")


def attention(x):
    b, t, d = x.shape
    q = x.view(b, t, 2, d // 2).transpose(1, 2)
    mask = ex.tril(ex.ones(t, t)) == 0
    scores = (q @ q.transpose(-1, -2) / d**0.5).masked_fill(mask, float("-inf")).softmax(-1)
    return (scores @ q).transpose(1, 2).reshape(b, t, -1) + ex.arange(t).unsqueeze(-1)


def loops(x):
    y = ex.cond(x.sum() > 0, lambda x: x * 2 + 1, lambda x: x - 1, (x,))
    y, n = ex.while_loop(lambda y, n: (y.abs().sum() < 100) & (n < 9), lambda y, n: (y * 2, n + 1), (y, ex.tensor(0)))
    last, rows = ex.scan(lambda c, row: ((c + row).tanh(), (c * row).exp()), ex.zeros(x.shape[1]), y.sin())
    return last, rows, n, ex.map(lambda row: row.sum() * 2, rows)


def pieces(x):
    return x, x[:, 1:].exp(), x.T.tanh(), x.expand(2, *x.shape) * 2, x[::2], ex.cat([x, x]), x.sort(-1)[0] + 1


MODELS = {
    "mlp": (nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), 8, True),
    "encoder": (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), (3, 8), True),
    "attention": (attention, (5, 8), False),
    "lstm": (nn.LSTM(8, 6), (2, 8), True),
    "loops": (loops, 5, False),
    "pieces": (pieces, 6, False),
}


def exported(name):
    model, shape, is_module = MODELS[name]
    shape = shape if isinstance(shape, tuple) else (shape,)
    argument = {"mlp": "input", "encoder": "src", "lstm": "input"}.get(name, "x")
    program = ex.program(model.eval() if is_module else model, ex.randn(4, *shape), dynamic={argument: {0: "n"}})
    return program, shape


def bits(tree):
    return [(t._type, np.ascontiguousarray(t.numpy()).tobytes()) for t in leaves(tree)]


@pytest.mark.parametrize("name", MODELS)
def test_plans_give_the_bits_of_single_ops_at_every_size(name):
    program, shape = exported(name)
    for n in (0, 1, 2, 3, 7, 20, 33):
        x = ex.randn(n, *shape)
        try:
            with ex.eager():
                expected = program(x)
        except ExtempoError:
            for _ in range(3):
                with pytest.raises(ExtempoError):
                    program(x)
            continue
        for _ in range(4):
            assert bits(program(x)) == bits(expected)


def stretches_of(program):
    return [
        part for bound in program._runner._bound.values() for part in bound.parts or () if type(part) is PlannedStretch
    ]


def test_what_can_be_planned_is_one_stretch():
    program, shape = exported("mlp")
    x = ex.randn(5, *shape)
    for _ in range(2):
        program(x)
    (stretch,) = stretches_of(program)
    assert [step.op.name for step in stretch.steps] == ["linear", "relu", "linear"]
    assert len(stretch.planned) == 1
    assert stretch.reason is None


def test_an_op_without_native_code_stands_between_stretches():
    program = ex.program(lambda x: ex.linalg.inv(x.exp() + ex.eye(3)).tanh() * 2, ex.randn(3, 3))
    x = ex.randn(3, 3)
    results = [program(x) for _ in range(3)]
    assert len(stretches_of(program)) == 2
    assert all(ex.equal(result, results[0]) for result in results)


def test_inputs_that_lie_otherwise_get_plans_of_their_own():
    program = ex.program(lambda x: (x @ x).exp() + x.sum(0), ex.randn(4, 4))
    x = ex.randn(4, 4)
    other = ex.randn(8, 12)
    for given in (x, x.T, other[::2, ::3], other.T[1:9:2, :4], x.expand(4, 4)) * 3:
        with ex.eager():
            expected = program(given)
        assert bits(program(given)) == bits(expected)
    (stretch,) = stretches_of(program)
    assert 3 <= len(stretch.planned) <= MOST_LAYOUTS


def test_weights_may_be_written_and_replaced():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh()).eval()
    program = ex.program(model, ex.randn(2, 3))
    x = ex.randn(2, 3)
    for change in (lambda w: None, lambda w: w.mul_(2), lambda w: setattr(w, "data", ex.randn(3, 4).T)):
        with ex.no_grad():
            change(model[0].weight)
            for _ in range(3):
                assert ex.allclose(program(x), model(x))
    program.weights["0.bias"] = ex.ones(4)
    for _ in range(3):
        assert ex.allclose(program(x), (x @ model[0].weight.detach().T + 1).tanh())


def test_a_plan_that_fails_raises_the_error_of_the_op_and_works_again():
    program = ex.program(lambda i, w: F.embedding(i, w).exp(), (ex.tensor([0, 1]), ex.randn(5, 3)))
    good, bad, w = ex.tensor([4, 2]), ex.tensor([1, 7]), ex.randn(5, 3)
    expected = bits(F.embedding(good, w).exp())
    for _ in range(3):
        assert bits(program(good, w)) == expected
        with pytest.raises(IndexError):
            program(bad, w)


def test_threads_share_a_program():
    program, shape = exported("encoder")
    inputs = [ex.randn(1 + i % 5, *shape) for i in range(20)]
    with ex.eager():
        expected = [bits(program(x)) for x in inputs]
    wrong = []

    def run(first):
        for i in range(60):
            at = (first + i) % len(inputs)
            if bits(program(inputs[at])) != expected[at]:
                wrong.append(at)

    threads = [threading.Thread(target=run, args=(5 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_draws_are_new_at_every_call():
    program = ex.program(lambda x: F.dropout(x.exp(), 0.5) + 1, ex.ones(100), check=False)
    ex.manual_seed(0)
    ours = [program(ex.ones(100)) for _ in range(4)]
    ex.manual_seed(0)
    theirs = [F.dropout(ex.ones(100).exp(), 0.5) + 1 for _ in range(4)]
    assert all(map(ex.equal, ours, theirs))
    assert not ex.equal(ours[2], ours[3])


def test_results_own_their_memory():
    program = ex.program(lambda x: (x, x + 1, ex.zeros(x.shape[0])), ex.ones(3), dynamic={"x": {0: "n"}})
    x = ex.ones(3)
    for _ in range(4):
        _, y, z = program(x)
        y.add_(1)
        z.add_(1)
    assert all(map(ex.equal, program(x), (x, ex.full((3,), 2.0), ex.zeros(3))))
