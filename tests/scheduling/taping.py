"""A small recorder for tests of the planner: runs a function on symbols, and keeps what it did as steps of a tape."""

from __future__ import annotations

from typing import Any

import numpy as np

import extempo as ex
from extempo.core.context import switch
from extempo.core.op import Op, Signature
from extempo.core.strides import kept_order, laid_out
from extempo.core.tensor import Tensor, symbol
from extempo.core.trace_tree import NONE, NUMBER, LeafKind, TraceOp, ViewLayout
from extempo.core.types import TensorType
from extempo.dispatch.dispatcher import as_input
from extempo.scheduling.layout import row_major
from extempo.scheduling.request import BackwardRequest, Plan, Request, plan, reads


class Tape:
    """An interceptor. `fixed_starts`: where slices begin is part of the tape."""

    def __init__(self, fixed_starts: bool = True) -> None:
        self.fixed_starts = fixed_starts
        self.steps: list[TraceOp] = []
        self.leaves: list[LeafKind] = []
        self.arrays: list[np.ndarray] = []  # of the leaves
        self.numbers: list[Any] = []
        self.n_places = 0
        self._leaf_of: dict[int, int] = {}
        self._alive: list[Tensor] = []
        self._ref: dict[int, int] = {}  # by id of a symbol
        self._memory: dict[int, np.ndarray] = {}  # by ref: an array that lies like the value
        self._tracked: dict[int, bool] = {}

    def leaf(self, t: Tensor) -> int:
        index = self._leaf_of.get(id(t))
        if index is None:
            index = self._leaf_of[id(t)] = len(self.leaves)
            self._alive.append(t)
            array = t.detach().numpy()
            strides = None if array.strides == row_major(t._type) else array.strides  # those of size 1 count, too
            self.leaves.append(LeafKind(t._type, strides, t.requires_grad))
            self.arrays.append(array)
            self._memory[-1 - index] = array
            self._tracked[-1 - index] = t.requires_grad
        return -1 - index

    def place(self, t: Tensor) -> int:
        return self._ref[id(t)]

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        inputs = tuple(map(as_input, inputs))
        kinds = tuple(x._type if isinstance(x, Tensor) else type(x) for x in inputs)
        signature = _signature(op, kinds, attrs)
        numbers = [x for x in inputs if isinstance(x, int | float)]
        baked = tuple(numbers) if op.name == "slice" and self.fixed_starts else None
        refs: list[int] = []
        new_numbers: list[Any] = []
        needs = 0
        n_leaves = len(self.leaves)
        for i, x in enumerate(inputs):
            if isinstance(x, Tensor):
                ref = self._ref[id(x)] if id(x) in self._ref else self.leaf(x)
                needs |= self._tracked[ref] << i
            elif x is None:
                ref = NONE
            elif baked is None:
                ref = NUMBER + len(self.numbers) + len(new_numbers)
                new_numbers.append(x)
            else:
                ref = NONE
            refs.append(ref)
        self.numbers += new_numbers
        several = type(signature.type) is tuple
        types: tuple[TensorType, ...] = signature.type if several else (signature.type,)
        view = order = None
        memory = [np.empty(t.shape, t.dtype.numpy) for t in types]
        if op.aliases_input:
            source = self._memory[refs[0]]
            seen = op.numpy(source, *inputs[1:], **attrs)
            if np.may_share_memory(seen, source) or not seen.size:
                memory = [seen]
                view = self._view(op, source, seen, baked, numbers, refs, attrs)
        elif op.keeps_order:
            read = [self._memory[ref] for ref in refs if NONE < ref < NUMBER]
            order = kept_order(types[0].shape, [(x.shape, x.strides) for x in read])
            memory = [laid_out(memory[0], read)]
        new_leaves = tuple(self.leaves[n_leaves:])
        step = TraceOp(
            op, attrs, tuple(refs), kinds, signature, self.n_places, needs, op.name != "detach", new_leaves, view,
            baked, None, None, order,
        )  # fmt: skip
        self.steps.append(step)
        made = []
        for i, t in enumerate(types):
            y = symbol(t, None, self)
            self._alive.append(y)
            self._ref[id(y)] = step.place + i
            self._memory[step.place + i] = memory[i]
            self._tracked[step.place + i] = step.tracked and t.dtype.is_floating_point
            made.append(y)
        self.n_places += len(types)
        return tuple(made) if several else made[0]

    def _view(self, op, source, seen, baked, numbers, refs, attrs) -> ViewLayout:
        offset = seen.__array_interface__["data"][0] - source.__array_interface__["data"][0] if seen.size else 0
        if baked is not None or not numbers:
            return ViewLayout(seen.strides, offset)
        starts, dim, used = [], 0, 0
        for entry in attrs["spec"]:
            if entry is None:
                continue
            if entry != ":":
                length, step = (1, 1) if entry == "i" else entry
                stride = source.strides[dim]
                starts.append((refs[1 + used] - NUMBER, stride, source.shape[dim] - 1 - (length - 1) * step))
                offset -= numbers[used] * stride
                used += 1
            dim += 1
        return ViewLayout(seen.strides, offset if seen.size else 0, tuple(starts))

    def read(self, value: Tensor) -> Any:
        raise AssertionError("a value was read while recording")


_SIGNATURES: dict[Any, Signature] = {}


def _signature(op: type[Op], kinds: tuple[Any, ...], attrs: dict[str, Any]) -> Signature:
    """Equal ones are the same object, as they are in recordings."""
    key = (op, kinds, *[(name, repr(value)) for name, value in attrs.items()])
    if key not in _SIGNATURES:
        _SIGNATURES[key] = op.signature(kinds, attrs)
    return _SIGNATURES[key]


