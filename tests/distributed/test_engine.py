"""The engine of one process has every method of the protocol, and so has MPI's."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.distributed.engine import HEADER, Engine, OneProcess
from extempo.distributed.mpi import MpiEngine
from extempo.errors import DistributedError


def test_engines_implement_the_protocol():
    methods = {name for name, value in vars(Engine).items() if callable(value) and not name.startswith("_")}
    assert {"meet", "all_reduce", "agree", "recover", "split"} < methods
    for engine in (OneProcess, MpiEngine):
        assert methods <= set(dir(engine))


def test_one_process_carries_to_itself():
    engine = OneProcess()
    assert engine.meet(np.arange(HEADER), 1.0).shape == (1, HEADER)
    out = np.zeros(2)
    assert engine.scatter(np.ones((1, 2)), out, 0).wait() == -1
    assert out.tolist() == [1.0, 1.0]
    engine.send(np.array([3.0, 4.0]), 0, 1)
    assert engine.receive(out, None, 1).wait() == 0
    assert out.tolist() == [3.0, 4.0]
    with pytest.raises(DistributedError, match="send first"):
        engine.receive(out, None, 1)
    assert engine.split([1]) is None
    assert (engine.agree(True), engine.recover()) == (True, [])
