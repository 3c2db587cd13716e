"""Flat memory: parameters of one group lie side by side, so that one pass of a few array operations updates them all.

The one module of `optim` that knows how a Tensor lies in memory. Parameters in, blocks out: a block is a flat array of
values with flat arrays of moments beside it. Moving a parameter's memory keeps its Tensor, its Storage and its version
count; every write counts up the version of each parameter written. Memory that anyone else can see (a NumPy array, a
view, `detach()`, another parameter, a recorded graph) is never moved: such a parameter is a block of its own, updated
where it lies by the same code, so the numbers do not depend on the layout.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._tensor import Tensor, wrap
from ..errors import ShapeError
from ..lines import user_line
from ..running import quietly
from ..storage import ALIGNMENT, Array, PooledStorage, Storage
from ..types import TensorType, dtype, from_numpy_dtype, get_default_dtype

# Elements handled at a time: values, gradient, two moments and scratch of one stretch stay in the second-level cache.
STRETCH = 1 << 14
N_SCRATCH = 2
_MOST_KEPT_STRETCHES = 256
_array_of = operator.attrgetter("_array")

# kernel(values, gradient, scratch, more scratch, *moments): updates values and moments, may overwrite the others.
Kernel = Callable[..., None]
# rule(first step of these parameters?, their scalars) -> their new scalars, and the kernel for them.
Rule = Callable[[bool, tuple[float, ...]], tuple[tuple[float, ...], Kernel]]
States = Mapping[Tensor, dict[str, Any]]

# The memory that parameters were moved to, by id: there, neighbours on the same base do not overlap.
_BUFFERS: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()


class Names(NamedTuple):
    """The state kept for each parameter, with initial values: numbers, and arrays shaped like the parameter."""

    scalars: dict[str, float]
    moments: dict[str, float]

    @property
    def initial(self) -> dict[str, float]:
        return self.scalars | self.moments


def _references(held: list[Any], position: int) -> int:
    return sys.getrefcount(held[position])


_ONLY_HELD = _references([object()], 0)  # the count of an object that only the list refers to; interpreters differ


def _other_references(held: list[Any]) -> list[int]:
    """For each object in the list, how many references to it there are apart from the list's own."""
    return [_references(held, i) - _ONLY_HELD for i in range(len(held))]


def _plain(p: Tensor) -> bool:
    """Whether the memory has a form that can be moved at all, whoever else may see it."""
    array, storage = p._array, p._storage
    if array is None or p._alias is not None or storage.array is not array:
        return False
    base = array.base
    owned = base is None or (isinstance(base, np.ndarray) and base.base is None)
    return owned and array.flags.c_contiguous and array.flags.writeable and array.size > 0


def _unseen(parameters: list[Tensor]) -> list[Tensor]:
    """Those whose memory nobody but themselves can see, so that it can be moved."""
    plain = [p for p in parameters if _plain(p)]
    arrays = _other_references([p._array for p in plain])  # held by the tensor and by its storage
    storages = _other_references([p._storage for p in plain])  # held by the tensor
    bases = _other_references([p._array.base for p in plain])
    on_base: dict[int, int] = {}
    for p in plain:
        on_base[id(p._array.base)] = on_base.get(id(p._array.base), 0) + 1
    unseen = []
    for i, p in enumerate(plain):
        base = p._array.base
        alone = arrays[i] == 2 and storages[i] == 1
        if alone and base is not None:
            key = id(base)
            ours = _BUFFERS.get(key) is base
            pooled = isinstance(p._storage, PooledStorage) and p._storage._block is base
            # The list of bases refers to a shared one several times.
            neighbours = 2 * on_base[key] - 1 if ours else 1
            alone = bases[i] == neighbours + pooled and (ours or on_base[key] == 1)
        if alone:
            unseen.append(p)
    return unseen


