"""Reducer: the gradients of a model, averaged over ranks after each backward, whatever graph each rank has run.

One meeting a step brings together who takes part, with which parameters (a digest) and which of them each rank has used
(a bitmap). Then flat buckets travel, in one order on all ranks. `.grad` changes only when all of it has worked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.active_traces import before_write
from ..core.storage import Array
from ..core.tensor import Tensor, from_array, wrap
from ..errors import DistributedError
from ..nn.module import Module
from .groups import ProcessGroup
from .objects import exchanged
from .structure import Structure, code_of, first_difference

_NUMBERS = itertools.count()  # the same in every process, where models are made in the same order
_JOINED = 1  # the flag of a rank that has no data left


class Bucket(NamedTuple):
    """Parameters whose gradients travel as one array."""

    members: list[int]
    starts: list[int]  # and the end
    dtype: Any


class GradBucket:
    """What a communication hook gets: one flat tensor with the gradients of some parameters.

    index: the number of the bucket.
    tensor: the gradients, one after the other.
    parameters: of the model, in that order.
    is_last_one: whether no other bucket follows in this step.
    """

    def __init__(self, index: int, tensor: Tensor, parameters: list[Tensor], is_last_one: bool) -> None:
        self._index = index
        self._tensor = tensor
        self._parameters = parameters
        self._is_last = is_last_one

    def index(self) -> int:
        """The number of the bucket, the same on all ranks."""
        return self._index

    def buffer(self) -> Tensor:
        """The gradients of all its parameters, one after the other."""
        return self._tensor

    def set_buffer(self, tensor: Tensor) -> None:
        """Replace them.

        tensor: of the same size.
        """
        self._tensor = tensor

    def parameters(self) -> list[Tensor]:
        """Whose gradients these are, in order."""
        return list(self._parameters)

    def gradients(self) -> list[Tensor]:
        """The gradients one by one."""
        sizes = [p.numel() for p in self._parameters]
        parts = self._tensor.split(sizes)
        return [part.reshape(p.shape) for part, p in zip(parts, self._parameters, strict=True)]

    def is_last(self) -> bool:
        """Whether no other bucket follows in this step."""
        return self._is_last


class Reducer:
    """Averages the gradients of a module over the ranks of a group."""

    def __init__(self, module: Module, group: ProcessGroup, bucket_bytes: int, as_views: bool) -> None:
        self._module = module
        self.group = group
        self.number = next(_NUMBERS)
        self.name = f"the gradients of {type(module).__name__}"
        self._bucket_bytes = bucket_bytes
        self._as_views = as_views
        self.structure = Structure(module)
        self._buckets = self._arranged()
        self._agreed = self.structure.digest
        self._before: list[tuple[Tensor | None, int]] | None = None
        self.weight: float | None = None  # of this rank's gradients; all count the same if None
        self.divide_by_all = True
        self.broadcast_buffers = True
        self.hook: Callable[[GradBucket], Any] | None = None
        self.throws = False  # whether a rank without data is an error
        self.n_steps = 0  # that this rank had data for

    # ---- before the first step

    def check(self) -> None:
        """The same code and parameters on all ranks, or the same error on all."""
        import extempo

        own = [
            f"version {extempo.__version__}",
            *(f"class {name}, code {code}" for name, code in code_of(self._module)),
        ]
        parameters = [str(entry) for entry in self.structure.entries]
        engine = self.group.engine
        found = self.group.together(
            f"DistributedDataParallel #{self.number}", lambda _: exchanged(engine, (own, parameters))
        )
        for i, of in enumerate(("", "the parameter")):
            descriptions = [entry[i] for entry in found]
            if any(description != descriptions[0] for description in descriptions):
                told = first_difference(descriptions, of).replace("  ", " ")
                raise DistributedError(
                    f"DistributedDataParallel: ranks have different models: {told}; start all ranks with the same "
                    "program, arguments and version"
                )

    def share(self, root: int = 0) -> None:
        """The parameters and buffers of one rank, on all."""
        tensors = [*self._module.parameters(), *self._module.buffers()]
        self.group.together(f"weights #{self.number}", lambda _: self._share(tensors, root))

    def share_from_last(self, n_steps: int) -> None:
        """The weights of a rank that had data longest, on all."""

        def act(table: Array) -> None:
            self._share([*self._module.parameters(), *self._module.buffers()], int(table[:, 0].argmax()))

        self.group.together(f"weights after join #{self.number}", act, facts=(n_steps,))

    def _share(self, tensors: list[Tensor], root: int) -> None:
        """For ranks that have met."""
        engine = self.group.engine
        for tensor in tensors:
            values = np.ascontiguousarray(tensor._values())
            engine.broadcast(values.reshape(-1).view(np.uint8), root)
            if engine.rank != root:
                before_write((tensor._storage,))
                if values is not tensor._array:
                    np.copyto(tensor._array, values)
                tensor._storage.version += 1

    # ---- one step

    def prepare(self) -> None:
        """Before a forward: which parameters there are, and what their `.grad` is."""
        if self.structure.look():
            self._buckets = self._arranged()
            self._before = None
        if self._before is None:
            gradients = [p.grad for p in self.structure.parameters]
            self._before = [(g, 0 if g is None else g._version) for g in gradients]

    def _arranged(self) -> list[Bucket]:
        """Buckets of at most so many bytes, from the last parameter to the first; a large parameter has its own."""
        buckets: list[Bucket] = []
        n_bytes = 0
        for i in reversed(range(len(self.structure.parameters))):
            p = self.structure.parameters[i]
            kind = p._type.dtype.numpy
            kind = kind if kind.itemsize > 2 else np.dtype(np.float32)
            size = p.numel() * kind.itemsize
            if not buckets or buckets[-1].dtype != kind or n_bytes + size > self._bucket_bytes:
                buckets.append(Bucket([], [0], kind))
                n_bytes = 0
            buckets[-1].members.append(i)
            buckets[-1].starts.append(buckets[-1].starts[-1] + p.numel())
            n_bytes += size
        return buckets

    def reduce(self, joined: bool = False) -> bool:
        """After a backward: average, if some rank has used a parameter. `joined`: without data, for the others' sake.

        False: no rank has used one, or, for one that has joined, all have joined.
        """
        self.prepare() if joined else None
        facts = (self.structure.digest, _JOINED if joined else 0, _bits(1.0 if self.weight is None else self.weight))
        table, used, flats = self.group.together(
            f"{self.name} #{self.number}", lambda table: self._exchange(table, joined), facts=facts
        )
        if self.throws and (table[:, 1] == _JOINED).any():
            raise DistributedError(f"{self.name}: rank {np.flatnonzero(table[:, 1] == _JOINED)[0]} has no data left")
        if not used.any():
            return joined and not (table[:, 1] == _JOINED).all()
        active = np.flatnonzero(table[:, 1] != _JOINED)
        scale = 1.0 / self._divisor(table, active)
        for i, bucket in enumerate(self._buckets):
            if self.hook is not None:
                flats[i] = self._hooked(i, bucket, flats[i])
            if not joined:
                self._write(bucket, flats[i], used, 1.0 if self.hook is not None else scale)
        if self.structure.digest != self._agreed:  # new layers begin alike everywhere
            self.share(int(active[0]))
            self._agreed = self.structure.digest
        self._before = None
        self.n_steps += not joined
        return True

    def _divisor(self, table: Array, active: Array) -> float:
        if self.weight is not None:
            return float(table[active, 2].view(np.float64).sum())
        return float(len(table) if self.divide_by_all else len(active))

    def _exchange(self, table: Array, joined: bool) -> tuple[Array, Array, list[Array]]:
        """The bitmap, then the buckets; nothing that is read is changed."""
        engine = self.group.engine
        if (table[:, 0] != table[0, 0]).any():
            found = exchanged(engine, [str(entry) for entry in self.structure.entries])
            raise DistributedError(
                f"{self.name}: ranks have different parameters: {first_difference(found, 'the parameter')}; grow, "
                "prune and swap layers in the same step on all ranks"
            )
        used = self._used(joined)
        if not (table[:, 1] == _JOINED).all():
            packed = np.packbits(used)
            engine.all_reduce(packed, "bor")
            used = np.unpackbits(packed, count=used.size).astype(np.bool_)
        flats: list[Array] = []
        if used.any():
            flats = [self._flat(bucket, joined) for bucket in self._buckets]
            for flat in flats if self.hook is None else ():
                engine.all_reduce(flat, "sum")
            if self.broadcast_buffers:
                first = int(np.flatnonzero(table[:, 1] != _JOINED)[0])
                self._share(list(self._module.buffers()), first)
        return table, used, flats

    def _used(self, joined: bool) -> Array:
        """Which parameters have got a gradient since `prepare`."""
        used = np.zeros(len(self.structure.parameters), np.bool_)
        if not joined and self._before is not None:
            for i, (p, (before, version)) in enumerate(zip(self.structure.parameters, self._before, strict=True)):
                g = p.grad
                used[i] = g is not None and (g is not before or g._version != version)
        return used

    def _flat(self, bucket: Bucket, joined: bool) -> Array:
        flat = np.empty(bucket.starts[-1], bucket.dtype)
        for i, start, end in zip(bucket.members, bucket.starts, bucket.starts[1:], strict=False):
            g = None if joined else self.structure.parameters[i].grad
            if g is None:
                flat[start:end] = 0
            else:
                np.copyto(flat[start:end].reshape(g._type.shape), g._values(), casting="unsafe")
        if self.weight is not None and not joined:
            flat *= self.weight
        return flat

    def _hooked(self, i: int, bucket: Bucket, flat: Array) -> Array:
        assert self.hook is not None
        parameters = [self.structure.parameters[k] for k in bucket.members]
        shown = GradBucket(i, from_array(flat), parameters, i == len(self._buckets) - 1)
        result = self.hook(shown)
        for name in ("wait", "value"):  # a future, as PyTorch's hooks give
            if not isinstance(result, Tensor) and hasattr(result, name):
                result = getattr(result, name)()
        result = result[0] if isinstance(result, list | tuple) else result
        if not isinstance(result, Tensor) or result.numel() != flat.size:
            got = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise DistributedError(
                f"comm hook: it must return a tensor of {flat.size} values, as bucket.buffer() is, got {got}"
            )
        return np.ascontiguousarray(result._values()).reshape(-1)

    def _write(self, bucket: Bucket, flat: Array, used: Array, scale: float) -> None:
        """Averages into `.grad`, of the parameters that some rank has used."""
        if self._as_views and scale != 1.0:
            np.multiply(flat, scale, out=flat)
            scale = 1.0
        for i, start, end in zip(bucket.members, bucket.starts, bucket.starts[1:], strict=False):
            if not used[i]:
                continue
            p = self.structure.parameters[i]
            part = flat[start:end].reshape(p._type.shape)
            g = p.grad
            if self._as_views and part.dtype == p._type.dtype.numpy:
                p.grad = wrap(part, p._type)
            elif g is None:
                p.grad = wrap((part * part.dtype.type(scale)).astype(p._type.dtype.numpy, copy=False), p._type)
            else:
                before_write((g._storage,))
                np.multiply(part, part.dtype.type(scale), out=g._array, casting="unsafe")
                g._storage.version += 1


def _bits(weight: float) -> int:
    return int(np.array([weight], np.float64).view(np.int64)[0])
