"""Elementwise programs as clusters, run on guarded memory, and the same programs op by op."""

from __future__ import annotations

import numpy as np

import extempo as ex
from extempo.backends.llvm.plans.clusters import ClusterKernel, cluster_kernel
from extempo.backends.llvm.plans.expressions import of_op
from extempo.backends.llvm.plans.geometry import elementwise_call, row_kinds
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, from_numpy_dtype
from extempo.dispatch.dispatcher import apply

from ..guarded import Guarded, run_address


def kind_of(x):
    """What a recorded op knows of its input."""
    if isinstance(x, ex.Tensor):
        return TensorType(tuple(x.shape), x.dtype)
    return type(x)


def as_operand(x):
    """What a kernel reads: an array, a number of the width that Python has it in."""
    if isinstance(x, ex.Tensor):
        return x.numpy()
    return np.array(False if x is None else x, {float: np.float64, int: np.int64}.get(type(x), np.bool_))


def strides_in(x, shape):
    """The strides of an operand in the iteration space, 0 where it is repeated."""
    lead = len(shape) - x.ndim
    own = (s if n != 1 else 0 for n, s in zip(x.shape, x.strides, strict=True))
    return (*[0] * lead, *own)


class Program:
    """Ops in order; operands are places of earlier values (leaves first, then results) or numbers."""

    def __init__(self, leaves):
        self.values = list(leaves)
        self.leaves = list(leaves)
        self.nodes = []
        self._ref = {i: i for i in range(len(leaves))}

    def add(self, name, *operands, **attrs):
        """Run one op eagerly and remember it; returns the place of its result, None if it has no native code.

        An operand is ("at", place) or a number.
        """
        inputs = [self.values[x[1]] if isinstance(x, tuple) else x for x in operands]
        expression = of_op(REGISTRY[name], tuple(map(kind_of, inputs)), attrs)
        if expression is None:
            return None
        result = apply(REGISTRY[name], tuple(inputs), attrs)
        assert expression.result is result.dtype
        refs = []
        for x in operands:
            if isinstance(x, tuple):
                refs.append(self._ref[x[1]])
            else:
                refs.append(len(self.leaves))
                self.leaves.append(x)
        self.nodes.append((expression, tuple(refs)))
        self.values.append(result)
        self._ref[len(self.values) - 1] = -len(self.nodes)
        return len(self.values) - 1

    def shape(self):
        return np.broadcast_shapes(*(tuple(x.shape) for x in self.leaves if isinstance(x, ex.Tensor)))

    def run(self, outputs, places=None):
        """The nodes `outputs` over the common shape, computed by one kernel into guarded arrays.

        `places`: for each output, a function from a shape and dtype to (Guarded, the view that is written).
        """
        shape = self.shape()
        operands = [as_operand(x) for x in self.leaves]
        dtypes = tuple(from_numpy_dtype(x.dtype) for x in operands)
        guards, views = [], []
        for k, i in enumerate(outputs):
            dtype = self.nodes[i][0].result.numpy
            guarded, view = places[k](shape, dtype) if places else plain_place(shape, dtype)
            guards.append(guarded)
            views.append(view)
        everything = [*operands, *views]
        itemsizes = tuple(x.itemsize for x in everything)
        strides = (*(strides_in(x, shape) for x in operands), *(v.strides for v in views))
        kinds = row_kinds(shape, itemsizes, strides, len(operands))
        kernel = cluster_kernel(ClusterKernel(tuple(self.nodes), dtypes, tuple(outputs), kinds))
        address, meta = elementwise_call(kernel, shape, itemsizes, strides, len(operands))
        status = run_address(address, everything, meta)
        for guarded in guards:
            guarded.check()
        return status, views

    def expected(self, outputs):
        n_leaves = len(self.values) - len(self.nodes)
        return [np.broadcast_to(self.values[n_leaves + i].numpy(), self.shape()) for i in outputs]


def plain_place(shape, dtype):
    guarded = Guarded(shape, dtype)
    return guarded, guarded.array


class _Columns:
    """Columns of a wider guarded matrix; those to the left and to the right must stay as they are."""

    def __init__(self, shape, dtype):
        self._wide = Guarded((*shape[:-1], shape[-1] + 5), dtype)
        self.array = self._wide.array[..., 2 : 2 + shape[-1]]

    def check(self):
        self._wide.check()
        array = self._wide.array.view(np.uint8).reshape(*self._wide.array.shape, self.array.itemsize)
        assert (array[..., :2, :] == 0xAB).all()
        assert (array[..., 2 + self.array.shape[-1] :, :] == 0xAB).all()


def columns_place(shape, dtype):
    """A region of columns of a wider matrix."""
    guarded = _Columns(shape, dtype)
    return guarded, guarded.array


def assert_same_bits(got, want):
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(
        np.ascontiguousarray(got).reshape(-1).view(np.uint8), np.ascontiguousarray(want).reshape(-1).view(np.uint8)
    )
