"""The stages of the tour that learn and predict."""

import pytest

import extempo as ex
from extempo.cli import demo_stages, demo_task
from extempo.cli.demo_training import prediction, training


@pytest.mark.parametrize("seed", range(10))
def test_five_epochs_reach_85_percent_on_held_out_sequences(seed):
    ex.manual_seed(seed)
    examples, held_out = demo_task.sequences(seed)
    *_, last = training(demo_task.Classifier(), examples, held_out, demo_stages.N_EPOCHS)
    assert len(last.facts["valid_accuracy"]) == 5
    assert last.facts["valid_accuracy"][-1] >= 0.85


def test_a_prediction_tells_every_step_and_whether_it_is_right():
    ex.manual_seed(0)
    stage = prediction(demo_task.Classifier(), [4, 1, 2])
    facts = stage.facts
    assert (facts["input"], facts["right"]) == ([4, 1, 2], 1)
    assert len(facts["states"]) == len(facts["embedding"]) == 3
    assert sum(facts["softmax"]) == pytest.approx(1, abs=1e-5)
    assert facts["class"] == max(range(5), key=facts["softmax"].__getitem__)
    assert any("right" in block or "wrong: it is 1" in block for block in stage.blocks if isinstance(block, str))
