"""Whether a program does what its model does: on the examples, and on other sizes; and where it first does not.

Inputs of other sizes repeat the rows of the example, so that indices stay in range. What the model refuses is no
matter. Where results differ, both run again op by op, and the first op of the program whose result the model has not
computed is named with its line.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.context import CONTEXT, no_grad, switch
from ..core.graph import Node
from ..core.op import Op
from ..core.tensor import Tensor, from_array
from ..core.types import TensorType, bool_
from ..dispatch.dispatcher import apply
from ..errors import ExportError
from ..func.tree import leaves
from ..ragged_tensors.tensor import RaggedTensor
from ..random import get_rng_state, set_rng_state
from .calls import Dim, called, named_size, ragged_inputs, rebuilt
from .model_state import modules_of, state_of, unchanged
from .sizes import Guard, SizeExpr

if TYPE_CHECKING:
    from .program import Program

TOLERANCE = 1e-4  # relative, of float32: sums of a fused op and of its parts are in another order
MAX_TRIES = 6  # other sizes
MAX_NODES = 20_000  # that run in one of them


def check_program(
    program: Program, model: Callable[..., Any], calls: Sequence[Mapping[str, Any]], tensors: Sequence[Sequence[Tensor]]
) -> None:
    """Raise ExportError unless program and model agree. Guards that turn out to be none are taken out."""
    known = _sizes_of(program, tensors[0])
    trial = _Trial(program, model, calls[0], tensors[0])
    program.guards = [guard for guard in program.guards if not guard.by_library or trial.is_needed(guard, known)]
    for call, example in zip(calls, tensors, strict=True):
        _compare(program, model, call, example, "the example")
    is_open: set[str] = set()
    for sizes in _other_sizes(program, known):
        if _hold(program.guards, sizes) and trial.compare(sizes):
            is_open |= {name for name, size in sizes.items() if size != known[name]}
    for name in known:
        if name not in is_open:
            trial.check_free(name, known)


def _sizes_of(program: Program, example: Sequence[Tensor]) -> dict[str, int]:
    known: dict[str, int] = {}
    for tensor, spec in zip(example, program.inputs, strict=True):
        for size, n in zip(spec.type.shape, tensor.shape, strict=True):
            if isinstance(size, SizeExpr):
                name, added = named_size(size)
                known[name] = n - added
    return known


def check_open(program: Program, example: Sequence[Tensor]) -> None:
    """Raise ExportError if what the code decided holds for the example's own number of a size only."""
    known = _sizes_of(program, example)
    for name, size in known.items():
        guards = [g for g in program.guards if {*g.left.names(), *g.right.names()} == {name}]
        dim = program.dims[name]
        others = range(int(dim.min), int(min(dim.max, size + 64)) + 1)
        if not guards or len(others) < 2 or any(_hold(guards, {name: n}) for n in others if n != size):
            continue
        first = next((g for g in guards if not g.holds({name: size + 1}) or not g.holds({name: size - 1})), guards[0])
        told = " and ".join(str(g) for g in guards[:4])
        raise ExportError(
            f"{first.line}: the size {name} was to stay open, and the code holds for {name} = {size} only, since it "
            f"decided that {told}; write it without that decision (a `for` or `while` over the size stays a loop), or "
            f"take {name} out of dynamic="
        )


def users_line(error: Exception) -> str:
    """The last line outside of Extempo on the way to an error."""
    lines = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__package__")).partition(".")[0] != "extempo"
    ]
    return lines[-1] if lines else "program"


def _hold(guards: Sequence[Guard], sizes: Mapping[str, int]) -> bool:
    """As far as sizes of inputs tell."""
    return all(guard.holds(sizes) for guard in guards if guard.names() <= sizes.keys())


