"""Cells: pure building blocks whose calls, across samples, run as one.

A call of a cell is taken apart into inputs (tensors and numbers) and a signature: the structure of the arguments,
types, what is tracked, and everything else among them. For each signature the body is traced once (`cell_tracer`) into
a CallKind, which holds as long as everything that the body reads from Python is as it was (`purity_guards`). A cell
that is made anew, of the same code, reading the same, takes the traces of the first (`cell_twins`). A module of the
user's is a cell that nobody has marked: it is traced once its calls repeat and were proven pure (`automatic_cells`).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar

from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..core.types import DEFAULT_DTYPE_LISTENERS
from ..core.weak import WeakMembers, forgetting
from ..errors import DtypeError, GraphError
from ..nn import module as nn_module
from ..nn.module import Module
from .automatic_cells import LOOKED_AT, Candidate, Culprit, Proof
from .call_cache import MOST_CACHED_CALLS, CachedCall, cache_cell_call
from .cell_states import ArgumentLayout, CellArguments, CellCall, CellState
from .cell_tracer import CellTracer, Declined, decline_modules
from .cell_twins import CellOfFunction, CodeFamily, Twin, family_of
from .kinds import CallKind, Input
from .pure_calls import is_layer_code
from .purity_guards import PurityGuards, is_since_last_look, now
from .read_search import ReadSearch, searched
from .signatures import filled, objects, rebuilder, structure_of, take_apart, type_of, without_sizes

F = TypeVar("F", bound=Callable[..., Any])

_MOST_LAYOUTS = 512  # signatures that a cell remembers
_MOST_STATES = 8  # for one signature: training and evaluation, an attribute that goes back and forth
_MOST_VALUES = {int: 64, float: 8}  # of numbers that the body looks at; floats seldom come back
# Signatures that differ in sizes only, from which on a cell runs as its ops: if each had fewer calls than many; if not.
_FEW_SIZES, _MANY_SIZES, _MANY_CALLS = 3, 8, 16
_MOST_AUTOMATIC = 4  # states, and values of numbers that the body looks at, of a cell that nobody has marked
_PATIENCE = 64  # new signatures in a row after which calls with further ones are left to run op by op


class Cell(CellOfFunction):
    """A pure function, or the forward of a module."""

    __slots__ = ("__dict__", "__weakref__", "_n_new", "cached_calls", "runs_as_ops")

    def __init__(
        self,
        fn: Callable[..., Any] | None,
        module: Module | None = None,
        marked: bool = True,
        candidate: Candidate | None = None,
    ) -> None:
        self._fn = fn
        self.candidate = candidate  # of a module that is a cell only if that pays and can be proven
        self._module = None if module is None else weakref.ref(module)
        self.is_marked = marked
        self._layouts: dict[tuple[Any, ...], ArgumentLayout] = {}
        self._recent: list[ArgumentLayout] = []
        self._n_new = 0  # signatures in a row that were new
        self.cached_calls: list[CachedCall] = []  # like which native code records further ones
        self.runs_as_ops = False  # for good, because its tensors have ever new sizes
        self.declined = ""  # why the last call that was none was none
        self._made_at = now()
        self._is_inside = False  # whether it was made inside a sample; this and the next two once it was called
        self._family: CodeFamily | None = None
        self._twin: Twin | None = None
        _EVERY_CELL.add(self)
        if fn is not None:
            functools.update_wrapper(self, fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        show = nn_module.call_cell
        if show is not None and nn_module.RUNNING_BATCHES:
            result = show(self, args, kwargs)
            if result is not NotImplemented:
                return result
        return self._body()(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method, its object is one more argument."""
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<cell {self.name}>"

    def __reduce__(self) -> str:
        return str(self.__qualname__)  # type: ignore[attr-defined] # as pickle finds a function

    @property
    def name(self) -> str:
        module = None if self._module is None else self._module()
        return type(module).__name__ if module is not None else getattr(self._fn, "__qualname__", "") or repr(self._fn)

    def _body(self) -> Callable[..., Any]:
        if self._module is None:
            return self._fn
        module = self._module()
        assert module is not None  # who calls has it
        return module.forward

    def forget(self) -> None:
        """Trace the body anew at the next call."""
        self._layouts.clear()
        self._recent.clear()
        self.cached_calls.clear()

    # ---- candidates

    def why_ordinary(self) -> str:
        """Why no call is one call now; "" if one may be."""
        module = None if self._module is None or self.candidate is None else self._module()
        return "" if self.candidate is None else self.candidate.why_ordinary(module)

    def _give_up(self, why: str, where: Culprit = None) -> Any:
        """From now on it is an ordinary function. Returns None, which is what a call then is."""
        module = None if self._module is None else self._module()
        assert self.candidate is not None
        self.candidate.give_up(module, why, where)
        self.runs_as_ops = self._fn is not None  # a region's statements run where they stand
        self.declined = why
        self.forget()
        return None

    def _is_due(self, marks: tuple[Any, ...], args: tuple[Any, ...]) -> bool:
        """Whether a call with a new signature is to be traced."""
        if self.candidate is None:
            return True
        why = self.candidate.count(marks, args)
        self.declined = why or ""
        if why:
            self._give_up(why)
        return why is None

    # ---- calls

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool) -> CellCall | None:
        """What a call is; None if its ops are to run as such."""
        if self.candidate is not None and (why := self.candidate.unusual(args, kwargs)):
            return self._give_up(why)
        marks: list[Any] = [grad]
        inputs: list[Any] = []
        take_apart(args, marks, inputs, grad)
        if kwargs:
            take_apart(kwargs, marks, inputs, grad)
        arguments = CellArguments(args, kwargs, inputs, grad)
        for layout in self._recent:
            if layout.marks == marks:
                self._n_new = 0
                return self._call_of(layout, arguments)
        found = self._find(marks, arguments)
        return None if found is None else self._call_of(found, arguments)

    def _call_of(self, layout: ArgumentLayout, arguments: CellArguments) -> CellCall | None:
        """A call of a known signature. Numbers that the body looks at choose its state, and are no inputs."""
        inputs, looked_at = arguments.inputs, layout.looked_at
        values = tuple([inputs[i] for i in looked_at])
        states = layout.states.get(values)
        if not states or not (state := states[0]).reads.same():
            if not states and values and len(layout.states) >= self._most_values(values):
                self.declined = LOOKED_AT
                return None if self.candidate is None else self._give_up(self.declined)
            state = self._state(layout, values, arguments)
            if layout.looked_at != looked_at:  # the body has looked at one more
                return self._call_of(layout, arguments)
        if state.kind is None:
            self.declined = state.declined
            return None
        call = CellCall()
        call.kind = state.kind
        call.inputs = [x for i, x in enumerate(inputs) if i not in looked_at] if looked_at else inputs
        call.rebuild = state.rebuild
        call.state = None if looked_at else state
        return call

    def _most_values(self, values: tuple[Any, ...]) -> int:
        """How many values of numbers that the body looks at are told apart."""
        return _MOST_AUTOMATIC if self.candidate is not None else min(_MOST_VALUES[type(value)] for value in values)

    def _find(self, marks: list[Any], arguments: CellArguments) -> ArgumentLayout | None:
        """The layout of a signature that is not one of the last; None: there are too many to go on tracing."""
        key = tuple(marks)
        layout = self._layouts.get(key)
        if layout is None or layout.marks != marks:
            layout = self._layout_of_twin(key, marks)
        counter = self if self._twin is None else self._twin.cell  # those that are made anew count together
        if layout is not None:
            counter._n_new = 0
        elif self._is_wasted() or not self._is_due(key, arguments.args) or self._has_many_sizes(key):
            return None
        else:
            counter._n_new += 1
            if counter._n_new > _PATIENCE and self.candidate is None:
                self.declined = "its arguments have another structure, type or shape at almost every call"
                return None
            layout = self._new_layout(key, marks, arguments)
        self._recent = [layout, *self._recent[:3]]
        return layout

    def _has_many_sizes(self, key: tuple[Any, ...]) -> bool:
        """Whether a new signature is one of many that differ in sizes only: then the cell runs as its ops from now on.

        Ops of different sizes run together (`sizes`), so a trace for each size would only cost.
        """
        alike = without_sizes(key)
        same = [layout for other, layout in self._layouts.items() if without_sizes(other) == alike]
        kinds = [states[0].kind for layout in same for states in layout.states.values() if states]
        traced = [kind for kind in kinds if kind is not None]
        if not traced:
            return False
        n_calls = sum(kind.n_calls for kind in traced)
        is_op = all(kind.n_ops == 1 for kind in traced)
        is_seldom = len(same) >= _FEW_SIZES and 0 < n_calls < _MANY_CALLS * len(same)
        if not (is_op or is_seldom or len(same) >= _MANY_SIZES):
            return False
        self.runs_as_ops = True
        self.declined = "its tensors have another size at almost every call; its ops run together"
        self.forget()
        return True

    def _new_layout(self, key: tuple[Any, ...], marks: list[Any], arguments: CellArguments) -> ArgumentLayout:
        self._make_room()
        layout = self._layouts[key] = ArgumentLayout(marks)
        # Objects among the arguments are known by their ids. When one goes, its callback makes the marks longer, so
        # that they equal no signature any more: another object may get the id.
        for x in objects((arguments.args, arguments.kwargs)):
            try:
                layout.objects.append(weakref.ref(x, marks.append))
            except TypeError:
                layout.objects.append(x)
        return layout

    def _make_room(self) -> None:
        """For one more layout."""
        self._forget_gone()
        if len(self._layouts) >= _MOST_LAYOUTS:
            for old in list(self._layouts)[: _MOST_LAYOUTS // 4]:
                del self._layouts[old]

    def _forget_gone(self) -> None:
        """Let go of layouts whose objects are gone. A new layout is traced, which takes longer than looking at all."""
        gone = [key for key, layout in list(self._layouts.items()) if len(layout.marks) != len(key)]
        if gone:
            for key in gone:
                self._layouts.pop(key, None)
            self._recent = [layout for layout in self._recent if layout in self._layouts.values()]
            self.cached_calls.clear()

    def learn(self, call: CellCall, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool) -> None:
        """Let native code record the next calls like one that was recorded here."""
        state = call.state
        if state is None:
            return
        cached = state.cached
        if cached is None:
            cached = cache_cell_call(args, kwargs, grad, call.kind, call.rebuild, state.reads)
            state.cached = cached or False
        if isinstance(cached, CachedCall) and cached not in self.cached_calls:
            self.cached_calls.insert(0, cached)
            del self.cached_calls[MOST_CACHED_CALLS:]

    # ---- twins

    def _layout_of_twin(self, key: tuple[Any, ...], marks: list[Any]) -> ArgumentLayout | None:
        """What a cell of the same code, which reads the same, knows of a signature."""
        if self._family is None and self._fn is not None:
            self._family = family_of(self._fn)
            self._is_inside = is_since_last_look(self._made_at)
            self._twin = None if self._family is None else self._family.twin_of(self, self._is_inside)
        if self._twin is None:
            return None
        other, pairing = self._twin
        theirs = other._layouts.get(key)
        if theirs is None or theirs.marks != marks:
            return None
        for state in [states[0] for states in theirs.states.values() if states]:
            state.reads.same()  # what is compared once in a run is then compared once for all twins
        layout = self._layouts[key] = theirs.moved(pairing.forth)
        return layout

    def _is_wasted(self) -> bool:
        """Whether tracing is not worth it: cells of this code come and go, and none was the same as another."""
        family = self._family
        if family is None or not (self._is_inside and family.is_hopeless) or self._twin is not None or self._layouts:
            return False
        self.declined = family.why
        return True

    def _tell_twins(self, layout: ArgumentLayout, values: tuple[Any, ...], state: CellState) -> None:
        """Let cells that are made of the same code find a new state."""
        if self._family is None:
            return
        if any(t._source is not None for t in state.reads.tensors.values()):  # values of a run must not stay alive
            self._family.why = state.declined or "it reads a tensor of the sample that is not an argument"
            return
        if self._twin is None:
            self._family.add(self, self._is_inside)
            return
        other, pairing = self._twin
        key = tuple(layout.marks)
        theirs = other._layouts.get(key)
        if theirs is None:
            other._make_room()
            theirs = other._layouts[key] = ArgumentLayout(layout.marks)
            theirs.objects = layout.objects
        if theirs.looked_at != layout.looked_at:
            theirs.looked_at, theirs.states = layout.looked_at, {}
        states = theirs.states.setdefault(values, [])
        states.insert(0, state.moved(pairing.back))
        del states[_MOST_STATES:]

    # ---- states

    def _state(self, layout: ArgumentLayout, values: tuple[Any, ...], arguments: CellArguments) -> CellState:
        """The state that holds now: one from before, or a new one."""
        states = layout.states.setdefault(values, [])
        for i, state in enumerate(states):
            if i and state.reads.same():
                states.insert(0, states.pop(i))
                return state
        if self.candidate is not None and len(states) >= _MOST_AUTOMATIC:
            return self._ordinary_state("what it reads is something else again and again")
        state, looked_at = self._traced(layout, arguments)
        if looked_at:
            layout.looked_at = tuple(sorted({*layout.looked_at, *looked_at}))
            layout.states = {}
        else:
            states.insert(0, state)
            del states[_MOST_STATES:]
            self._tell_twins(layout, values, state)
        return state

    def _traced(self, layout: ArgumentLayout, arguments: CellArguments) -> tuple[CellState, set[int]]:
        """A new state, and the positions of numbers that the body looked at: with any, the state is none.

        A body that changes what it reads is traced twice, since the first time may fill caches of its own.
        """
        body = self._body()
        open_inputs = [i for i in range(len(arguments.inputs)) if i not in layout.looked_at]
        proof = None
        if self.candidate is None and self._module is not None and not self.is_marked and not is_layer_code(body):
            self.candidate = Candidate()  # the user has put another forward in place of a layer's
        if self.candidate is not None:
            try:
                proof = self._prove(body, arguments, open_inputs)
            except Declined as why:
                return self._ordinary_state(str(why), why.where), set()
        for _ in range(2):
            search = searched(body, *objects((arguments.args, arguments.kwargs)))
            state = CellState(PurityGuards(search=search))
            looked_at = self._trace(state, body, arguments, open_inputs, proof, search)
            if looked_at or state.reads.same():
                return state, looked_at
        changed = state.reads.changed()
        if self.is_marked:
            raise GraphError(
                f"cell {self.name}: it changes {changed or 'something'} that it reads; a cell must only compute its "
                "result from its arguments: return what is to be kept, or leave ex.cell out"
            )
        state.kind, state.declined = None, f"it changes {changed}"
        return state, set()

    def _ordinary_state(self, why: str, where: Culprit = None) -> CellState:
        self._give_up(why, where)
        state = CellState(PurityGuards())
        state.declined = why
        return state

    def _prove(self, body: Callable[..., Any], arguments: CellArguments, open_inputs: list[int]) -> Proof:
        """That the body only computes; Declined if it may do more."""
        types = [Input(*type_of(arguments.inputs[i], arguments.grad)) for i in open_inputs]
        proof = Proof(self.name, types, arguments.grad)
        proof.check(body, *_on_symbols(proof.tracer, arguments, open_inputs))
        return proof

    def _trace(
        self,
        state: CellState,
        body: Callable[..., Any],
        arguments: CellArguments,
        open_inputs: list[int],
        proof: Proof | None,
        search: ReadSearch,
    ) -> set[int]:
        """Run the body on symbols and complete the state. Returns the positions of numbers that it looked at."""
        inputs, grad = arguments.inputs, arguments.grad
        types = [Input(*type_of(inputs[i], grad)) for i in open_inputs]
        tracer = CellTracer(self.name, types, state.reads, grad, self.is_marked)
        looked_up: list[Tensor] = []
        try:
            decline_modules(state.reads.modules())
            if proof is not None:
                proof.watch(search)
                looked_up = proof.looked_up()
            result = tracer.run(body, *_on_symbols(tracer, arguments, open_inputs))
            results: list[Tensor] = []
            structure = structure_of(result, results)
            if tracer.looked_at:
                return {open_inputs[position] for position in tracer.looked_at}
            if not results:
                raise Declined("it returns no tensor")
            steps, captured = tracer.finish(results)
            if self.candidate is not None and steps.n_ops < self.candidate.least_ops:
                raise Declined("it has too few ops for one call of them to gain")
        except Declined as why:
            state.declined = str(why)
            if proof is not None:
                self._give_up(state.declined)
            return set()
        state.reads.capture({id(t): t for t in (*captured, *looked_up)}.values())
        state.kind = CallKind(
            self.name,
            steps,
            tuple(types),
            tuple([t._type for t in results]),
            tuple([grad and t.requires_grad for t in results]),
            tuple(captured),
            user_line(),
            n_ops=steps.n_ops,
        )
        state.rebuild = rebuilder(structure)
        return set()


def _on_symbols(
    tracer: CellTracer, arguments: CellArguments, open_inputs: list[int]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with symbols in place of inputs."""
    symbols = list(arguments.inputs)
    for position, i in enumerate(open_inputs):
        symbols[i] = tracer.argument(position, symbols[i])
    left = iter(symbols)
    return filled(arguments.args, left), filled(arguments.kwargs, left)


_EVERY_CELL: WeakMembers[Cell] = WeakMembers()


def _forget_all() -> None:
    """The default dtype is another one, which every body may have used."""
    for one in _EVERY_CELL:
        one.forget()


DEFAULT_DTYPE_LISTENERS.append(_forget_all)


# ---- which callables are cells

# By id; an entry goes with its module. None: an ordinary function, which native code passes over until the next run.
CELLS_OF_MODULES: dict[int, Cell | None] = {}
_PASSED_OVER: dict[int, Cell] = {}


def pass_over(module: Module) -> None:
    """Ask no more, in this run, whether calls of a module that is an ordinary function are those of a cell."""
    found = CELLS_OF_MODULES.get(id(module))
    if found is not None:
        _PASSED_OVER[id(module)] = found
        CELLS_OF_MODULES[id(module)] = None


def ask_again() -> None:
    """A run begins: modules that were passed over may have changed, and the report is to name them."""
    for module_id, found in list(_PASSED_OVER.items()):
        if CELLS_OF_MODULES.get(module_id, found) is None:
            CELLS_OF_MODULES[module_id] = found
    _PASSED_OVER.clear()


def find(callable_: Any) -> Cell | None:
    """The cell of a function or module; None if it is none."""
    if type(callable_) is Cell:
        return callable_
    if id(callable_) in CELLS_OF_MODULES:
        return CELLS_OF_MODULES[id(callable_)]
    if not isinstance(callable_, Module) or not callable_._is_cell:
        return None
    from .layers import LayerCell, is_layer  # which are cells

    marked = callable_._is_marked_cell
    needs_proof = callable_._needs_proof and not marked
    if needs_proof and type(callable_).__getattribute__ is not object.__getattribute__:
        return None
    if is_layer(callable_) and not marked:
        found: Cell = LayerCell(callable_)
    else:
        found = Cell(None, callable_, marked, Candidate() if needs_proof else None)
    found._module = forgetting(callable_, CELLS_OF_MODULES)
    CELLS_OF_MODULES[id(callable_)] = found
    return found


def cell(fn: F) -> F:
    """Mark a pure function, a Module or a Module class: inside `ex.batch`, calls by many samples run as one.

    Pure means that it only computes its result from its arguments and from parameters: it reads no values (`item()`,
    `if` on a tensor), writes to nothing that it has not made and sets no attributes. It is run once to see what it
    computes, so other effects, such as `print`, happen once. Whatever it reads from Python (attributes, train or eval
    mode, closures, globals, its own code) may change between calls. A function that draws random numbers may be marked;
    its ops then run one by one, as without a mark. Numbers are inputs; numbers that it looks at (to compare them, as a
    size), strings and flags are part of what it is. Weights may be arguments, too: a tensor that is the same in all
    calls is not copied. A cell may be made anywhere, also inside the function of a sample: it is known by its code and
    by what that reads.

    Layers without state (`nn.Linear`, `nn.Embedding`, `nn.LSTMCell`, norms, ...) are cells already, and modules of
    yours whose forward is plainly pure become cells by themselves. Elsewhere a cell is the function that it was.

    >>> @ex.cell
    ... def gate(x, y):
    ...     return ex.sigmoid(x) * y
    >>> gate(ex.tensor(0.0), ex.tensor(3.0))
    tensor(1.5000)
    """
    target: Any = fn
    if isinstance(target, Cell):
        return fn
    if isinstance(target, Module) or (isinstance(target, type) and issubclass(target, Module)):
        marked: Any = target
        marked._is_cell = marked._is_marked_cell = True
        if isinstance(target, Module):
            CELLS_OF_MODULES.pop(id(target), None)
        return fn
    if isinstance(target, type) or not callable(target):
        raise DtypeError(f"cell: expected a function, a Module or a Module class, got {target!r}")
    made: Any = Cell(target)
    return made
