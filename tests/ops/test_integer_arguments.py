"""Arguments that are ints may be NumPy's ints or tensors of one: the same results, and sizes that are Python's ints."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY
from extempo.dispatch.dispatcher import apply
from extempo.dispatch.kernel_cache import SIGNATURES
from extempo.errors import DtypeError
from extempo.nn import functional as F
from extempo.ops.conv_ops import conv_attrs

X = ex.from_numpy(np.random.default_rng(0).normal(size=(2, 3, 12, 12)).astype("float32"))
KINDS = {"int8": np.int8, "int64": np.int64, "array": np.array, "tensor": ex.tensor}
FUNCTIONS = {
    "amax": lambda n: X.amax(n - 1),
    "as_strided": lambda n: X.as_strided((n, n), (n, n), n),
    "avg_pool2d": lambda n: F.avg_pool2d(X, n, n),
    "channel_shuffle": lambda n: F.channel_shuffle(X.transpose(1, 2), n),
    "chunk": lambda n: X.chunk(n, 2),
    "conv2d": lambda n: F.conv2d(X, X[:, :, :3, :3], stride=n, padding=n, dilation=n),
    "cumsum": lambda n: X.cumsum(n - 1),
    "diag": lambda n: X[0, 0].diag(n),
    "diag_embed": lambda n: ex.diag_embed(X[0, 0], n),
    "diagflat": lambda n: ex.diagflat(X[0, 0, 0], n),
    "diagonal": lambda n: X.diagonal(n, 2, 3),
    "diagonal_scatter": lambda n: ex.diagonal_scatter(X[0, 0], X[0, 0].diagonal() * 0, n - n),
    "diff": lambda n: X.diff(n),
    "eye": lambda n: ex.eye(n),
    "flip": lambda n: X.flip(n - 1),
    "fold": lambda n: F.fold(ex.ones(1, 144, 1), 12, 12, padding=n - n),
    "group_norm": lambda n: F.group_norm(X.transpose(1, 2), n),
    "interpolate": lambda n: F.interpolate(X, n),
    "local_response_norm": lambda n: F.local_response_norm(X, n),
    "max_pool2d": lambda n: F.max_pool2d(X, n),
    "max_unpool1d": lambda n: F.max_unpool1d(ex.ones(1, 1, 1), ex.ones(1, 1, 1).long(), 3, output_size=(n + 1,)),
    "movedim": lambda n: X.movedim(n - 1, 0),
    "narrow": lambda n: X.narrow(2, n, n),
    "one_hot": lambda n: F.one_hot(ex.tensor([0]), n),
    "pad": lambda n: F.pad(X, (n, n)),
    "pixel_shuffle": lambda n: F.pixel_shuffle(X.reshape(1, 144, 2, 3), n),
    "pixel_unshuffle": lambda n: F.pixel_unshuffle(X, n),
    "repeat": lambda n: X.repeat(1, 1, n, 1),
    "repeat_interleave": lambda n: X.repeat_interleave(n, 1),
    "roll": lambda n: X.roll(n, 2),
    "select": lambda n: X.select(2, n),
    "slice": lambda n: X[:, :, n:, :n],
    "slice_scatter": lambda n: ex.slice_scatter(ex.zeros(12), ex.ones(12 // n), 0, n - n, 12 // n * n, n),
    "softmax": lambda n: X.softmax(n - 1),
    "split": lambda n: X.split(n, 2),
    "sum": lambda n: X.sum(n - 1),
    "tensor_split": lambda n: X.tensor_split(n, 2),
    "topk": lambda n: X.topk(n)[0],
    "tril": lambda n: X.tril(n),
    "unfold": lambda n: X.unfold(2, n, n),
    "unfold2d": lambda n: F.unfold(X, n, padding=n),
    "zeros": lambda n: ex.zeros(n, n),
}


def flat(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_int_of_another_kind_means_the_same_however_often(name, kind):
    function = FUNCTIONS[name]
    for _ in range(3):  # what a function makes of its arguments is remembered from the second call on
        for n in (2, 3, 4):
            SIGNATURES.clear()  # what an int has left there is found by its equals
            for made, expected in zip(flat(function(KINDS[kind](n))), flat(function(n)), strict=True):
                assert [type(size) for size in made.shape] == [int] * made.ndim
                assert ex.equal(made, expected)


@pytest.mark.parametrize("number", [ex.tensor(1), np.array(1)], ids=["tensor", "array"])
@pytest.mark.parametrize("name", ["stride", "padding", "counts"])
def test_what_can_be_written_to_is_no_attribute_of_an_op(name, number):
    attrs = conv_attrs((1,), (1,), (1,), (4,)) | {name: (number,)}
    with pytest.raises(DtypeError, match=rf"conv: {name} must be a number, got a tensor; .* int\(...\)"):
        apply(REGISTRY["conv"], (ex.ones(1, 1, 4), ex.ones(1, 1, 3), None), attrs)


def test_kernels_get_python_numbers_for_numpys():
    for make, size in ((np.int8, 100), (int, 100)):
        x = ex.ones(2, 300).as_strided((make(size), make(size)), (1, 1))
        assert x.shape == (100, 100)
        assert float(x.sum()) == 10000
    signature = ex.dispatch.kernel_cache.make_signature(
        REGISTRY["unfold"], (X._type,), {"dimension": np.int8(3), "size": np.int8(3), "step": np.int8(1)}
    )
    assert [type(size) for size in signature.type.shape] == [int] * 5


def test_a_size_that_is_a_tensor_leaves_the_heap_sound():
    # Parts of a kernel's scratch memory began where it ends: each place was the tensor that the next one was added to.
    script = """
import extempo as ex
for _ in range(300):
    ex.nn.functional.local_response_norm(ex.ones(1, 6, 3), ex.tensor(2), k=1.25)
"""
    checks = {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    subprocess.run([sys.executable, "-c", script], env=os.environ | checks, check=True, timeout=60)
