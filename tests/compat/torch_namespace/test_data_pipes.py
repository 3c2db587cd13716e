"""Classes of data pipes can be declared."""

from __future__ import annotations

from extempo.compat.torch_namespace import data_pipes
from extempo.compat.torch_namespace.data_pipes import functional_datapipe


def test_a_declared_class_stays_what_it_is():
    class Batcher:
        pass

    assert functional_datapipe("batch_graphs")(Batcher) is Batcher


def test_decorators_hand_back_what_they_are_given():
    assert data_pipes.argument_validation(len) is len
    assert data_pipes.runtime_validation(len) is len
    assert data_pipes.non_deterministic(int) is int
    assert data_pipes.non_deterministic(lambda: True)(int) is int
    with data_pipes.runtime_validation_disabled():
        pass
