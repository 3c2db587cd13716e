"""A program of a user whose types mypy must know: each `assert_type` fails if a result is Any or another type.

`test_typing` has mypy read it; it also runs.
"""

from __future__ import annotations

from typing import assert_type

import extempo as ex
from extempo import Tensor, nn

x = ex.rand(4, 4)


@ex.compile
def scaled(x: Tensor, factor: float) -> Tensor:
    return x * factor


@ex.compile(static=True)
def counted(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x + 1


def norm(x: Tensor) -> Tensor:
    return (x * x).sum()


assert_type(scaled(x, 2.0), Tensor)
assert_type(scaled(x, factor=2.0), Tensor)
assert_type(counted(x), tuple[Tensor, Tensor])
assert_type(ex.compile(nn.Linear(4, 4)), nn.Linear)
assert_type(ex.batch(norm)([x, x]), list[Tensor])

assert_type(x.max(), Tensor)
assert_type(x.max(1).indices, Tensor)
assert_type(x.max(dim=1, keepdim=True).values, Tensor)
assert_type(x.max(x), Tensor)
assert_type(ex.max(x, 0)[1], Tensor)
assert_type(x.min(0)[0], Tensor)
assert_type(x.sort().values, Tensor)
assert_type(ex.sort(x).values, Tensor)
assert_type(x.topk(2).indices, Tensor)
assert_type(x.median(), Tensor)
assert_type(x.median(1).values, Tensor)
assert_type(x.mode().values, Tensor)
assert_type(x.kthvalue(1).indices, Tensor)
assert_type(x.cummax(0).values, Tensor)
assert_type(x.aminmax().min, Tensor)
assert_type(x.unique(), Tensor)
assert_type(x.unique(return_counts=True), tuple[Tensor, Tensor])
assert_type(ex.unique(x, return_inverse=True, return_counts=True), tuple[Tensor, Tensor, Tensor])
assert_type(x.nonzero(), Tensor)
assert_type(x.nonzero(as_tuple=True), tuple[Tensor, ...])
assert_type(x.svd().S, Tensor)
assert_type(x.qr().R, Tensor)
assert_type(x.slogdet().sign, Tensor)
assert_type(x.size(), ex.Size)
assert_type(x.size(0), int)
assert_type(x.stride(), tuple[int, ...])
assert_type(x.stride(0), int)
assert_type(x.device, ex.device)
assert_type(x.is_cuda, bool)
assert_type(x.type(), str)
assert_type(x.type(ex.float64), Tensor)
assert_type(x[0], Tensor)
assert_type(x + 1, Tensor)
assert_type(x.sum(), Tensor)
