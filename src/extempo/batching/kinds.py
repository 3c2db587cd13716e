"""Kinds of calls. Calls of one kind, an op or a cell, can run as one, whichever samples they belong to.

A kind is a pure function of one sample with everything about it that is not a value: what it computes, the types of its
inputs, which of them want a gradient, and the tensors that it reads besides its inputs (parameters). `rows` below are
the values of several calls, stacked: an array whose first dimension counts calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ..core.cache import Cache
from ..core.graph import Where
from ..core.op import Elementwise, Op
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, count

# One object for equal types: whoever compares the types of results does it most often by identity.
_TYPES: Cache[TensorType, TensorType] = Cache("types of results of kinds", 10_000)
LARGE = 4_096  # elements, from which on copies of a tensor for many calls cost more than smaller batches
_TAKE_NUMBERS = ("embedding", "cross_entropy")  # ops that take a 0-dim tensor wherever they take a number


def takes_numbers(op: type[Op]) -> bool:
    """Whether numbers among the inputs of an op may differ between calls of one kind."""
    return issubclass(op, Elementwise) or op.family == "random" or op.name in _TAKE_NUMBERS


def _is_large(t: Any) -> bool:
    return isinstance(t, TensorType) and count(t.shape) >= LARGE


class Input(NamedTuple):
    """One input of a call: a tensor of some type, or a Python number (`type` is float, int or bool)."""

    type: Any
    tracked: bool  # whether it wants a gradient


class CallKind:
    """What calls have in common that can run as one."""

    __slots__ = (
        "__weakref__",
        "alone",
        "backward_aside",
        "captured",
        "cell",
        "fn",
        "inputs",
        "large",
        "n_calls",
        "n_ops",
        "n_waited",
        "name",
        "next_aside",
        "results",
        "runners",
        "stacks",
        "takes_rows",
        "tracked",
        "varying",
        "waits_with",
        "where",
    )

    def __init__(
        self,
        name: str,
        fn: Callable[..., tuple[Tensor, ...]],
        inputs: tuple[Input, ...],
        results: tuple[TensorType, ...],
        tracked: tuple[bool, ...],
        captured: tuple[Tensor, ...],
        where: Where | None = None,
        alone: bool = False,
        cell: bool = True,
        n_ops: int = 1,
        stacks: bool = False,
    ) -> None:
        self.name = name
        self.fn = fn  # of one sample: takes the inputs in order, returns a tuple of tensors
        self.inputs = inputs
        self.results = tuple([_TYPES.get(t) or _TYPES.put(t, t) for t in results])
        self.tracked = tracked  # which results have a gradient
        self.captured = captured  # tensors it reads besides its inputs; the same in all calls
        self.where = where  # its first call
        self.alone = alone  # calls cannot run as one, only one after the other
        self.cell = cell  # rather than one op
        self.n_ops = n_ops
        self.n_calls = 0  # that have run
        self.n_waited = 0  # flushes that had no need of its calls, less those that had (`needed`)
        self.backward_aside, self.next_aside = 0, 1  # runs whose batches backward takes as they are (`rebatching`)
        self.waits_with: CallKind | None = None  # a kind of calls at several sizes that its own are recorded with
        self.stacks = stacks  # the result is its inputs, of one type, one after the other
        self.varying: set[int] = set()  # numbers among the inputs that were seen to differ between calls
        self.runners: dict[Any, Runner] = {}  # by which inputs are shared
        self.large = tuple([j for j, i in enumerate(inputs) if _is_large(i.type)])  # inputs that are tensors so large
        # Whether batches of it are made of rows of a table and tensors that all calls share, and of nothing else.
        self.takes_rows = not (stacks or alone) and all(isinstance(i.type, TensorType) for i in inputs)

    def __repr__(self) -> str:
        return f"<kind {self.name}: {', '.join(str(i.type) for i in self.inputs)}>"


class SharedTensor(NamedTuple):
    """An input that is one and the same tensor in all calls, and its values, row-major."""

    tensor: Tensor
    array: Array


class Runner(Protocol):
    """Runs calls of one kind as one, for some choice of inputs that all calls share.

    What it takes for each input: rows; for a shared one the tensor or number itself. A number that is not shared comes
    as rows of shape (n,), of a dtype that gives the result the type which the number would have given it.
    """

    def forward(self, inputs: Sequence[Any], n: int) -> tuple[list[Array], Any]:
        """Rows of each result, and what backward needs."""
        ...

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        """From rows of gradients of the results (None: zeros) those of the inputs, and what is deferred to `finish`.

        The gradient of an input that is shared has the input's own shape; None if it is deferred, too.
        """
        ...

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        """The gradients of captured and shared tensors, from what all backward calls deferred.

        Nobody else has their memory.
        """
        ...
