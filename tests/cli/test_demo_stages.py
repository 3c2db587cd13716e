"""The stages of the tour up to the class scores: what they say is what is there."""

from __future__ import annotations

import extempo as ex
from extempo.cli import demo_stages, demo_task
from extempo.inspect import Table

SEQUENCES = [[1, 2, 3], [10]]


def text_of(stage):
    return "\n".join(block.text() if isinstance(block, Table) else str(block) for block in stage.blocks)


def test_padding_is_counted():
    stage = demo_stages.preprocessing(SEQUENCES)
    assert (stage.facts["n_cells"], stage.facts["n_wasted"]) == (6, 2)
    assert stage.facts["padded"] == [[1, 2, 3], [10, 0, 0]]
    assert "2 of 6 cells (33%) wasted" in text_of(stage)


def test_no_padding_is_no_waste():
    assert demo_stages.preprocessing([[1, 2], [3, 4]]).facts["n_wasted"] == 0


def test_each_word_has_the_vector_of_the_table():
    model = demo_task.Classifier()
    vectors = demo_stages.embedding(model, [[1, 2, 3], [3, 2]]).facts["vectors"]
    assert [len(row) for row in vectors] == [3, 2]
    assert vectors[0][2] == vectors[1][0] == model.embed.weight[3].tolist()


def test_longer_sequences_have_larger_graphs():
    counts = demo_stages.recurrent(demo_task.Classifier(), SEQUENCES).facts["n_nodes_by_length"]
    assert counts[3] > counts[1] > 0


def test_scores_are_those_of_the_model():
    model = demo_task.Classifier()
    stage = demo_stages.scores(model, SEQUENCES)
    with ex.no_grad():
        assert stage.facts["scores"] == [model(words).tolist() for words in SEQUENCES]
    assert stage.facts["n_parameters"] == sum(p.numel() for p in model.parameters())
