"""Does it pay? What `ex.compare` finds on the watched model, with nothing changed."""

from __future__ import annotations

import types

import pytest

import extempo as ex
from extempo import comparing, nn
from extempo.errors import ArgumentError
from extempo.nn import functional as F
from extempo.studio_server import comparison
from extempo.train import Trainer


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Few rounds: what is found is not the point."""
    monkeypatch.setattr(
        comparison,
        "compare",
        lambda *args, **options: comparing.compare(*args, **options, steps=4, warm_up=4, rounds=2),
    )


def test_a_loop_is_compared_with_a_stand_in_for_its_loss():
    model = nn.Linear(3, 1)
    optimizer = ex.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.tolist()
    samples = [((ex.ones(n, 3),), {}) for n in (2, 4)]
    watch = types.SimpleNamespace(model=model, optimizer=optimizer, samples=samples, trainer=None)
    message = comparison.compare_message("q1", comparison.compared(watch, None), True)
    assert message["columns"] == ["", "eager", "compile", "static"]
    assert [bar["name"] for bar in message["bars"]] == ["eager", "compile", "static"]
    assert all(bar["seconds"] > 0 for bar in message["bars"])
    assert message["verdict"]
    assert any("stands for it" in note for note in message["notes"])
    assert model.weight.tolist() == before


def test_a_trainer_is_compared_with_its_own_loss_and_draws_nothing():
    model = nn.Linear(3, 2)
    trainer = Trainer(model, F.cross_entropy, ex.optim.SGD(model.parameters(), lr=0.1), progress=False)
    data = [(ex.ones(4, 3), ex.tensor([0, 1, 0, 1])) for _ in range(3)]
    trainer.fit(data, epochs=1)
    before = model.weight.tolist(), ex.random.get_rng_state().tolist()
    watch = types.SimpleNamespace(model=model, optimizer=trainer.optimizer, samples=[], trainer=trainer)
    found = comparison.compared(watch, None)
    assert found["eager"].runs
    assert (model.weight.tolist(), ex.random.get_rng_state().tolist()) == before


def test_without_an_input_there_is_nothing_to_compare():
    watch = types.SimpleNamespace(model=None, optimizer=None, samples=[], trainer=None)
    with pytest.raises(ArgumentError, match="captured"):
        comparison.compared(watch, None)
