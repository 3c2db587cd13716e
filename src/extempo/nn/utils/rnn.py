"""Sequences of different lengths as one tensor: padded to the longest, or packed step by step without padding.

A packed sequence holds the first step of all sequences, then the second step of all that have one, and so on, with the
longest sequence first. Packing and unpacking are one gather and one scatter each, whatever the lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ... import ops
from ...core.absent_names import explain_absent
from ...core.tensor import Tensor
from ...core.wording import counted
from ...errors import DtypeError, ShapeError

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

Places = npt.NDArray[np.int64]


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another one.

    >>> nn.utils.rnn.invert_permutation(ex.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences packed step by step: `data` (all steps), `batch_sizes` (how many sequences have a step t).

    `sorted_indices` says which of the given sequences stands where, longest first. Made by `pack_sequence` or
    `pack_padded_sequence`; recurrent layers take and return it.

    >>> packed = nn.utils.rnn.pack_sequence([ex.tensor([1.0, 2.0, 3.0]), ex.tensor([4.0])])
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([1.0, 4.0, 2.0, 3.0], [2, 1, 1])
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if not isinstance(data, Tensor) or not isinstance(batch_sizes, Tensor):
            raise DtypeError("PackedSequence: expected tensors as data and batch_sizes; use pack_sequence to make one")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self, data: Tensor) -> Self:
        return self if data is self.data else type(self)(data, *self[1:])

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same sequences with `data.to(...)`."""
        return self._with(self.data.to(*args, **kwargs))

    def float(self) -> Self:
        """As float32."""
        return self._with(self.data.float())

    def double(self) -> Self:
        """As float64."""
        return self._with(self.data.double())

    def half(self) -> Self:
        """As float16."""
        return self._with(self.data.half())

    def long(self) -> Self:
        """As int64."""
        return self._with(self.data.long())

    def cpu(self) -> Self:
        """The sequence itself: it is on the CPU already."""
        return self

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Not there: Extempo runs on the CPU."""
        return self._with(self.data.cuda(*args, **kwargs))

    def pin_memory(self) -> Self:
        """The sequence itself: without a GPU there is nothing to pin for."""
        return self

    def is_pinned(self) -> bool:
        """False: without a GPU there is nothing to pin for."""
        return False

    @property
    def is_cuda(self) -> bool:
        """False: the data lies on the CPU."""
        return False


def _read_lengths(lengths: Any, op: str) -> Places:
    values: Places = np.asarray(lengths.tolist() if isinstance(lengths, Tensor) else list(lengths))
    if values.ndim != 1 or values.dtype.kind not in "iu" or not values.size:
        raise ShapeError(f"{op}: lengths must be integers, one for each sequence, got {lengths!r}")
    return values.astype(np.int64)


def _packed_places(batch_sizes: Places) -> tuple[Places, Places]:
    """The step, and the place among the sorted sequences, of each row of a packed sequence."""
    steps = np.repeat(np.arange(len(batch_sizes)), batch_sizes)
    starts = np.cumsum(batch_sizes) - batch_sizes
    return steps, np.arange(len(steps)) - np.repeat(starts, batch_sizes)


def _rows(steps: Places, members: Places, n_steps: int, n_members: int, batch_first: bool) -> Tensor:
    """Where (step, member) lies when both dimensions of a padded tensor are seen as one."""
    return ops.from_numpy(members * n_steps + steps if batch_first else steps * n_members + members)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Leave the padding out.

    input: (time, batch, ...), or (batch, time, ...) with `batch_first`. enforce_sorted: the longest comes first; pass
    False for any order.

    >>> padded = ex.tensor([[1, 2, 0], [3, 4, 5]])
    >>> nn.utils.rnn.pack_padded_sequence(padded, [2, 3], batch_first=True, enforce_sorted=False).data
    tensor([3, 1, 4, 2, 5])
    """
    sizes = _read_lengths(lengths, "pack_padded_sequence")
    if input.ndim < 2:
        raise ShapeError(f"pack_padded_sequence: expected a time and a batch dimension, got {tuple(input.shape)}")
    n_members, n_steps = input.shape[:2] if batch_first else (input.shape[1], input.shape[0])
    if len(sizes) != n_members:
        raise ShapeError(
            f"pack_padded_sequence: there are {counted(n_members, 'sequence')} in {tuple(input.shape)}, but "
            f"{counted(len(sizes), 'length')}"
        )
    if sizes.min() < 1 or sizes.max() > n_steps:
        raise ShapeError(
            f"pack_padded_sequence: lengths must lie between 1 and the {n_steps} steps there are, got {sizes.tolist()}"
        )
    if enforce_sorted and np.any(sizes[:-1] < sizes[1:]):
        raise ShapeError(
            f"pack_padded_sequence: the lengths {sizes.tolist()} must not grow; pass enforce_sorted=False for any order"
        )
    order = np.argsort(-sizes, kind="stable")
    batch_sizes = np.count_nonzero(sizes > np.arange(sizes.max())[:, None], axis=1)
    steps, places = _packed_places(batch_sizes)
    data = input.flatten(0, 1).index_select(0, _rows(steps, order[places], n_steps, n_members, batch_first))
    return PackedSequence(data, ops.from_numpy(batch_sizes), None if enforce_sorted else ops.from_numpy(order))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """(padded, lengths): the inverse of `pack_padded_sequence`; `total_length` pads further than the longest.

    >>> packed = nn.utils.rnn.pack_sequence([ex.tensor([1.0, 2.0]), ex.tensor([3.0])])
    >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1., 2.],
            [3., 0.]]), tensor([2, 1]))
    """
    batch_sizes = _read_lengths(sequence.batch_sizes, "pad_packed_sequence")
    n_members, n_steps = int(batch_sizes[0]), len(batch_sizes)
    if total_length is not None and total_length < n_steps:
        raise ShapeError(
            f"pad_packed_sequence: total_length {total_length} is less than the {n_steps} steps of the longest sequence"
        )
    n_padded = n_steps if total_length is None else total_length
    order = sequence.sorted_indices
    if order is None:
        order = invert_permutation(sequence.unsorted_indices)
    members: Places = np.arange(n_members) if order is None else np.asarray(order.tolist(), np.int64)
    steps, places = _packed_places(batch_sizes)
    rows = _rows(steps, members[places], n_padded, n_members, batch_first)
    padded = _placed(sequence.data, rows, n_padded, n_members, batch_first, padding_value)
    lengths: Places = np.empty(n_members, np.int64)
    lengths[members] = np.count_nonzero(batch_sizes > np.arange(n_members)[:, None], axis=1)
    return padded, ops.from_numpy(lengths)


