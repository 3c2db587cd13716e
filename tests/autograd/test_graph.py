"""The graph behind tensors: edges, walks, and hooks on what is saved for backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo import autograd
from extempo.autograd.graph import get_gradient_edge, save_on_cpu, saved_tensors_hooks
from extempo.errors import DtypeError


def leaf(*values: float) -> ex.Tensor:
    return ex.tensor(values, requires_grad=True)


def test_saved_tensors_hooks_pack_and_unpack_what_backward_needs() -> None:
    packed: list[Any] = []

    def pack(t: ex.Tensor) -> Any:
        packed.append(t.shape)
        return t.numpy().astype(np.float16) if t.is_floating_point() else t

    def unpack(kept: Any) -> ex.Tensor:
        return kept if isinstance(kept, ex.Tensor) else ex.from_numpy(kept.astype(np.float32))

    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(pack, unpack):
        y = (x * x).exp() * x
        values, _ = y.sort()
    assert len(packed) >= 3
    values.sum().backward()
    expected = [float(np.exp(v * v) * (1 + 2 * v * v)) for v in (1.0, 2.0)]
    np.testing.assert_allclose(x.grad.tolist(), expected, rtol=2e-3)


def test_saved_tensors_hooks_work_twice_and_for_second_derivatives() -> None:
    x = leaf(3.0)
    with saved_tensors_hooks(lambda t: [t.detach().clone()], lambda kept: kept[0]):
        y = x**3
    (g,) = autograd.grad(y.sum(), x, create_graph=True)
    assert autograd.grad(g.sum(), x, retain_graph=True)[0].tolist() == [18.0]
    assert autograd.grad(y.sum(), x)[0].tolist() == [27.0]


def test_unpack_must_return_a_tensor() -> None:
    x = leaf(3.0)
    with saved_tensors_hooks(lambda t: t.numpy(), lambda kept: kept):
        y = x * x
    with pytest.raises(DtypeError, match="unpack_hook"):
        y.sum().backward()


def test_the_graph_can_be_walked() -> None:
    x = leaf(1.0)
    y = (x * 2).exp()
    assert get_gradient_edge(y).node is y.grad_fn
    names = []
    node: Any = y.grad_fn
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    assert names == ["ExpBackward", "MulBackward", "AccumulateGrad"]
    with pytest.raises(DtypeError, match="require grad"):
        get_gradient_edge(ex.ones(1))


def test_tensors_are_saved_on_the_cpu() -> None:
    x = leaf(3.0)
    with save_on_cpu(pin_memory=True):
        y = x * x
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 6.0
