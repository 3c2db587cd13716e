"""Ragged tensors as arguments and results of programs, with any number of rows of any length."""

from __future__ import annotations

import io

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError, ExportError
from extempo.ragged_tensors.tensor import RaggedTensor


class Classifier(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.table, self.inner, self.head = nn.Embedding(50, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, tokens):
        h = self.table(tokens)
        if self.kind == "lstm":
            return self.head(self.lstm(h)[1][0][0])
        if self.kind == "encoder":
            h = self.encoder(h)
        h = self.inner(h).relu()
        if self.kind == "attention":
            return self.head((h * h.sum(-1).softmax(1).unsqueeze(-1)).sum(1))
        return self.head(h.amax(1) if self.kind == "max" else h.mean(1))


def rows(*lengths):
    return ex.ragged([ex.randint(0, 50, (n,)) for n in lengths])


def reloaded(program):
    file = io.BytesIO()
    program.save(file)
    file.seek(0)
    return ex.load_program(file)


@pytest.mark.parametrize("kind", ["mean", "max", "attention", "encoder", "lstm"])
def test_ragged_classifiers_are_exported_saved_and_loaded(kind):
    model = Classifier(kind).eval()
    program = reloaded(ex.program(model, rows(3, 5, 2)))
    assert [str(spec) for spec in program.inputs] == [
        "tokens.values: i64[tokens_total]",
        "tokens.offsets: i64[tokens_rows + 1]",
    ]
    for lengths in ((1,), (4, 4, 7, 1), (30,) * 8, (5, 3), (1, 1, 1)):
        tokens = rows(*lengths)
        for _ in range(3):
            assert ex.allclose(program(tokens), model(tokens).detach(), atol=1e-5)
        with ex.eager():
            assert ex.equal(program(tokens), program(tokens))


def test_ragged_results_have_their_rows():
    program = reloaded(
        ex.program(lambda x, w: {"y": x * 2, "sums": (x * w).sum(1)}, (ex.ragged([[1.0], [2.0, 3.0]]), ex.ones(1)))
    )
    for _ in range(3):
        made = program(ex.ragged([[1.0, 2.0], [], [5.0]]), ex.ones(1))
        assert isinstance(made["y"], RaggedTensor)
        assert made["y"].tolist() == [[2.0, 4.0], [], [10.0]]
        assert made["sums"].tolist() == [3.0, 0.0, 5.0]


def test_rows_and_their_elements_have_the_names_that_dynamic_gives():
    def fn(x, bias):
        return x.sum(1) + bias

    program = ex.program(
        fn, (ex.ragged([[1.0], [2.0, 3.0]]), ex.ones(2)), dynamic={"x": {0: "batch", 1: "time"}, "bias": {0: "batch"}}
    )
    assert str(program.inputs[1]) == "x.offsets: i64[batch + 1]"
    assert program(ex.ragged([[1.0], [], [2.0]]), ex.ones(3)).tolist() == [2.0, 1.0, 3.0]
    with pytest.raises(ex.errors.ShapeError, match="must be 3"):
        program(ex.ragged([[1.0], [], [2.0]]), ex.ones(2))


def test_another_dimension_may_be_ragged():
    program = ex.program(lambda x: x.softmax(2), ex.ragged([ex.ones(2, 3), ex.ones(2, 1)], dim=2))
    x = ex.ragged([ex.randn(2, 4), ex.randn(2, 2)], dim=2)
    assert all(map(ex.allclose, program(x), x.softmax(2)))
    with pytest.raises(DtypeError, match="dimension 2 is ragged"):
        program(ex.ragged([ex.ones(2, 3)]))
    with pytest.raises(DtypeError, match="must be a ragged tensor"):
        program(ex.ones(2, 3))


def test_lengths_read_as_numbers_are_refused_with_their_line():
    with pytest.raises(ExportError, match=r"test_ragged_rows\.py:\d+: the lengths of the rows"):
        ex.program(lambda x: ex.stack([row.sum() for row in x]), rows(2, 3))
    with pytest.raises(ExportError, match="lengths of the rows"):
        ex.program(lambda x: x.to_padded_tensor(0), rows(2, 3))


def test_ragged_programs_can_be_trained():
    model = Classifier("mean").eval()
    trained = ex.program(model, rows(3, 5, 2)).module()
    tokens = rows(4, 1)
    trained(tokens).sum().backward()
    model(tokens).sum().backward()
    assert ex.allclose(dict(trained.named_parameters())["inner.weight"].grad, model.inner.weight.grad, atol=1e-6)
