"""A service with small models, in this process."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.exporting.calls import Dim

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


class Tagger(nn.Module):
    """Sequences of any length through an LSTM."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.lstm = nn.LSTM(4, 5)
        self.out = nn.Linear(5, 3)

    def forward(self, tokens):
        return self.out(self.lstm(self.embedding(tokens))[0][-1])


def doubled(x):
    """As often as its values say: a negative sum never ends."""
    n = ex.tensor(0)
    while x.sum() < 100:
        x = x * 2
        n = n + 1
    return {"x": x, "n": n}


@pytest.fixture(scope="session")
def tagger():
    ex.manual_seed(0)
    return ex.program(Tagger().eval(), ex.tensor([1, 2, 3]), dynamic={"tokens": {0: Dim("n", min=1, max=50)}})


@pytest.fixture(scope="session")
def doubling():
    return ex.program(doubled, ex.ones(3))


@pytest.fixture(scope="session")
def scaling():
    return ex.program(lambda x: x * 2, ex.ones(2, 3), dynamic={"x": {0: "n"}})