class _Trial:
    """Runs of the program beside the model on the first example at other sizes."""

    def __init__(
        self, program: Program, model: Callable[..., Any], call: Mapping[str, Any], example: Sequence[Tensor]
    ) -> None:
        self._program = program
        self._model = model
        self._call = call
        self._example = example
        self._agrees: dict[tuple[int, ...], bool] = {}

    def _resized(self, sizes: Mapping[str, int]) -> list[Tensor]:
        inputs, found = self._program.inputs, list(self._example)
        ragged = list(ragged_inputs(self._program.arguments.values(), [spec.name for spec in inputs]))
        sizes = dict(sizes)
        for r in ragged:
            total, rows = str(inputs[r.values].type.shape[r.dim - 1]), named_size(inputs[r.offsets].type.shape[0])[0]
            sizes[rows] = min(sizes[rows], sizes[total])  # few functions take rows without elements
            sizes[total] = sizes[total] if sizes[rows] else 0
        for i, spec in enumerate(inputs):
            found[i] = _resized(found[i], spec.type, sizes)
        for r in ragged:
            found[r.offsets] = _offsets(found[r.offsets].shape[0] - 1, found[r.values].shape[r.dim - 1])
        return found

    def compare(self, sizes: Mapping[str, int]) -> bool:
        """Whether the model takes these sizes; if so, it must agree with the program."""
        said = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        return _compare(self._program, self._model, self._call, self._resized(sizes), said, other_sizes=True)

    def check_free(self, name: str, known: Mapping[str, int]) -> None:
        """Raise ExportError if the model refuses every other number for a size, and for those that are as large."""
        size, dim = known[name], self._program.dims[name]
        alike = [m for m in known if known[m] == size]
        refusals: list[Exception] = []
        for other in (size + 1, size * 2, size - 1, size + 3):
            for names in ([name], alike):
                sizes = {**known, **dict.fromkeys(names, other)}
                if not dim.min <= other <= dim.max or other in (0, size) or not _hold(self._program.guards, sizes):
                    continue
                refusal = _attempt_model(self._program, self._model, self._call, self._resized(sizes))[1]
                if refusal is None:
                    return
                refusals.append(refusal)
        if refusals:
            raise ExportError(
                f"{users_line(refusals[0])}: the size {name} was to stay open, and the model itself takes {name} = "
                f"{size} only: {refusals[0]}; take {name} out of dynamic="
            )

    def is_needed(self, guard: Guard, known: Mapping[str, int]) -> bool:
        """Whether a decision of the library matters: it is tried at sizes where it would go the other way."""
        if not guard.names() <= known.keys():
            return self._is_needed_by_values(guard, known)
        others = [sizes for sizes in _around(guard, known, self._program.dims) if not guard.holds(sizes)]
        return not others or not all(self._agree(sizes) for sizes in others[:MAX_TRIES])

    def _is_needed_by_values(self, guard: Guard, known: Mapping[str, int]) -> bool:
        """The same of sizes that values decide: tried on values of few kinds, of which some decide the other way."""
        was_tried = False
        for sizes in (known, *_other_sizes(self._program, known)):
            for kind in (0, 1, -1):
                tensors = [_of_kind(t, kind) for t in self._resized(sizes)]
                found = self._program._sizes_found(tensors)
                if found is not None and guard.names() <= found.keys() and not guard.holds(found):
                    was_tried = True
                    if not self._agree_on(tensors):
                        return True
        return not was_tried

    def _agree_on(self, tensors: list[Tensor]) -> bool:
        made, failure = _attempt(self._program, tensors, _Patience(), guarded=False)
        if failure is not None:  # a loop that does not end here might not end in the model either
            return False
        expected, refusal = _attempt_model(self._program, self._model, self._call, tensors)
        return refusal is None and _all_same(made, expected)

    def _agree(self, sizes: Mapping[str, int]) -> bool:
        key = tuple(sizes.values())
        if key not in self._agrees:
            self._agrees[key] = self._agree_on(self._resized(sizes))
        return self._agrees[key]


def _around(guard: Guard, known: Mapping[str, int], dims: Mapping[str, Dim]) -> Iterator[dict[str, int]]:
    """Sizes that differ from the example's in one that the guard is about."""
    for name in dict.fromkeys([*guard.left.names(), *guard.right.names()]):
        for size in range(max(0, int(dims[name].min)), int(min(dims[name].max, known[name] + 32)) + 1):
            yield {**known, name: size}


