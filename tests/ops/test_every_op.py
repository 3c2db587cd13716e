"""Every registered op over its own samples: the aspects of one op agree with each other."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import testing
from extempo.core.op import ASPECTS, REGISTRY, Refuse
from extempo.dispatch.dispatcher import apply

OPS = [pytest.param(op, id=name) for name, op in sorted(REGISTRY.items()) if not isinstance(op.samples, Refuse)]


@pytest.mark.parametrize("op", OPS)
def test_every_aspect_agrees(op):
    assert testing.check_op(op) > 0


@pytest.mark.parametrize("op", [p for p in OPS if p.values[0].simple and not isinstance(p.values[0].vjp, Refuse)])
def test_derived_backward_equals_op_by_op_bit_for_bit(op):
    """The one-kernel backward of an elementwise op and the recorded one (create_graph) give the same bits."""
    for sample in op.samples(np.random.default_rng(1)):
        for dtype in (np.float32, np.float64):
            arrays = [
                x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in sample.inputs
            ]
            leaves = [ex.tensor(a, requires_grad=True) if isinstance(a, np.ndarray) else a for a in arrays]
            moving = [x for x in leaves if isinstance(x, ex.Tensor)]
            y = apply(op, tuple(leaves))
            g = ex.tensor(np.random.default_rng(2).normal(size=tuple(y.shape)).astype(dtype))
            fast = ex.autograd.grad(y, moving, g, retain_graph=True, allow_unused=True)
            slow = ex.autograd.grad(y, moving, g, create_graph=True, allow_unused=True)
            for f, s in zip(fast, slow, strict=True):
                np.testing.assert_array_equal(f.numpy(), s.detach().numpy())


def test_every_op_states_each_aspect():
    for op in REGISTRY.values():
        for aspect in ASPECTS:
            assert hasattr(op, aspect), f"{op.name} lacks {aspect}"


def test_no_shape_rule_saves_or_gradient_is_put_off():
    late = [
        f"{op.name}.{aspect}"
        for op in REGISTRY.values()
        for aspect in ("infer", "saves", "vjp")
        if isinstance(getattr(op, aspect), Refuse) and getattr(op, aspect).why.startswith("not yet")
    ]
    assert late == []


def test_every_op_has_a_docstring():
    assert [op.name for op in REGISTRY.values() if not (op.__doc__ or "").strip()] == []