def record(fn: Any, arguments: list[Tensor], fixed_starts: bool = True) -> tuple[Tape, list[Tensor]]:
    tape = Tape(fixed_starts)
    with switch(interceptor=tape):
        results = fn(*arguments)
    return tape, list(results) if isinstance(results, tuple | list) else [results]


def base_of(tape: Tape, ref: int) -> int:
    """What a view looks into."""
    while ref >= 0:
        step = next(s for s in tape.steps if s.place <= ref < s.place + s.n_results)
        if step.view is None:
            return ref
        ref = step.refs[0]
    return ref


def run_plan(
    made: Plan, tape: Tape, steps: list[TraceOp], kept: dict[int, np.ndarray] | None = None
) -> list[np.ndarray]:
    assert isinstance(made, Plan), made
    arrays = [tape.arrays[-1 - ref] if ref < 0 else (kept or {})[ref] for ref in made.inputs]
    out = made.run(arrays, tape.numbers[: sum(s.n_numbers for s in steps)])
    assert isinstance(out, list), f"the plan stopped at {out}"
    return out


def check(fn: Any, arguments: list[Tensor], fixed_starts: bool = True, cut: int | None = None) -> list[Plan]:
    """Plan what `fn` does and a backward from its first result's sum; compare all of it with eager mode, bit for bit.

    `cut`: so many steps are run by a plan of their own first.
    """
    eager = fn(*arguments)
    eager = list(eager) if isinstance(eager, tuple | list) else [eager]
    tape, results = record(fn, arguments, fixed_starts)
    wanted: list[int] = []
    expected: list[np.ndarray] = []
    for e, r in zip(eager, results, strict=True):
        place = tape.place(r)
        if base_of(tape, place) == place and place not in wanted:
            wanted.append(place)
            expected.append(e.detach().numpy())
    plans: list[Plan] = []
    kept: dict[int, np.ndarray] = {}
    start = 0
    if cut:
        start = cut
        first = tape.steps[:cut]
        n_places = first[-1].place + first[-1].n_results
        keep = {base_of(tape, ref) for s in first if s.tracked for ref in reads(s)}
        keep |= {base_of(tape, ref) for s in tape.steps[cut:] for ref in s.refs if abs(ref) < NUMBER}
        keep |= {base_of(tape, w) for w in wanted}
        keep |= {base_of(tape, tape.place(results[0]))}
        places = tuple(sorted(p for p in keep if 0 <= p < n_places))
        made = plan(Request(first, 0, tape.leaves, frozenset(), places))
        kept = dict(zip(places, run_plan(made, tape, first), strict=True))
        plans.append(made)
    late = tuple(p for p in wanted if p not in kept)
    root = tape.place(results[0])
    tracked = eager[0].requires_grad
    backward = None
    if tracked:
        seed = np.ones(eager[0].shape, eager[0].dtype.numpy) if hasattr(eager[0].dtype, "numpy") else None
        tape.leaves.append(LeafKind(eager[0]._type, None, False))
        tape.arrays.append(seed)
        backward = BackwardRequest(root, -len(tape.leaves))
    made = plan(Request(tape.steps, start, tape.leaves, frozenset(kept), late, backward))
    out = run_plan(made, tape, tape.steps, kept)
    plans.append(made)
    found = {**kept, **dict(zip(late, out, strict=False))}
    for place, e in zip(wanted, expected, strict=True):
        same_bits(found[place], e, f"place {place}")
        assert (found[place].strides == e.strides) or 1 in e.shape, f"place {place}"
    if not tracked:
        return plans
    for a in arguments:
        a.grad = None
    eager[0].backward(ex.ones(eager[0].shape, dtype=eager[0].dtype))
    gradients = dict(zip(made.gradients, out[len(late) :], strict=True))
    for a in arguments:
        index = tape._leaf_of.get(id(a))
        if a.grad is None:
            assert index is None or index not in gradients
            continue
        same_bits(gradients[index], a.grad.numpy(), f"gradient of leaf {index}")
    return plans


def same_bits(got: np.ndarray, expected: np.ndarray, what: str) -> None:
    assert got.dtype == expected.dtype, what
    assert got.shape == expected.shape, what
    a, b = np.ascontiguousarray(got).tobytes(), np.ascontiguousarray(expected).tobytes()
    if a != b and not (
        got.dtype.kind == "f"
        and np.array_equal(np.isnan(got), np.isnan(expected))
        and np.ascontiguousarray(np.nan_to_num(got)).tobytes()
        == np.ascontiguousarray(np.nan_to_num(expected)).tobytes()
    ):
        raise AssertionError(f"{what}: {got.ravel()[:8]} is not {expected.ravel()[:8]}")


def draw(*shape: int, seed: int = 0, requires_grad: bool = True) -> Tensor:
    values = np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)
    return ex.tensor(values, requires_grad=requires_grad)


def with_backward(tape: Tape, y: Tensor, wanted: tuple[int, ...] | None = None) -> Plan:
    """The plan of a tape with a backward from y, whose gradient is 1."""
    tape.leaves.append(LeafKind(y._type, None, False))
    tape.arrays.append(np.ones(y._type.shape, y._type.dtype.numpy))
    places = (tape.place(y),) if wanted is None else wanted
    made = plan(
        Request(tape.steps, 0, tape.leaves, frozenset(), places, BackwardRequest(tape.place(y), -len(tape.leaves)))
    )
    assert isinstance(made, Plan), made
    return made