def _placed(data: Tensor, rows: Tensor, n_steps: int, n_members: int, batch_first: bool, padding: float) -> Tensor:
    """A padded tensor with the rows of `data` where they belong."""
    flat = ops.full((n_steps * n_members, *data.shape[1:]), padding, dtype=data.dtype).index_copy(0, rows, data)
    return flat.unflatten(0, (n_members, n_steps) if batch_first else (n_steps, n_members))


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Put sequences (length, ...) side by side, the shorter ones filled up at their end or (padding_side="left") start.

    >>> nn.utils.rnn.pad_sequence([ex.tensor([1, 2, 3]), ex.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if padding_side not in ("left", "right"):
        raise ShapeError(f"pad_sequence: padding_side is 'left' or 'right', got {padding_side!r}")
    members = _check_sequences(sequences, "pad_sequence")
    sizes: Places = np.array([len(s) for s in members], np.int64)
    n_steps, n_members = int(sizes.max()), len(members)
    owners = np.repeat(np.arange(n_members), sizes)
    steps = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    if padding_side == "left":
        steps += np.repeat(n_steps - sizes, sizes)
    rows = _rows(steps, owners, n_steps, n_members, batch_first)
    return _placed(ops.cat(members), rows, n_steps, n_members, batch_first, padding_value)


def _check_sequences(sequences: Any, op: str) -> list[Tensor]:
    if not isinstance(sequences, Iterable):
        raise DtypeError(f"{op}: expected a list of tensors, got {type(sequences).__name__}")
    members = list(sequences)
    if not members:
        raise ShapeError(f"{op}: expected at least one sequence, got none")
    for position, member in enumerate(members):
        if not isinstance(member, Tensor):
            raise DtypeError(f"{op}: sequence {position} is no tensor but {type(member).__name__}")
        if not member.ndim or member.shape[1:] != members[0].shape[1:]:
            raise ShapeError(
                f"{op}: the sequences may differ in length only, but sequence {position} has shape "
                f"{tuple(member.shape)} and sequence 0 {tuple(members[0].shape)}"
            )
    return members


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """The sequences without their padding, as a list: the inverse of `pad_sequence`.

    >>> nn.utils.rnn.unpad_sequence(ex.tensor([[1, 2, 3], [4, 0, 0]]), [3, 1], batch_first=True)
    [tensor([1, 2, 3]), tensor([4])]
    """
    sizes = _read_lengths(lengths, "unpad_sequence").tolist()
    members = padded_sequences.unbind(0 if batch_first else 1)
    if len(members) != len(sizes):
        raise ShapeError(
            f"unpad_sequence: there are {counted(len(members), 'sequence')}, but {counted(len(sizes), 'length')}"
        )
    return [member[:size] for member, size in zip(members, sizes, strict=True)]


def pack_sequence(sequences: Iterable[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, ...) step by step. enforce_sorted: the longest comes first; pass False for any order.

    >>> nn.utils.rnn.pack_sequence([ex.tensor([1]), ex.tensor([2, 3])], enforce_sorted=False).data
    tensor([2, 1, 3])
    """
    members = _check_sequences(sequences, "pack_sequence")
    return pack_padded_sequence(pad_sequence(members), [len(s) for s in members], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The packed sequences as a list.

    >>> packed = nn.utils.rnn.pack_sequence([ex.tensor([1, 2]), ex.tensor([3])])
    >>> nn.utils.rnn.unpack_sequence(packed)
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


explain_absent(__name__)
