"""Flat memory: parameters of one group are contiguous, so that one pass updates them all, natively in one call.

Parameters in, blocks out: a block is a flat array of values with flat arrays of moments beside it. Moving a parameter's
memory keeps its Tensor, its Storage and its version count; every write counts up the version of each parameter written.
Memory that anyone else can see (`ownership` finds out) is never moved: such a parameter is a block of its own, updated
where it is by the same code, so the numbers do not depend on the layout.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends import entry_points
from ..core.active_traces import before_write
from ..core.storage import ALIGNMENT, Array, Storage
from ..core.tensor import Tensor, wrap
from ..core.types import TensorType, dtype, from_numpy_dtype, get_default_dtype
from ..dispatch.dispatcher import quietly
from ..dispatch.fused_update import Update, native_places, native_stepping, native_update, numpy_update
from ..errors import ShapeError
from .ownership import BUFFERS, buffer, unseen

# Elements that NumPy handles at a time: what a formula makes of one stretch stays in the second-level cache.
STRETCH = 1 << 14
_MOST_KEPT_STRETCHES = 256
_array_of = operator.attrgetter("_data")

# rule(first step of these parameters?, their scalars) -> their new scalars, and the update of their elements.
Rule = Callable[[bool, tuple[float, ...]], tuple[tuple[float, ...], Update]]
States = Mapping[Tensor, dict[str, Any]]


@entry_points.GRADIENTS.function(lambda: native_stepping().gradients)
def gradients_in_place(parameters: list[Tensor], arrays: list[Array]) -> list[Array] | None:
    """The arrays of all gradients; None unless each parameter has one with values, and still lies in its array."""
    found = []
    for p, array in zip(parameters, arrays, strict=True):
        extra = None if p._history is None else p._history.extra
        gradient = None if extra is None else extra.grad
        if p._data is not array or gradient is None or gradient._data is None:
            return None
        found.append(gradient._data)
    return found


@entry_points.WRITTEN.function(lambda: native_stepping().written)
def count_writes(parameters: list[Tensor], storages: list[Storage], where: Any) -> None:
    """One more write to each; parameters remember where it happened."""
    for p in parameters:
        p._storage.version += 1
        p._storage.written_at = where
    for storage in storages:
        storage.version += 1


class Names(NamedTuple):
    """The state kept for each parameter, with initial values: numbers, and arrays shaped like the parameter."""

    scalars: dict[str, float]
    moments: dict[str, float]

    @property
    def initial(self) -> dict[str, float]:
        return self.scalars | self.moments


class Stretch:
    """A piece of a block that fits the cache: some whole members, or a part of one."""

    __slots__ = ("gradient", "moments", "padded", "targets", "values")

    def __init__(
        self, values: Array, moments: list[Array], gradient: Array, targets: list[tuple[int, Array, slice | None]]
    ) -> None:
        self.values = values
        self.moments = moments
        self.gradient = gradient
        self.targets = targets  # (member, where its gradient goes, which part of it or None for all)
        self.padded = sum(target.size for _, target, _ in targets) < values.size

    def run(self, update: Update, gradients: Sequence[Any]) -> None:
        """Gather the gradients, then update values and moments."""
        if self.padded:
            self.gradient.fill(0)
        for member, target, part in self.targets:
            g = gradients[member]
            target[...] = g if part is None else g.reshape(-1)[part]
        numpy_update(update, self.gradient, self.values, self.moments)


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
        self.moments = [buffer(self.starts[-1], d) for _ in names.moments]
        scalar = np.float64 if get_default_dtype().itemsize == 8 else np.float32
        self.scalars: list[Array] = [np.zeros(len(members), scalar) for _ in names.scalars]
        self.storages = [Storage(flat) for flat in (*self.scalars, *self.moments)]
        self.entries: list[dict[str, Any] | None] = [None] * len(members)
        self.tensors: list[tuple[Tensor, ...]] = [()] * len(members)
        self.started = [False] * len(members)  # whether they have moments, and not just zeros
        for i, p in enumerate(members):
            if self.storages and states.get(p):
                self._take_over(i, states[p])
        self._stretches: dict[tuple[int, int], list[Stretch]] = {}
        self._places = native_places(d, self.values, self.moments)
        self._kernel: tuple[Any, Any] = (None, None)  # of the last kind of update
        self._complete = False  # after a step of all members together: their state is here and has begun

    def _moved_values(self, d: np.dtype[Any]) -> Array:
        """One array with all values in it; the members' memory is there from now on."""
        values = buffer(self.starts[-1], d)
        BUFFERS.add(values.base)  # type: ignore[arg-type] # an array, by construction
        for p, view in self._views(values):
            np.copyto(view, p._array)
            p._array = p._storage.array = view
        return values

    def _views(self, flat: Array) -> Iterator[tuple[Tensor, Array]]:
        for p, start, size in zip(self.members, self.starts, self.sizes, strict=False):
            yield p, flat[start : start + size].reshape(p._type.shape)

    # ---- the state of each member

    def _slot(self, i: int, k: int) -> tuple[Array, TensorType]:
        """The memory of the k-th piece of state (scalars first) of member i, and its type."""
        p = self.members[i]
        if k < len(self.scalars):
            flat = self.scalars[k]
            return flat[i : i + 1].reshape(()), TensorType((), from_numpy_dtype(flat.dtype))
        flat = self.moments[k - len(self.scalars)]
        start = self.starts[i]
        return flat[start : start + self.sizes[i]].reshape(p._type.shape), p._type

    def _take_over(self, i: int, entry: dict[str, Any]) -> None:
        """Move the state that a parameter brings along into this block; what is missing gets its initial value."""
        tensors = []
        for k, (name, initial) in enumerate(self.names.initial.items()):
            found = entry.get(name)
            target, type_ = self._slot(i, k)
            self.started[i] |= found is not None and name in self.names.moments
            if isinstance(found, Tensor):
                if found._type.numel() != type_.numel():
                    raise ShapeError(
                        f"step: {name} of a parameter of shape {tuple(type_.shape)} has shape {tuple(found.shape)}; "
                        "after changing the parameter's shape tell the optimizer: optimizer.remap({old: (new, index)})"
                    )
                np.copyto(target, found._values().reshape(type_.shape), casting="unsafe")
            else:
                target.fill(initial if found is None else found)
            if isinstance(found, Tensor) and found._type == type_:
                found._array, found._storage, found._alias = target, self.storages[k], None
            else:
                found = self._tensor(target, type_, k)
            tensors.append(found)
            entry[name] = found
        self.entries[i], self.tensors[i] = entry, tuple(tensors)

    def _tensor(self, target: Array, type_: TensorType, k: int) -> Tensor:
        made = wrap(target, type_)
        made._storage = self.storages[k]
        return made

    def is_current(self, states: States) -> bool:
        """Whether parameters and state are still in the memory of this block."""
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
        """Whether the parameters are still in the memory of this block."""
        return all(map(operator.is_, map(_array_of, self.members), self.arrays))

    def gradients(self) -> list[Any]:
        """The gradient of each member as an array, None where there is none."""
        found: list[Any] = []
        for p in self.members:
            g = p.grad
            if g is None:
                found.append(None)
                continue
            if g._type.shape != p._type.shape:
                raise ShapeError(
                    f"step: a parameter of shape {tuple(p.shape)} has a gradient of shape {tuple(g.shape)}, from "
                    "before its shape was changed; call optimizer.zero_grad() and compute the loss again"
                )
            found.append(g._values())
        return found

    # ---- updating

    def step_together(self, rule: Rule, where: Any) -> bool:
        """The usual step, natively: all members are in place, have gradients and equal scalars. False: it is not that.

        Then nothing was written.
        """
        members, arrays, old = self.members, self.arrays, []
        if not (self._complete or self._is_uniform()):
            return False
        for flat in self.scalars:
            column = flat.tolist()
            if column.count(column[0]) != len(column):
                return False
            old.append(column[0])
        gradients = gradients_in_place(members, arrays)
        if gradients is None:
            return False
        new, update = rule(not self.started[0], tuple(old))
        kind, native = self._kernel
        if update.kind is not kind:
            native = native_update(update, len(self.moments), self.values.dtype)
            self._kernel = update.kind, native
        if native is None or not native(self._places, update.numbers, arrays, gradients):
            return False
        count_writes(members, self.storages, where)
        for i, flat in enumerate(self.scalars):
            flat.fill(new[i])
        if not self._complete:
            self.started = [True] * len(members)
            self._complete = True
        return True

    def _is_uniform(self) -> bool:
        """Whether all members are at their first step, or none, and their state is here."""
        if self.copied or (self.storages and None in self.entries):
            return False
        return self.started.count(self.started[0]) == len(self.members)

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
            new, update = rule(not self.started[first], old)
            for p in self.members[first:last]:
                p._storage.version += 1
                p._storage.written_at = where
            for flat, value in zip(self.scalars, new, strict=True):
                flat[first:last] = value
            self._update(update, first, last, gradients, workspaces)
            self.started[first:last] = [True] * (last - first)
        if self.copied:
            self.members[0]._array[...] = self.values.reshape(self.members[0]._type.shape)

    def _update(self, update: Update, first: int, last: int, gradients: list[Any], workspaces: Workspaces) -> None:
        """Update the members from `first` to `last`: natively in one call, or stretch by stretch."""
        native = native_update(update, len(self.moments), self.values.dtype)
        if native is not None and not self.copied:
            arrays, own = self.arrays[first:last], gradients[first:last]
            if native(self._places, update.numbers, arrays, own):
                return
            in_order = [g if g.flags.c_contiguous else g.copy(order="C") for g in own]
            if native(self._places, update.numbers, arrays, in_order):
                return
        quietly(self._update_in_stretches, update, first, last, gradients, workspaces)

    def _update_in_stretches(
        self, update: Update, first: int, last: int, gradients: list[Any], workspaces: Workspaces
    ) -> None:
        # A large gradient is read piece by piece, which needs it in order.
        in_order = [g if g is None or g.size <= STRETCH else np.ascontiguousarray(g) for g in gradients]
        for stretch in self._stretches_of(first, last, workspaces):
            stretch.run(update, in_order)

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
        gathered = workspaces.of(self.compute, stop - start)[: stop - start]
        targets = []
        for i in members:
            target = gathered
            if part is None:
                offset = self.starts[i] - start
                target = gathered[offset : offset + self.sizes[i]].reshape(self.members[i]._type.shape)
            targets.append((i, target, part))
        return Stretch(self.values[start:stop], [m[start:stop] for m in self.moments], gathered, targets)


