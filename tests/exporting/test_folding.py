"""What follows from weights alone is computed once, and the program means the same."""

from __future__ import annotations

import numpy as np

import extempo as ex
from extempo import nn
from extempo.batching.open_run import OpenRun
from extempo.exporting.calls import Dim
from extempo.exporting.folding import fold_constants


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.lstm = nn.LSTM(4, 5, num_layers=2)
        self.out = nn.Linear(5, 3)

    def forward(self, tokens):
        return self.out(self.lstm(self.embedding(tokens))[0][-1])


def tagger():
    ex.manual_seed(0)
    return ex.program(Tagger().eval(), ex.tensor([1, 2, 3]), dynamic={"tokens": {0: Dim("n", min=1)}})


def names_of(program):
    return [node.op.name for node in program.graph]


def test_the_sum_of_two_biases_becomes_a_weight():
    program = tagger()
    folded = fold_constants(program)
    assert names_of(program).count("add") == 2
    assert "add" not in names_of(folded)
    assert "lstm.bias_ih_l0" not in folded.weights
    tokens = ex.tensor([4, 5, 6, 7])
    assert ex.equal(folded(tokens), program(tokens))
    assert "folded_" in str(folded)


def test_sequences_of_different_length_run_as_one_batch():
    program = fold_constants(tagger())
    tokens = [ex.tensor(np.arange(n) % 10) for n in (1, 4, 2, 7)]
    with OpenRun(program) as run:
        futures = [run.submit(x) for x in tokens]
    for x, future in zip(tokens, futures, strict=True):
        assert ex.allclose(future.result(), program(x), atol=1e-6)
    assert run.stats()["launches"] <= 5


def test_states_and_what_would_grow_stay_as_they_are():
    norm = ex.program(nn.BatchNorm1d(3), ex.randn(4, 3), training=True, dynamic={"input": {0: "n"}})
    folded = fold_constants(norm)
    assert folded.state == norm.state
    assert set(folded.state) <= set(folded.weights)
    x = ex.randn(6, 3)
    (y, state), (z, other) = norm(x), folded(x)
    assert ex.equal(y, z)
    assert all(ex.equal(state[name], other[name]) for name in state)

    table = ex.arange(3.0)
    grown = ex.program(lambda x: x + table.expand(4, 3), ex.ones(4, 3))
    assert names_of(fold_constants(grown)) == names_of(grown)


def test_an_output_that_depends_on_no_input_is_kept():
    table = ex.arange(3.0)
    program = fold_constants(ex.program(lambda x: (x + 1, table * 2), ex.ones(2)))
    y, doubled = program(ex.zeros(2))
    assert y.tolist() == [1, 1]
    assert doubled.tolist() == [0, 2, 4]