def _buffer(n_elements: int, d: np.dtype[Any]) -> Array:
    """A flat array of zeros whose first element is aligned like every storage."""
    raw = np.empty(n_elements * d.itemsize + ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    flat: Array = raw[offset : offset + n_elements * d.itemsize].view(d)
    flat.fill(0)
    return flat


class Stretch:
    """A piece of a block that fits the cache: some whole members, or a part of one."""

    __slots__ = ("gradient", "moments", "padded", "places", "scratch", "values")

    def __init__(
        self, values: Array, moments: list[Array], workspace: Array, places: list[tuple[int, Array, slice | None]]
    ) -> None:
        n = values.size
        self.values = values
        self.moments = moments
        self.gradient: Array = workspace[0, :n]
        self.scratch: list[Array] = [row[:n] for row in workspace[1:]]
        self.places = places  # (member, where its gradient goes, which part of it or None for all)
        self.padded = sum(place.size for _, place, _ in places) < n

    def run(self, kernel: Kernel, gradients: Sequence[Any]) -> None:
        """Gather the gradients, then update values and moments."""
        if self.padded:
            self.gradient.fill(0)
        for member, place, part in self.places:
            g = gradients[member]
            place[...] = g if part is None else g.reshape(-1)[part]
        if self.values.dtype is self.gradient.dtype:
            kernel(self.values, self.gradient, *self.scratch, *self.moments)
            return
        # float16 and bfloat16 are too coarse to compute in: one rounding at the end, none in between.
        wide = [a.astype(self.gradient.dtype) for a in (self.values, *self.moments)]
        kernel(wide[0], self.gradient, *self.scratch, *wide[1:])
        for narrow, result in zip((self.values, *self.moments), wide, strict=True):
            narrow[...] = result


class Block:
    """Parameters of one dtype that are updated as one array, and the state that goes with them."""

    def __init__(self, members: list[Tensor], names: Names, states: States, move: bool) -> None:
        self.members = members
        self.names = names
        d = members[0]._type.dtype.numpy
        self.compute: np.dtype[Any] = d if d.itemsize > 2 else np.dtype(np.float32)
        self.sizes = [p._type.numel() for p in members]
        step = ALIGNMENT // d.itemsize
        self.starts = [0]
        for size in self.sizes:
            self.starts.append(self.starts[-1] + (-(-size // step) * step if move else size))
        self.moved = move
        # Memory left in place that is not one plain run is copied in and out at every step.
        self.copied = not move and not members[0]._values().flags.c_contiguous
        self.values = self._moved_values(d) if move else np.ascontiguousarray(members[0]._values()).reshape(-1)
        self.arrays = [p._array for p in members]
        self.moments = [_buffer(self.starts[-1], d) for _ in names.moments]
        scalar = np.float64 if get_default_dtype().itemsize == 8 else np.float32
        self.scalars: list[Array] = [np.zeros(len(members), scalar) for _ in names.scalars]
        self.storages = [Storage(flat) for flat in (*self.scalars, *self.moments)]
        self.entries: list[dict[str, Any] | None] = [None] * len(members)
        self.tensors: list[tuple[Tensor, ...]] = [()] * len(members)
        self.started = [False] * len(members)
        for i, p in enumerate(members):
            if self.storages and states.get(p):
                self._take_over(i, states[p])
        self._stretches: dict[tuple[int, int], list[Stretch]] = {}

    def _moved_values(self, d: np.dtype[Any]) -> Array:
        """One array with all values in it; the members' memory is there from now on."""
        values = _buffer(self.starts[-1], d)
        _BUFFERS[id(values.base)] = values.base  # type: ignore[assignment] # an array, by construction
        for p, view in self._views(values):
            np.copyto(view, p._array)
            p._array = p._storage.array = view
            if isinstance(p._storage, PooledStorage):
                p._storage._block = None  # type: ignore[assignment] # its block is no longer this storage's to give back
        return values

    def _views(self, flat: Array) -> Iterator[tuple[Tensor, Array]]:
        for p, start, size in zip(self.members, self.starts, self.sizes, strict=False):
            yield p, flat[start : start + size].reshape(p._type.shape)

    # ---- the state of each member

    def _place(self, i: int, k: int) -> tuple[Array, TensorType]:
        """Where the k-th piece of state (scalars first) of member i lies, and what it is."""
        p = self.members[i]
        if k < len(self.scalars):
            flat = self.scalars[k]
            return flat[i : i + 1].reshape(()), TensorType((), from_numpy_dtype(flat.dtype))
        flat = self.moments[k - len(self.scalars)]
        start = self.starts[i]
        return flat[start : start + self.sizes[i]].reshape(p._type.shape), p._type

    def _take_over(self, i: int, entry: dict[str, Any]) -> None:
        """Move the state that a parameter brings along to its place; what is missing gets its initial value."""
        tensors = []
        for k, (name, initial) in enumerate(self.names.initial.items()):
            found = entry.get(name)
            place, type_ = self._place(i, k)
            self.started[i] |= found is not None and name in self.names.moments
            if isinstance(found, Tensor):
                if found._type.numel() != type_.numel():
                    raise ShapeError(
                        f"step: {name} of a parameter of shape {tuple(type_.shape)} has shape {tuple(found.shape)}; "
                        "after changing the parameter's shape tell the optimizer: optimizer.remap({old: (new, index)})"
                    )
                np.copyto(place, found._values().reshape(type_.shape), casting="unsafe")
            else:
                place.fill(initial if found is None else found)
            if isinstance(found, Tensor) and found._type == type_:
                found._array, found._storage, found._alias = place, self.storages[k], None
            else:
                found = self._tensor(place, type_, k)
            tensors.append(found)
            entry[name] = found
        self.entries[i], self.tensors[i] = entry, tuple(tensors)

    def _tensor(self, place: Array, type_: TensorType, k: int) -> Tensor:
        made = wrap(place, type_)
        made._storage = self.storages[k]
        return made

    def is_current(self, states: States) -> bool:
        """Whether parameters and state still lie where this block keeps them."""
        for i, p in enumerate(self.members):
            if p._array is not self.arrays[i]:
                return False
            if not self.storages:
                continue
            entry = states.get(p)
            if (entry or None) is not self.entries[i]:
                return False
            if entry:
                for name, tensor in zip(self.names.initial, self.tensors[i], strict=True):
                    if entry.get(name) is not tensor:
                        return False
        return True

    def is_in_place(self) -> bool:
        """Whether the parameters still lie where this block keeps them."""
        return all(map(operator.is_, map(_array_of, self.members), self.arrays))

    def gradients(self) -> list[Any]:
        """The gradient of each member as an array, None where there is none."""
        found: list[Any] = []
        for p, size in zip(self.members, self.sizes, strict=True):
            g = p.grad
            if g is None:
                found.append(None)
                continue
            if g._type.shape != p._type.shape:
                raise ShapeError(
                    f"step: a parameter of shape {tuple(p.shape)} has a gradient of shape {tuple(g.shape)}, from "
                    "before its shape was changed; call optimizer.zero_grad() and compute the loss again"
                )
            # A large gradient is read piece by piece, which needs it in order.
            array = g._values()
            found.append(array if size <= STRETCH else np.ascontiguousarray(array))
        return found

    # ---- updating

    def step(self, rule: Rule, states: States, gradients: list[Any], where: Any, workspaces: Workspaces) -> None:
        """Update the members that have a gradient."""
        if self.storages:
            for i, g in enumerate(gradients):
                if g is not None and self.entries[i] is None:
                    self._take_over(i, states[self.members[i]])
        for storage in self.storages:
            storage.version += 1
        if self.copied:
            self.values[...] = self.members[0]._values().reshape(-1)
        for first, last in self._runs(gradients):
            old = tuple(flat[first].item() for flat in self.scalars)
            new, kernel = rule(not self.started[first], old)
            for p in self.members[first:last]:
                p._storage.version += 1
                p._storage.written_at = where
            for flat, value in zip(self.scalars, new, strict=True):
                flat[first:last] = value
            for stretch in self._stretches_of(first, last, workspaces):
                stretch.run(kernel, gradients)
            self.started[first:last] = [True] * (last - first)
        if self.copied:
            self.members[0]._array[...] = self.values.reshape(self.members[0]._type.shape)

    def _runs(self, gradients: list[Any]) -> list[tuple[int, int]]:
        """Neighbours that have gradients and equal scalars: each run is updated by one rule."""
        columns = [self.started, *(flat.tolist() for flat in self.scalars)]
        n_members = len(gradients)
        uniform = all(column.count(column[0]) == n_members for column in columns)
        if uniform and all(g is not None for g in gradients):
            return [(0, n_members)]
        keys = list(zip(*columns, strict=True))
        runs: list[tuple[int, int]] = []
        for i, g in enumerate(gradients):
            if g is None:
                continue
            if runs and runs[-1][1] == i and keys[i - 1] == keys[i]:
                runs[-1] = runs[-1][0], i + 1
            else:
                runs.append((i, i + 1))
        return runs

    def _stretches_of(self, first: int, last: int, workspaces: Workspaces) -> list[Stretch]:
        found = self._stretches.get((first, last))
        if found is None:
            if len(self._stretches) >= _MOST_KEPT_STRETCHES:
                self._stretches.clear()
            found = self._stretches[first, last] = list(self._cut(first, last, workspaces))
        return found

    def _cut(self, first: int, last: int, workspaces: Workspaces) -> Iterator[Stretch]:
        """The members from `first` to `last`, in pieces of at most STRETCH elements."""
        starts = self.starts
        while first < last:
            end = first + 1
            while end < last and starts[end + 1] - starts[first] <= STRETCH:
                end += 1
            if starts[end] - starts[first] <= STRETCH:
                yield self._stretch(workspaces, range(first, end))
            else:
                for offset in range(0, self.sizes[first], STRETCH):
                    part = slice(offset, min(offset + STRETCH, self.sizes[first]))
                    yield self._stretch(workspaces, range(first, end), part)
            first = end

    def _stretch(self, workspaces: Workspaces, members: range, part: slice | None = None) -> Stretch:
        start, stop = self.starts[members[0]], self.starts[members[-1] + 1]
        if part is not None:
            start, stop = start + part.start, start + part.stop
        workspace = workspaces.of(self.compute, stop - start)
        places = []
        for i in members:
            if part is None:
                offset = self.starts[i] - start
                place = workspace[0, offset : offset + self.sizes[i]].reshape(self.members[i]._type.shape)
            else:
                place = workspace[0, : stop - start]
            places.append((i, place, part))
        return Stretch(self.values[start:stop], [m[start:stop] for m in self.moments], workspace, places)


class Workspaces:
    """The memory that gradients are gathered in and that kernels scribble on, one for each dtype."""

    def __init__(self) -> None:
        self._by_dtype: dict[np.dtype[Any], Array] = {}

    def of(self, d: np.dtype[Any], n_elements: int) -> Array:
        """Rows of at least that many elements; stretches cut from a smaller one keep that."""
        found = self._by_dtype.get(d)
        if found is None or found.shape[1] < n_elements:
            width = min(STRETCH, max(64, 1 << (n_elements - 1).bit_length()))
            found = _buffer((1 + N_SCRATCH) * width, d).reshape(1 + N_SCRATCH, width)
            self._by_dtype[d] = found
        return found


class Layout:
    """How the parameters of one group lie in memory: in as few blocks as is safe.

    Parameters join at their first gradient. Those that cannot be moved, and those that joined late, are blocks of their
    own until the next attempt; attempts come after 1, 2, 4, ... steps, so a program that keeps breaking the layout does
    not pay for it at every step.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._idle: list[Tensor] = []  # in no block, because they never had a gradient
        self._names: list[str] | None = None
        self._fingerprint: list[int] | None = None
        self._until_attempt = 0
        self._patience = 1

    def step(self, parameters: list[Tensor], names: Names, rule: Rule, states: States, workspaces: Workspaces) -> None:
        """Update every parameter that has a gradient."""
        self._refresh(parameters, names, states)
        where = user_line()
        if sum(len(block.members) for block in self.blocks) + len(self._idle) < len(parameters):
            quietly(self._step_repeated, parameters, rule, states, where, workspaces)
        else:
            quietly(self._step_each, rule, states, where, workspaces)

    def _step_each(self, rule: Rule, states: States, where: Any, workspaces: Workspaces) -> None:
        gradients = [block.gradients() for block in self.blocks]  # all of them first: one may be refused
        for block, arrays in zip(self.blocks, gradients, strict=True):
            block.step(rule, states, arrays, where, workspaces)

    def _step_repeated(
        self, parameters: list[Tensor], rule: Rule, states: States, where: Any, workspaces: Workspaces
    ) -> None:
        """A parameter that stands in the group several times is updated as often, in order, as PyTorch does."""
        of = {id(p): (block, i) for block in self.blocks for i, p in enumerate(block.members)}
        for p in parameters:
            if id(p) in of:
                block, i = of[id(p)]
                arrays = [g if k == i else None for k, g in enumerate(block.gradients())]
                block.step(rule, states, arrays, where, workspaces)

    def _refresh(self, parameters: list[Tensor], names: Names, states: States) -> None:
        """Make the blocks fit. In most steps nothing has changed, which comparing identities finds out quickly."""
        fingerprint = _fingerprint(parameters, states)
        same_names = self._names == list(names.initial)
        unchanged = same_names and fingerprint is not None and fingerprint == self._fingerprint
        if unchanged and all(block.is_in_place() for block in self.blocks):
            late = [p for p in self._idle if p.grad is not None]
        elif same_names and self._still_fits(parameters, states):
            here = {id(p) for block in self.blocks for p in block.members}
            self._idle = [p for p in {id(p): p for p in parameters}.values() if id(p) not in here]
            late = [p for p in self._idle if p.grad is not None or states.get(p)]
        else:
            self._rebuild(parameters, names, states)
            late = []
        if late:
            self._idle = [p for p in self._idle if all(p is not q for q in late)]
            self.blocks += [Block([p], names, states, move=False) for p in late]
        if len(self.blocks) > 1 and not all(block.moved for block in self.blocks):
            if self._until_attempt <= 0:
                self._rebuild(parameters, names, states)
            self._until_attempt -= 1
        for block in self.blocks:  # after rebuilding: a block that a variable still refers to would be in the way
            block.names = names  # initial values follow the learning rate
        self._fingerprint = fingerprint

    def _still_fits(self, parameters: list[Tensor], states: States) -> bool:
        known = set(map(id, parameters))
        members = (p for block in self.blocks for p in block.members)
        return all(id(p) in known for p in members) and all(block.is_current(states) for block in self.blocks)

    def _rebuild(self, parameters: list[Tensor], names: Names, states: States) -> None:
        self.blocks = []  # first of all: their references would count
        wanted: list[Tensor] = []
        idle: list[Tensor] = []
        for p in {id(p): p for p in parameters}.values():
            (wanted if p.grad is not None or states.get(p) else idle).append(p)
        by_dtype: dict[dtype, list[Tensor]] = {}
        if self._until_attempt <= 0:
            for p in _unseen(wanted):
                by_dtype.setdefault(p._type.dtype, []).append(p)
            self._until_attempt = self._patience
            self._patience *= 2
        together = [members for members in by_dtype.values() if len(members) > 1]
        done = {id(p) for members in together for p in members}
        self.blocks = [Block(members, names, states, move=True) for members in together]
        self.blocks += [Block([p], names, states, move=False) for p in wanted if id(p) not in done]
        self._idle = idle
        self._names = list(names.initial)


def _fingerprint(parameters: list[Tensor], states: States) -> list[int] | None:
    """The identities of everything that a layout refers to; None for a state of an unknown form."""
    entries = states.values()
    try:
        pieces = chain.from_iterable(map(dict.values, entries))
        return [*map(id, parameters), *map(id, entries), *map(id, pieces)]
    except TypeError:
        return None
