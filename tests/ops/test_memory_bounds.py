"""Kernels read nothing in front of their operands and nothing behind: those lie against pages that nobody may read.

A kernel that does ends the process, so everything runs in a child, which prints what it is about to do. What kernels
write is checked in `tests/backends/llvm`.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY, Refuse
from extempo.dispatch.dispatcher import apply
from extempo.errors import ExtempoError
from extempo.nn import functional as F

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="protects pages as Linux does")

PAGE = os.sysconf("SC_PAGE_SIZE")
READ_WRITE, PRIVATE_ANONYMOUS = 3, 0x22
SIZES = (1, 3, 7, 8, 9, 17, 33)


class Fenced:
    """Copies of arrays, each with a page before and behind it that ends the process when it is touched."""

    def __init__(self, at_the_end: bool) -> None:
        self._at_the_end = at_the_end
        self._c = ctypes.CDLL(None, use_errno=True)
        self._c.mmap.restype = ctypes.c_void_p
        self._c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._c.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._c.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._maps: list[tuple[int, int]] = []

    def copy(self, array: Any) -> Any:
        """The array in memory that ends, or begins, at such a page."""
        size = -(-max(array.nbytes, 1) // PAGE) * PAGE
        begin = self._c.mmap(None, size + 2 * PAGE, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0)
        self._maps.append((begin, size + 2 * PAGE))
        for fence in (begin, begin + PAGE + size):
            assert self._c.mprotect(fence, PAGE, 0) == 0
        start = begin + PAGE + (size - array.nbytes if self._at_the_end else 0)
        memory = (ctypes.c_char * array.nbytes).from_address(start)
        copied = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
        copied[...] = array
        return copied

    def forget(self) -> None:
        for begin, size in self._maps:
            self._c.munmap(begin, size)
        self._maps.clear()


Maker = Callable[..., ex.Tensor]  # of shapes; with `below`, of ints


def op_samples() -> Iterator[tuple[str, Callable[[Fenced], Any]]]:
    """Every op on its own samples."""
    for (name, op), dtype in itertools.product(sorted(REGISTRY.items()), ("float32", "float64")):
        if isinstance(op.samples, Refuse):
            continue
        for sample in op.samples(np.random.default_rng(0)):

            def run(fenced: Fenced, op: Any = op, sample: Any = sample, dtype: str = dtype) -> Any:
                inputs = []
                for x in sample.inputs:
                    if isinstance(x, np.ndarray):
                        x = ex.from_numpy(fenced.copy(x.astype(dtype) if x.dtype == np.float64 else x))
                        x.requires_grad_(x.dtype.is_floating_point)
                    inputs.append(x)
                return apply(op, tuple(inputs), sample.attrs)

            yield f"{name} {dtype} {sample}", run


def odd_sizes() -> Iterator[tuple[str, Callable[[Fenced], Any]]]:
    """What has kernels of its own, at sizes that fill no vector and no tile."""
    rng = np.random.default_rng(0)
    functions: dict[str, Callable[[Maker, int, int], Any]] = {
        "matmul": lambda t, m, n: t(m, n) @ t(n, 5),
        "linear": lambda t, m, n: F.linear(t(m, n), t(9, n), t(9)),
        "softmax": lambda t, m, n: F.softmax(t(m, n), 1),
        "sum of columns": lambda t, m, n: t(m, n).sum(0),
        "sum of rows": lambda t, m, n: t(m, n).sum(1),
        "layer_norm": lambda t, m, n: F.layer_norm(t(m, n), (n,), t(n), t(n)),
        "cross_entropy": lambda t, m, n: F.cross_entropy(t(m, n), t(m, below=n)),
        "embedding": lambda t, m, n: F.embedding(t(m, below=n), t(n, m)),
        "cumsum": lambda t, m, n: t(m, n).cumsum(1),
        "transposed": lambda t, m, n: t(m, n).T.contiguous(),
        "elementwise": lambda t, m, n: (t(m, n) * t(n) + t(m, 1)).tanh(),
        "attention": lambda t, m, n: F.scaled_dot_product_attention(t(1, 2, m, 5), t(1, 2, n, 5), t(1, 2, n, 5)),
        "max_pool2d": lambda t, m, n: F.max_pool2d(t(2, 3, m, n), 3, 2, padding=1),
        "avg_pool2d": lambda t, m, n: F.avg_pool2d(t(2, 3, m, n), 3, 2, padding=1),
        "interpolate": lambda t, m, n: F.interpolate(t(1, 2, m, n), (7, 9), mode="bilinear"),
    }
    for stride, kernel, groups, channels in itertools.product((1, 3), (1, 3), (1, 3), (2, 11)):

        def convolved(t: Maker, m: int, n: int, s=stride, k=kernel, g=groups, c=channels) -> Any:  # type: ignore[no-untyped-def]
            return F.conv2d(t(3, 2 * g, m + 2, n + 2), t(c * g, 2, k, k), t(c * g), stride=s, groups=g)

        def transposed(t: Maker, m: int, n: int, s=stride, k=kernel, g=groups, c=channels) -> Any:  # type: ignore[no-untyped-def]
            return F.conv_transpose2d(t(3, 2 * g, m, n), t(2 * g, c, k, k), t(c * g), stride=s, groups=g)

        words = f"of stride {stride}, kernel {kernel}, {groups} groups, {channels} channels"
        functions |= {f"conv2d {words}": convolved, f"conv_transpose2d {words}": transposed}
    for (name, function), m, n, dtype in itertools.product(functions.items(), SIZES, SIZES, ("float32", "float64")):
        if "conv" in name and (m not in (1, 7, 17) or n not in (3, 8)):
            continue

        def run(fenced: Fenced, f: Any = function, m: int = m, n: int = n, dtype: str = dtype) -> Any:
            def make(*shape: int, below: int = 0) -> ex.Tensor:
                array = rng.integers(0, below, shape) if below else rng.normal(size=shape).astype(dtype)
                made = ex.from_numpy(fenced.copy(array))
                return made if below else made.requires_grad_()

            return f(make, m, n)

        yield f"{name} ({m}, {n}) {dtype}", run


def main(room: str, at_the_end: bool) -> None:
    warnings.simplefilter("ignore")
    fenced, n_done = Fenced(at_the_end), 0
    for words, run in {"samples": op_samples, "sizes": odd_sizes}[room]():
        print(words, flush=True)
        try:
            made = run(fenced)
            results = [y for y in (made if isinstance(made, tuple) else (made,)) if y.requires_grad]
            if results:
                ones = [ex.from_numpy(fenced.copy(np.ones_like(y.detach().numpy()))) for y in results]
                ex.autograd.backward(results, ones)
            n_done += 1
        except ExtempoError:  # what has no such dtype or no gradient
            pass
        finally:
            made = results = ones = None
        fenced.forget()
    print("done", n_done)


@pytest.mark.parametrize("at_the_end", [False, True], ids=["in front", "behind"])
@pytest.mark.parametrize(("room", "least"), [("samples", 1500), ("sizes", 1500)])
def test_kernels_touch_nothing_around_what_they_are_given(room, least, at_the_end):
    command = [sys.executable, __file__, room, "1" if at_the_end else ""]
    child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    words = child.stdout.strip().rpartition("\n")[2]
    assert child.returncode == 0, f"{words}\n{child.stderr}"
    assert words.startswith("done")
    assert int(words.split()[1]) >= least


if __name__ == "__main__":
    main(sys.argv[1], bool(sys.argv[2]))
