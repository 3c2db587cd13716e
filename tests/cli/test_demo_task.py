"""What the tour learns: sequences, classes, batches."""

import pytest

from extempo.cli import demo_task


@pytest.mark.parametrize("seed", [0, 7])
def test_no_sequence_is_held_out_that_is_also_learned_from(seed):
    examples, held_out = demo_task.sequences(seed)
    learned = {tuple(words) for words, _ in examples}
    assert len(learned) == demo_task.N_TRAIN
    assert len(held_out) == demo_task.N_HELD_OUT
    assert not any(tuple(words) in learned for words, _ in held_out)
    assert {label for _, label in held_out} == set(range(5))


@pytest.mark.parametrize(("words", "label"), [([1], 0), ([2, 1], 0), ([3], 1), ([1, 10, 2], 4), ([9], 4)])
def test_the_class_is_the_group_of_the_largest_word(words, label):
    assert demo_task.class_of(words) == label


def test_a_batch_is_a_list_of_sequences_and_a_list_of_classes():
    found = list(demo_task.batches([([1, 2], 0), ([10], 4), ([5], 2)], 2))
    assert found == [([[1, 2], [10]], [0, 4]), ([[5]], [2])]


def test_the_model_has_a_state_after_each_word():
    model = demo_task.Classifier()
    assert [tuple(state.shape) for state in model.states([3, 1, 2])] == [(demo_task.N_HIDDEN,)] * 3
    assert tuple(model([7]).shape) == (demo_task.N_CLASSES,)
