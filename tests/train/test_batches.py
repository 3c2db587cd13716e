"""What a batch is, and the batches of an epoch."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo import metrics, nn
from extempo.data import DataLoader, TensorDataset

from .small_networks import equal, loader, points, trainer, weights


def test_batches_may_be_dicts_whose_entries_are_arguments():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(5, 3)

        def forward(self, shift, x):
            return self.out(x + shift)

    x, y = points(8)
    batch = {"x": x, "target": y, "shift": 0.0}
    ex.manual_seed(0)
    made = trainer(Model(), metrics=[metrics.Accuracy()])
    made.fit([batch], [batch], epochs=30)
    assert made.evaluate([batch])["accuracy"] > 0.7
    assert made.predict([batch]).shape == (8, 3)
    with pytest.raises(ValueError, match=r"needs inputs and the entry 'target', got \['x'\]"):
        made.fit([{"x": x}], epochs=31)


def test_an_iterator_is_read_once_and_a_warning_says_so():
    batches = list(loader())
    made = trainer()
    made.fit(iter(batches), epochs=1)
    same = trainer()
    same.fit(batches, epochs=1)
    assert equal(weights(made.model), weights(same.model)), "no batch was lost"
    made = trainer()
    with pytest.warns(UserWarning, match="train is an iterator"):
        made.fit(iter(batches), epochs=3)
    assert made.epoch == 1
    assert "iterator" in made.stop
    with pytest.warns(UserWarning, match="valid is an iterator"):
        history = trainer().fit(batches, iter(batches[:2]), epochs=2)
    assert len(history["valid_loss"]) == 2
    assert not math.isnan(history["valid_loss"][1])


def test_data_without_a_length_is_fine():
    class Endless:
        def __iter__(self):
            return iter(list(loader()))

    made, same = trainer(), trainer()
    made.fit(Endless(), Endless(), epochs=2)
    same.fit(loader(), epochs=2)
    assert equal(weights(made.model), weights(same.model))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "train has no batches"),
        (DataLoader(TensorDataset(*points(4)), 8, drop_last=True), "drop_last"),
        (TensorDataset(*points(4)), r"DataLoader\(train"),
        (points(4)[0], "is a tensor"),
        (points(4), r"expected batches \(inputs\.\.\., target\), got Tensor"),
        (3, "iterable of batches, got int"),
        (points, "got function; call it"),
    ],
)
def test_data_that_is_none_is_refused_before_anything_is_trained(data, message):
    made = trainer()
    before = weights(made.model)
    with pytest.raises((TypeError, ValueError), match=message):
        made.fit(data, epochs=1)
    assert equal(before, weights(made.model))


def test_a_generator_without_batches_is_an_error_too():
    with pytest.raises(ValueError, match="no batches in train"):
        trainer().fit((batch for batch in ()), epochs=1)