def _other_sizes(program: Program, known: Mapping[str, int]) -> Iterator[dict[str, int]]:
    if not known:
        return

    def allowed(change: Callable[[int, int], int]) -> dict[str, int]:
        sizes = {}
        for i, (name, size) in enumerate(known.items()):
            dim = program.dims[name]
            sizes[name] = int(min(max(change(size, i), dim.min), dim.max))
        return sizes

    yield allowed(lambda size, i: size + 1 + i)
    yield allowed(lambda size, i: max(2, size - 1 - i))
    yield allowed(lambda size, i: 1)
    for j in range(min(len(known), MAX_TRIES - 4)):
        yield allowed(lambda size, i, j=j: 1 if i == j else size)  # type: ignore[misc] # bound now
    yield allowed(lambda size, i: 0)


def _resized(tensor: Tensor, type_: TensorType, sizes: Mapping[str, int]) -> Tensor:
    """The example with its rows repeated, or cut off, to these sizes."""
    array = np.asarray(tensor.detach().numpy())
    for d, size in enumerate(type_.shape):
        wanted = size.evaluate(sizes) if isinstance(size, SizeExpr) else size
        if array.shape[d] != wanted:
            if not array.shape[d]:
                array = np.zeros((*array.shape[:d], 1, *array.shape[d + 1 :]), array.dtype)
            array = np.take(array, np.arange(wanted) % array.shape[d], d)
    return from_array(np.array(array, order="C"))


def _of_kind(tensor: Tensor, kind: int) -> Tensor:
    """Floats and bools of one value; whole numbers, which may be indices, stay as they are."""
    if tensor.dtype is bool_:
        return from_array(np.full(tensor.shape, kind > 0))
    return from_array(np.full(tensor.shape, kind, tensor.dtype.numpy)) if tensor.dtype.is_floating_point else tensor


def _offsets(n_rows: int, total: int) -> Tensor:
    """Of rows of different lengths, each with an element at least."""
    inner = np.random.default_rng(0).choice(np.arange(1, total), n_rows - 1, replace=False) if n_rows else ()
    return from_array(np.array([0, *sorted(inner), *([total] if n_rows else ())], np.int64))


def _arguments(program: Program, call: Mapping[str, Any], tensors: Sequence[Tensor]) -> dict[str, Any]:
    return {**call, **{name: rebuilt(nesting, tensors, str) for name, nesting in program.arguments.items()}}


def _compare(
    program: Program,
    model: Callable[..., Any],
    call: Mapping[str, Any],
    tensors: Sequence[Tensor],
    what: str,
    other_sizes: bool = False,
) -> bool:
    """Whether the model takes these inputs; where it gives something else than the program, ExportError."""
    made, failure = _attempt(program, tensors, _Patience() if other_sizes else None)
    if isinstance(failure, _TooLong):  # so would the model: some loops never end on sizes that nobody meant
        return True
    expected, refusal = _attempt_model(program, model, call, tensors)
    if refusal is not None:
        if other_sizes:
            return False
        raise ExportError(f"program: the model itself fails on {what}: {refusal}") from refusal
    if failure is not None:
        raise ExportError(f"program: the model runs on {what}, and the program does not: {failure}") from failure
    for ours, theirs in zip(leaves(made), leaves(expected), strict=True):
        if not _same(ours, theirs):
            raise ExportError(
                f"program: on {what} the program and the model differ, {_told(ours, theirs)}; "
                + _first_difference(program, model, call, tensors)
            )
    return True


def _attempt(
    program: Program, tensors: Sequence[Tensor], watch: Any = None, guarded: bool = True
) -> tuple[Any, Exception | None]:
    """The program's results, or its failure."""
    draws = get_rng_state()
    try:
        with no_grad():
            made = program._run(tensors, program.weights, watch, guarded)
        return made, None
    except Exception as error:
        return None, error
    finally:
        set_rng_state(draws)


