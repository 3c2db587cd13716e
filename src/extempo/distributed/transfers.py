"""From tensors to arrays that an engine carries, and back: checks, dtypes, and `Work`, a transfer that is under way.

A tensor that is not contiguous is copied before and after; float16 and bfloat16 are summed in float32.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from ..core.active_traces import before_write
from ..core.context import CONTEXT
from ..core.storage import Array
from ..core.tensor import Tensor
from ..errors import ArgumentError, DistributedError, DtypeError, UnsupportedError
from .engine import PeersMissing, Request
from .groups import ProcessGroup


class RedOpType(enum.Enum):
    """How a collective combines what the processes have."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = "sum", "avg", "product", "min", "max", "band", "bor", "bxor"


class ReduceOp:
    """PyTorch's way to say `RedOpType`.

    >>> ex.distributed.ReduceOp.SUM
    <RedOpType.SUM: 'sum'>
    """

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = RedOpType


class Work:
    """A collective that was started by `async_op=True`; its tensors are not to be touched before `wait()`.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> work = ex.distributed.all_reduce(x, async_op=True)
    >>> work.wait()
    True
    >>> x
    tensor([1., 2.])
    >>> ex.distributed.destroy_process_group()
    """

    def __init__(self, request: Request, finish: Callable[[], None], group: ProcessGroup, what: str) -> None:
        self._request = request
        self._finish = finish
        self._group = group
        self._what = what
        self._is_finished = False
        self._source = -1

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Until it is done; then the tensors have their results.

        timeout: how long to wait; that of the group unless given.
        """
        if not self._is_finished:
            limit = self._group.timeout if timeout is None else timeout
            try:
                self._source = self._request.wait(limit.total_seconds())
            except PeersMissing:
                raise DistributedError(
                    f"{self._what}: not done within {limit.total_seconds():g} s; has every rank started it?"
                ) from None
            self._is_finished = True
            self._finish()
        return True

    def is_completed(self) -> bool:
        """Whether `wait` would return at once."""
        return self._is_finished or self._request.done()

    def is_success(self) -> bool:
        """As `is_completed`: what fails raises."""
        return self.is_completed()

    def source_rank(self) -> int:
        """The number of the rank that a received message came from."""
        return self._group.ranks[self._source]


def values_of(caller: str, tensor: Any) -> Array:
    """A contiguous array with the tensor's values: its own memory where that is one."""
    if not isinstance(tensor, Tensor):
        raise DtypeError(f"{caller}: expected a tensor, got {type(tensor).__name__}")
    if CONTEXT.get().interceptor is not None:
        raise UnsupportedError(
            f"{caller}: a collective cannot run inside ex.batch, vmap or a static function, where it would be called "
            "once for each sample, or not at all; call it outside"
        )
    return np.ascontiguousarray(tensor._values())


def write(tensor: Tensor, values: Array) -> None:
    """New values for a tensor, where it is."""
    before_write((tensor._storage,))
    if tensor._array is not values:
        np.copyto(tensor._array, values.reshape(tensor._array.shape), casting="unsafe")
    tensor._storage.version += 1


def summable(caller: str, values: Array, op: Any) -> tuple[Array, str]:
    """The values in a dtype that engines compute with, and the engine's name of the operation."""
    if not isinstance(op, RedOpType):
        raise ArgumentError(f"{caller}: op must be one of ReduceOp.SUM, AVG, PRODUCT, MIN, MAX, ..., got {op!r}")
    is_float = values.dtype.kind not in "iub"
    if op is RedOpType.AVG and not is_float:
        raise DtypeError(f"{caller}: the mean of integers is no integer; use ReduceOp.SUM, or x.float()")
    if op in (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR) and is_float:
        raise DtypeError(f"{caller}: {op} is for integers; use ReduceOp.SUM, or x.long()")
    name = "sum" if op is RedOpType.AVG else op.value
    if values.dtype.itemsize < 4 and is_float:
        return values.astype(np.float32), name
    if values.dtype == np.bool_:
        logical = {"sum": "bor", "max": "bor", "product": "band", "min": "band"}
        return values.view(np.uint8), logical.get(name, name)
    return values, name


def as_bytes(values: Array) -> Array:
    """The same memory as bytes, for what is only carried."""
    return values.reshape(-1).view(np.uint8)


def signature(caller: str, values: Array, *more: Any) -> str:
    """What all ranks must have come for."""
    return f"{caller}({values.dtype}, {values.size} values{''.join(f', {x}' for x in more)})"


def carried(
    group: ProcessGroup,
    what: str,
    start: Callable[[bool], Request],
    finish: Callable[[], None],
    async_op: bool,
    repeatable: bool = False,
) -> Work | None:
    """Run a collective, now or in the background. `start(wait)` works on memory of its own where it is repeatable."""
    if async_op:
        return Work(start(False), finish, group, what)
    group.together(what, lambda _: start(True), repeatable=repeatable)
    finish()
    return None
