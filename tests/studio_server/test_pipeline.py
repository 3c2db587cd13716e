"""The pipeline's numbers are those that the model computes; what is typed is checked."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.cli.demo_task import FIRST_BATCH, GROUPS, Classifier
from extempo.studio_server.commands import RefusedCommand
from extempo.studio_server.pipeline import asked_of, bars_of, predict, sequences_of, stages_of, typed_numbers

SAMPLES = [((list(words),), {}) for words in FIRST_BATCH]


@pytest.fixture
def model():
    ex.manual_seed(0)
    return Classifier()


def test_the_stages_go_from_raw_data_to_one_prediction(model):
    stages = stages_of(model, SAMPLES, 1.25, {"accuracy": 0.5}, GROUPS)
    names = [stage["name"] for stage in stages]
    assert names == ["data", "preprocessing", "embedding", "recurrent", "scores", "loss", "prediction"]
    padding = stages[1]
    assert (padding["padded"]["wasted"], padding["padded"]["cells"]) == (6, 16)
    assert padding["padded"]["rows"][1] == [4, 5, None, None]
    assert padding["ragged"]["rows"] == [list(words) for words in FIRST_BATCH]
    assert stages[5]["text"] == ["loss 1.2500", "accuracy 0.5000"]


def test_its_numbers_are_the_model_s(model):
    stages = {stage["name"]: stage for stage in stages_of(model, SAMPLES, None, None, GROUPS)}
    with ex.no_grad():
        words = list(FIRST_BATCH[0])
        states = [state.tolist() for state in model.states(words)]
        scores = model(words)
    assert stages["recurrent"]["heat"]["rows"] == len(words)
    assert stages["recurrent"]["heat"]["values"][-1] == pytest.approx(states[-1], rel=1e-3)
    assert stages["scores"]["heat"]["values"][0] == pytest.approx(scores.tolist(), rel=1e-3)
    shares = [bar["share"] for bar in stages["prediction"]["bars"]]
    assert shares == pytest.approx(scores.softmax(0).tolist(), rel=1e-4)


def test_looking_draws_no_random_number_and_leaves_buffers(model):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    before = ex.random.get_rng_state().tolist(), net[1].running_mean.tolist()
    stages_of(net, [((ex.randn(4, 2, generator=ex.Generator()),), {})], None, None, None)
    assert (ex.random.get_rng_state().tolist(), net[1].running_mean.tolist()) == before


def test_a_typed_sequence_of_any_length_is_predicted_with_its_graph(model):
    for text in ("3", "3 1 4", "1,2,3,4,5,6,7"):
        numbers, capture, found = predict(model, SAMPLES, text, GROUPS)
        with ex.no_grad():
            best = int(model(numbers).argmax().item())
        assert found["text"].startswith(f"class {best} ({GROUPS[best]})")
        loops = [g.turns for g in capture.finished().groups() if g.period]
        assert loops == ([len(numbers)] if len(numbers) > 1 else [])
    assert model.training


@pytest.mark.parametrize(
    "text",
    ["", "  ", "a", "1 2 x", "11", "-1", "1.5", "nan", "1e3", "9" * 50, "1 " * 1001, "__import__('os')", "\u0663x"],
)
def test_what_cannot_be_read_is_refused(model, text):
    with pytest.raises(RefusedCommand, match="predict"):
        predict(model, SAMPLES, text, GROUPS)


def test_every_form_of_input_can_be_typed_or_says_that_it_cannot():
    plain = nn.Linear(3, 2)
    asked = asked_of(plain, [((ex.ones(5, 3),), {})])
    assert asked.n_numbers == 3
    assert asked.make([1.0, 2.0, 3.0]).shape == (1, 3)
    with pytest.raises(RefusedCommand, match="3 numbers"):
        typed_numbers("1 2", asked)
    table = nn.Embedding(7, 2)
    ragged = asked_of(table, [((ex.ragged([[1, 2], [3]]),), {})])
    assert (ragged.min, ragged.max) == (0, 6)
    assert ragged.make([1, 2, 3]).tolist() == [[1, 2, 3]]
    assert asked_of(plain, []) is None
    assert asked_of(plain, [((ex.ones(2, 2, 2),), {})]) is None
    assert asked_of(plain, [((ex.ones(3),), {"more": 1})]) is None
    assert sequences_of([(({"a": 1},), {})]) == []


def test_a_model_that_fails_on_what_was_typed_refuses_and_stays_as_it_was():
    class Picky(nn.Module):
        def forward(self, words):
            raise ValueError("never")

    with pytest.raises(RefusedCommand, match="never"):
        predict(Picky(), [(([1, 2],), {})], "1 2", None)


def test_an_output_that_is_no_scores_is_told_as_numbers():
    assert bars_of(ex.tensor([0.5]), None) == ([], "output 0.5")
    assert bars_of("text", None) == ([], "")