def _attempt_model(
    program: Program, model: Callable[..., Any], call: Mapping[str, Any], tensors: Sequence[Tensor]
) -> tuple[Any, Exception | None]:
    """The model's results and new states, or its refusal; its buffers stay as they were."""
    draws = get_rng_state()
    try:
        with no_grad(), unchanged(model):
            result = called(model, _arguments(program, call, tensors))
            state = dict(state_of(dict(modules_of(model)))) if program.state else {}
            new = {name: state[name].detach().clone() for name in program.state}
            return ((result, new) if program.state else result), None
    except Exception as error:
        return None, error
    finally:
        set_rng_state(draws)


class _TooLong(Exception):
    """A run took more steps than a check is worth."""


class _Patience:
    """Counts the nodes that run."""

    def __init__(self) -> None:
        self._left = MAX_NODES

    def __call__(self, node: Node, results: Any) -> None:
        self._left -= 1
        if self._left < 0:
            raise _TooLong


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, RaggedTensor):
        same_rows = isinstance(ours, RaggedTensor) and ours._dim == theirs._dim and ours._rows.same(theirs._rows)
        return same_rows and _same(ours._flat, theirs._flat)
    if not isinstance(theirs, Tensor):  # a number, of which a program may make a tensor: sum() of no rows is 0
        return bool((ours == theirs).all()) if isinstance(ours, Tensor) else bool(ours == theirs)
    if not isinstance(ours, Tensor):
        return False
    if ours._type != theirs._type:  # a list of no rows has forgotten in Python how long they would be
        return not ours.numel() and not theirs.numel() and 0 in theirs.shape[:1]
    a, b = (x.detach().numpy().astype(np.float64) for x in (ours, theirs))
    if not a.size:
        return True
    scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)
    coarse = 100 if theirs.dtype.itemsize <= 2 and theirs.dtype.is_floating_point else 1
    exact = not theirs.dtype.is_floating_point
    return bool(np.allclose(a, b, 0 if exact else TOLERANCE * coarse, 0 if exact else TOLERANCE * coarse * scale, True))


def _told(ours: Any, theirs: Any) -> str:
    if not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
        return f"{ours!r} and {theirs!r}"
    if ours._type != theirs._type:
        return f"{ours._type} and {theirs._type}"
    return f"by up to {float((ours.double() - theirs.double()).abs().max()):.3g}"


class _Watching:
    """An interceptor that runs every op as it would run, and keeps its results."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self._outside = CONTEXT.get()

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        with switch(interceptor=self._outside.interceptor):
            results = apply(op, inputs, attrs)
        self.seen.append((op.name, results))
        return results

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        from ..dispatch.inplace import write

        with switch(interceptor=self._outside.interceptor):
            return write(target, value, op_name, made_from)


def _first_difference(
    program: Program, model: Callable[..., Any], call: Mapping[str, Any], tensors: Sequence[Tensor]
) -> str:
    """Which op of the program first gives what the model never computes."""
    watching = _Watching()
    draws = get_rng_state()
    with no_grad(), unchanged(model), switch(interceptor=watching):
        called(model, _arguments(program, call, tensors))
    set_rng_state(draws)
    found: list[str] = []

    def watch(node: Node, results: Any) -> None:
        if CONTEXT.get().interceptor is not None:  # a loop of no steps, traced for the types of its results
            return
        alike = [theirs for name, theirs in watching.seen if name == node.op.name]
        if not found and alike and not any(_all_same(results, theirs) for theirs in alike):
            found.append(f"the first op that differs is {node.op.name}, at {node.line or 'an unknown line'}")

    with no_grad():
        program._run(tensors, program.weights, watch)
    set_rng_state(draws)
    return found[0] if found else "no single op differs, so ops are left out or added"


def _all_same(ours: Any, theirs: Any) -> bool:
    a, b = leaves(ours), leaves(theirs)
    return len(a) == len(b) and all(map(_same, a, b))
