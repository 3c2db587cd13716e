"""Iterators of data loaders by PyTorch's names."""

from __future__ import annotations

from itertools import islice

import extempo as ex
from extempo.compat.torch_namespace.data_iterators import (
    _BaseDataLoaderIter,
    _InfiniteConstantSampler,
    _SingleProcessDataLoaderIter,
)


def test_the_iterator_of_a_loader_is_known_by_its_names():
    iterator = iter(ex.data.DataLoader([1.0, 2.0]))
    assert isinstance(iterator, _SingleProcessDataLoaderIter)
    assert isinstance(iterator, _BaseDataLoaderIter)


def test_a_sampler_that_chooses_nothing_never_ends():
    assert list(islice(_InfiniteConstantSampler(), 3)) == [None] * 3
