"""Every registered op over its own samples, compiled: alone, fused with neighbours, and with gradients."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY, Refuse
from extempo.dispatch.dispatcher import apply

from .agreement import agree

OPS = [pytest.param(op, id=name) for name, op in sorted(REGISTRY.items()) if not isinstance(op.samples, Refuse)]
CALLS = 3


def tensors_of(sample, dtype, grad):
    """The inputs of a sample, floating ones in that dtype."""
    found = []
    for x in sample.inputs:
        if isinstance(x, np.ndarray):
            floating = x.dtype.kind == "f"
            x = ex.tensor(x.astype(dtype) if floating else x, requires_grad=grad and floating)
        found.append(x)
    return found


def around(x):
    """A neighbour that changes nothing but is an op; NaN and sizes 0 included."""
    return x * 1 if isinstance(x, ex.Tensor) and x.is_floating_point() else x


def between_others(op, inputs, attrs):
    """The op with neighbours and alone, and a backward from what floats."""
    y = apply(op, tuple(map(around, inputs)), attrs)
    alone = apply(op, tuple(inputs), attrs)
    results = y if isinstance(y, tuple) else (y,)
    after = [around(t) for t in results]
    loss = sum(t.sum() for t in after if t.requires_grad)
    if isinstance(loss, ex.Tensor):
        loss.backward()
    return results, after, alone


@pytest.mark.parametrize("op", OPS)
def test_an_op_between_others(op):
    def scenario(wrap, grad, dtype):
        run = wrap(lambda inputs, attrs: between_others(op, inputs, attrs))
        for sample in list(op.samples(np.random.default_rng(1)))[:4]:
            for _ in range(CALLS):
                inputs = tensors_of(sample, dtype, grad)
                error = results = None
                try:
                    results = run(inputs, dict(sample.attrs))
                except Exception as e:
                    error = e.with_traceback(None)
                tensors = [x for x in inputs if isinstance(x, ex.Tensor)]
                yield error, results, tensors, [x.grad for x in tensors]

    agree(scenario, True, np.float32)
    agree(scenario, False, np.float64)
