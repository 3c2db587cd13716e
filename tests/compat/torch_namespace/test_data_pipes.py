"""Classes of data pipes can be declared."""

from __future__ import annotations

from extempo.compat.torch_namespace.data_pipes import functional_datapipe


def test_a_declared_class_stays_what_it_is():
    class Batcher:
        pass

    assert functional_datapipe("batch_graphs")(Batcher) is Batcher
