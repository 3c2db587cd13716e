"""Every op of the registry can be a node of a program that is saved and loaded, and gives the same bits there."""

from __future__ import annotations

import io

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY
from extempo.core.tensor import from_array
from extempo.dispatch.dispatcher import apply
from extempo.func.tree import leaves

NAMES = sorted(name for name, op in REGISTRY.items() if callable(op.samples) and op.family != "random")


@pytest.mark.parametrize("name", NAMES)
def test_an_op_in_a_file_gives_the_same_bits(name):
    op = REGISTRY[name]
    for sample in list(op.samples(np.random.default_rng(0)))[:3]:
        arrays = [from_array(np.array(x)) for x in sample.inputs if isinstance(x, np.ndarray)]
        if not arrays:
            continue

        def fn(*tensors, sample=sample):
            given = iter(tensors)
            return apply(
                op, tuple(next(given) if isinstance(x, np.ndarray) else x for x in sample.inputs), sample.attrs
            )

        program = ex.program(fn, tuple(arrays), check=False)
        file = io.BytesIO()
        program.save(file)
        file.seek(0)
        loaded = ex.load_program(file)
        for _ in range(3):  # node by node, by a plan that is made now, and by one that is there
            for ours, theirs in zip(leaves(loaded(*arrays)), leaves(fn(*arrays)), strict=True):
                assert ours._type == theirs._type
                assert ours.numpy().tobytes() == theirs.detach().numpy().tobytes()
