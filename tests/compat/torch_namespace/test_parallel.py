"""Wrappers of modules in one process."""

from __future__ import annotations

import extempo as ex
from extempo.compat.torch_namespace import parallel
from extempo.compat.torch_namespace.parallel import DataParallel, DistributedDataParallel


def test_a_wrapped_module_computes_the_same_under_pytorchs_names():
    layer = ex.nn.Linear(3, 2)
    x = ex.randn(4, 3)
    for wrapper in (DataParallel, DistributedDataParallel):
        wrapped = wrapper(layer, device_ids=None)
        assert wrapped(x).tolist() == layer(x).tolist()
        assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
        assert wrapped.module is layer


def test_gradients_are_there_without_synchronising():
    wrapped = DistributedDataParallel(ex.nn.Linear(3, 2))
    with wrapped.no_sync():
        wrapped(ex.ones(1, 3)).sum().backward()
    assert wrapped.module.weight.grad is not None


def test_one_device_gets_everything_and_gives_it_back():
    assert parallel.gather(parallel.scatter([1, 2], [0]), 0) == [1, 2]
    assert parallel.scatter_kwargs((1,), None, [0]) == ([(1,)], [{}])


def test_the_one_device_has_the_module_and_runs_it():
    layer = ex.nn.Linear(2, 2)
    assert parallel.replicate(layer, [0]) == [layer]
    alone, with_keywords = parallel.parallel_apply([ex.add, ex.add], [(1, 2), (3,)], [{}, {"other": 4}])
    assert (alone, with_keywords) == (3, 7)
    assert parallel.parallel_apply([abs], [-2]) == [2]
