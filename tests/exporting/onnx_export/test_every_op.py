"""Every op of the registry that has an ONNX form agrees with onnxruntime on its own samples."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY, Refuse
from extempo.core.tensor import from_array
from extempo.dispatch.dispatcher import apply

from .agreement import Exported

NAMES = sorted(n for n, op in REGISTRY.items() if callable(op.samples) and not isinstance(op.onnx, Refuse))
# Results that only gradients read, which no ONNX operator gives: how many come before them.
N_RESULTS = {"lstm_sequence": 3, "gru_sequence": 2, "rnn_sequence": 2}


def single(x):
    """In float32, in which onnxruntime has all its kernels."""
    return np.asarray(x, np.float32) if isinstance(x, np.ndarray) and x.dtype == np.float64 else x


@pytest.mark.parametrize("name", NAMES)
def test_an_op_and_its_onnx_form_agree(name):
    op = REGISTRY[name]
    for sample in op.samples(np.random.default_rng(0)):
        inputs = [single(x) for x in sample.inputs]
        arrays = [from_array(np.array(x)) for x in inputs if isinstance(x, np.ndarray)]
        if not arrays:
            continue

        def fn(*tensors, inputs=inputs, sample=sample):
            given = iter(tensors)
            made = apply(op, tuple(next(given) if isinstance(x, np.ndarray) else x for x in inputs), sample.attrs)
            return made[: N_RESULTS[name]] if name in N_RESULTS else made

        Exported(ex.program(fn, tuple(arrays), check=False)).agree(*arrays, rtol=2e-4, atol=2e-5)
