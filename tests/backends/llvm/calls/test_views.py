"""View ops in native code: headers on the same memory, with NumPy's strides."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import extempo as ex
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_a_reshape_that_is_a_view_stays_one_when_it_is_called_again():
    for _ in range(3):
        x = ex.ones(1, 3)
        y = x.expand(4, 3).reshape(4, 3, 1)
        x.add_(1.0)
        assert y.sum().item() == 24.0
        memory = np.zeros(6, np.float32)
        read_only = memory.view()
        read_only.flags.writeable = False
        z = ex.as_tensor(read_only).reshape(2, 3)
        memory += 1.0
        assert z.sum().item() == 6.0