class Workspaces:
    """The memory that gradients are gathered in, one for each dtype."""

    def __init__(self) -> None:
        self._by_dtype: dict[np.dtype[Any], Array] = {}

    def of(self, d: np.dtype[Any], n_elements: int) -> Array:
        """At least that many elements; stretches cut from a smaller one keep that."""
        found = self._by_dtype.get(d)
        if found is None or found.size < n_elements:
            found = buffer(min(STRETCH, max(64, 1 << (n_elements - 1).bit_length())), d)
            self._by_dtype[d] = found
        return found


class Layout:
    """The layout of one group's parameters in memory: as few blocks as is safe.

    Parameters join at their first gradient. Those that cannot be moved, and those that joined late, are blocks of their
    own until the next attempt; attempts come after 1, 2, 4, ... steps, so a program that keeps breaking the layout does
    not pay for it at every step.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._idle: list[Tensor] = []  # in no block, because they never had a gradient
        self._names: Names | None = None
        self._repeats = False  # a parameter is in the group more than once
        self._is_one_block = False  # with every parameter in it once
        self._until_attempt = 0
        self._patience = 1

    def step(
        self,
        parameters: list[Tensor],
        names: Names,
        rule: Rule,
        states: States,
        workspaces: Workspaces,
        where: Any,
        unchanged: bool = False,
    ) -> None:
        """Update every parameter that has a gradient. `unchanged`: parameters and state are those of the last step."""
        before_write()
        if unchanged and self._is_one_block and names is self._names and self.blocks[0].step_together(rule, where):
            return
        self._refresh(parameters, names, states, unchanged)
        self._is_one_block = len(self.blocks) == 1 and not self._idle and not self._repeats
        if self._repeats:
            self._step_repeated(parameters, rule, states, where, workspaces)
        elif len(self.blocks) != 1 or not self.blocks[0].step_together(rule, where):
            self._step_each(rule, states, where, workspaces)

    def _step_each(self, rule: Rule, states: States, where: Any, workspaces: Workspaces) -> None:
        gradients = [block.gradients() for block in self.blocks]  # all of them first: one may be refused
        for block, arrays in zip(self.blocks, gradients, strict=True):
            block.step(rule, states, arrays, where, workspaces)

    def _step_repeated(
        self, parameters: list[Tensor], rule: Rule, states: States, where: Any, workspaces: Workspaces
    ) -> None:
        """A parameter that is in the group several times is updated as often, in order, as PyTorch does."""
        of = {id(p): (block, i) for block in self.blocks for i, p in enumerate(block.members)}
        for p in parameters:
            if id(p) in of:
                block, i = of[id(p)]
                arrays = [g if k == i else None for k, g in enumerate(block.gradients())]
                block.step(rule, states, arrays, where, workspaces)

    def _refresh(self, parameters: list[Tensor], names: Names, states: States, unchanged: bool) -> None:
        """Make the blocks fit."""
        same_names = names is self._names or (
            self._names is not None and list(names.initial) == list(self._names.initial)
        )
        if unchanged and same_names and all(block.is_in_place() for block in self.blocks):
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
        if names is not self._names:
            self._names = names
            for block in self.blocks:  # after rebuilding: a block that a variable still refers to would be in the way
                block.names = names  # initial values follow the learning rate
        if not unchanged:
            n_different = sum(len(block.members) for block in self.blocks) + len(self._idle)
            self._repeats = n_different < len(parameters)

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
            for p in unseen(wanted):
                by_dtype.setdefault(p._type.dtype, []).append(p)
            self._until_attempt = self._patience
            self._patience *= 2
        together = [members for members in by_dtype.values() if len(members) > 1]
        done = {id(p) for members in together for p in members}
        self.blocks = [Block(members, names, states, move=True) for members in together]
        self.blocks += [Block([p], names, states, move=False) for p in wanted if id(p) not in done]
        self._idle = idle
