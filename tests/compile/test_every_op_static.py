"""Every registered op over its own samples in a static function, by plans and op by op."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.op import Refuse
from extempo.running import apply

from .static_agreement import agree
from .test_every_op_compiled import CALLS, OPS, around, tensors_of


@pytest.mark.parametrize("op", OPS)
def test_an_op_between_others(op):
    def scenario(wrap, sample, grad, dtype):
        def f(inputs):
            y = apply(op, tuple(map(around, inputs)), dict(sample.attrs))
            alone = apply(op, tuple(inputs), dict(sample.attrs))
            results = y if isinstance(y, tuple) else (y,)
            after = [around(t) for t in results]
            loss = sum(t.sum() for t in after if t.requires_grad)
            if isinstance(loss, ex.Tensor):
                loss.backward()
            return results, after, alone

        run = wrap(f)
        for _ in range(CALLS):
            inputs = tensors_of(sample, dtype, grad)
            results = run(inputs)
            tensors = [x for x in inputs if isinstance(x, ex.Tensor)]
            yield results, tensors, [x.grad for x in tensors]

    sample = next(iter(op.samples(np.random.default_rng(1))))
    agree(scenario, sample, not isinstance(op.vjp, Refuse), np.float32)
