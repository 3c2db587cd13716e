"""Every registered op over its own samples in a static function, by plans and op by op."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import Refuse

from ..test_every_op_compiled import CALLS, OPS, between_others, tensors_of
from .static_agreement import agree


@pytest.mark.parametrize("op", OPS)
def test_an_op_between_others(op):
    def scenario(wrap, sample, grad, dtype):
        run = wrap(lambda inputs: between_others(op, inputs, dict(sample.attrs)))
        for _ in range(CALLS):
            inputs = tensors_of(sample, dtype, grad)
            results = run(inputs)
            tensors = [x for x in inputs if isinstance(x, ex.Tensor)]
            yield results, tensors, [x.grad for x in tensors]

    sample = next(iter(op.samples(np.random.default_rng(1))))
    agree(scenario, sample, not isinstance(op.vjp, Refuse), np.float32)
