"""What `ex.autograd` itself defines: PyTorch's old name of a tensor."""

from __future__ import annotations

import extempo as ex
from extempo import autograd


def test_variable_is_a_tensor() -> None:
    v = autograd.Variable(ex.ones(2), requires_grad=True)
    assert v.requires_grad
    assert isinstance(v, autograd.Variable)
    assert isinstance(v, ex.Tensor)
    assert not autograd.Variable(ex.ones(2)).requires_grad
