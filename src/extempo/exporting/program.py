"""Program: the forward of a model as a frozen Graph, called like the model, with no need of its class.

`program(model, *examples)` traces the model once, on tensors whose dynamic sizes are symbols, and checks the result
against the model on the examples and on other sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.context import CONTEXT, no_grad
from ..core.graph import Graph, Node
from ..core.tensor import Tensor
from ..core.wording import counted
from ..errors import DtypeError, ExtempoError
from .calls import Dim, Nesting, ProgramInput, bind_sizes, flattened, rebuilt, taken_apart, tensor_places
from .planned_call import PlannedCall
from .runner import MAX_BOUND
from .sized_runs import SizedRunner, check_guard, found_sizes, runner_of
from .sizes import Guard, parse_size

if TYPE_CHECKING:
    from ..nn.module import Module
    from .editing import GraphEditor
    from .quantizing import QuantizationReport

__all__ = ["Program"]


class Program:
    """A model without its class. Call it as the model; it records no gradients and may be shared by threads.

    >>> program = ex.program(lambda x: x.softmax(-1), ex.randn(2, 3), dynamic={"x": {0: "batch"}})
    >>> program
    program(x: f32[batch, 3]) -> (output: f32[batch, 3])
    >>> program(ex.zeros(1, 3))
    tensor([[0.3333, 0.3333, 0.3333]])
    """

    def __init__(
        self,
        graph: Graph,
        arguments: Mapping[str, Nesting],
        inputs: Sequence[ProgramInput],
        weights: Mapping[str, Tensor],
        results: Nesting,
        outputs: Sequence[str],
        state: Sequence[str] = (),
        dims: Mapping[str, Dim] | None = None,
        guards: Sequence[Guard] = (),
        trainable: Sequence[str] = (),
    ) -> None:
        self.graph = graph  # its leaves are the inputs, then the weights; its outputs the results, then new states
        self.arguments = dict(arguments)
        self.inputs = list(inputs)
        self.weights = dict(weights)
        self.results = results
        self.outputs = list(outputs)
        self.state = list(state)
        self.dims = dict(dims or {})
        self.guards = list(guards)
        self.trainable = set(trainable)
        self.storage: dict[str, str] = {}  # weights that files hold as int8 or float16, and which of them
        self.report: QuantizationReport | None = None  # of `quantize`
        constants = [i for i, name in enumerate(self.weights, len(self.inputs)) if self._is_constant(name)]
        self._found = found_sizes(graph)  # names of sizes that values decide, while the program runs
        self._runner = runner_of(graph, constants)
        self._known: dict[Any, dict[str, int]] = {}  # sizes by the types of inputs
        self._planned: dict[Any, PlannedCall] = {}  # by the types of inputs
        self._is_plain = list(self.arguments.values()) == [["tensor", i] for i in range(len(inputs))]
        places = [i for nesting in self.arguments.values() for i in tensor_places(nesting)]
        self._is_ordered = places == list(range(len(inputs)))
        self._gives_tensor = not self.state and results == ["tensor", 0]

    # ---- running

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's results; with them a dict of the new states, if the model changes buffers: `y, state = p(x)`."""
        weights = self.weights
        if self.state and kwargs:
            weights = {**weights, **{name: kwargs.pop(name) for name in self.state if name in kwargs}}
        if not kwargs and self._is_plain and len(args) == len(self.inputs):
            tensors: Sequence[Any] = args
        else:
            tensors = self._tensors(args, kwargs)
        mode = CONTEXT.get()
        if weights is self.weights and mode.interceptor is None:  # while another program is made, sizes are symbols
            planned = self._planned.get(tuple([getattr(x, "_type", None) for x in tensors]))
            results = None if planned is None else planned.run(tensors, weights, mode)
            if planned is not None and results is not None:
                return self._given(results, planned.sizes)
        if not mode.grad:
            return self._run(tensors, weights)
        with no_grad():
            return self._run(tensors, weights)

    def _tensors(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The input tensors of a call, in order."""
        if not kwargs and self._is_ordered and len(args) == len(self.arguments):
            flat: list[Any] = []
            for part, x in zip(self.arguments.values(), args, strict=True):  # no generator: it is in every call
                if not flattened(part, x, flat):
                    break
            else:
                return flat
        names = list(self.arguments)
        if len(args) > len(names):
            raise DtypeError(f"program: takes {counted(len(names), 'argument')} ({', '.join(names)}), got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.arguments or name in given:
                problem = "was given twice" if name in given else f"is not one of the arguments: {', '.join(names)}"
                raise DtypeError(f"program: {name!r} {problem}")
            given[name] = value
        found: dict[int, Any] = {}
        for name, nesting in self.arguments.items():
            if name in given:
                taken_apart(nesting, given[name], name, found)
            elif nesting[0] != "value":
                raise DtypeError(f"program: the argument {name!r} is missing")
        return [found[i] for i in range(len(self.inputs))]

    def _run(
        self, tensors: Sequence[Any], weights: Mapping[str, Tensor], watch: Any = None, guarded: bool = True
    ) -> Any:
        sizes = self._sizes(tensors, guarded)
        values = [*tensors, *weights.values()] if weights is self.weights else self._values(tensors, weights)
        if isinstance(self._runner, SizedRunner):
            sizes = {**sizes}  # those that values decide are put in
            late = [g for g in self.guards if guarded and not self._found.isdisjoint(g.names())]
            return self._given(self._runner.run(values, sizes, watch, late), sizes)
        results = self._runner.run(values, sizes, watch)
        if weights is self.weights and guarded and watch is None:
            planned = PlannedCall.found(self._runner, sizes, values, len(tensors))
            if planned is not None:
                kept = self._planned if len(self._planned) < MAX_BOUND else {}
                self._planned = {**kept, tuple([t._type for t in tensors]): planned}
        return self._given(results, sizes)

    def _given(self, results: list[Any], sizes: Mapping[str, int]) -> Any:
        """What a call gives, made of the graph's outputs."""
        if self._gives_tensor:
            return results[0]
        n = len(results) - len(self.state)
        made = rebuilt(self.results, results[:n], lambda text: parse_size(text).evaluate(sizes))
        return (made, dict(zip(self.state, results[n:], strict=True))) if self.state else made

    def _values(self, tensors: Sequence[Any], weights: Mapping[str, Tensor]) -> list[Any]:
        return [*tensors, *(weights[name] for name in self.weights)]

    def _is_constant(self, name: str) -> bool:
        """Whether a leaf is a value of the model's code, rather than of its parameters and buffers."""
        return name.startswith("constant_") and name not in self.trainable and name not in self.state

    def _sizes(self, tensors: Sequence[Any], guarded: bool) -> dict[str, int]:
        """The sizes of a call, found once for tensors of the same types."""
        known = guarded and CONTEXT.get().interceptor is None and all(isinstance(t, Tensor) for t in tensors)
        key = tuple([t._type for t in tensors]) if known else ()
        sizes = self._known.get(key) if known else None
        if sizes is None:
            sizes = bind_sizes(self.inputs, tensors, self.dims)
            for guard in self.guards if guarded else ():
                if self._found.isdisjoint(guard.names()):
                    check_guard(guard, sizes)
            if known:
                self._known = {**self._known, key: sizes} if len(self._known) < MAX_BOUND else {key: sizes}
        return sizes

    def _sizes_found(self, tensors: Sequence[Tensor]) -> dict[str, int] | None:
        """All sizes of a call, those that values decide included; None where it fails."""
        try:
            sizes = {**self._sizes(tensors, False)}
            with no_grad():
                self._runner.run(self._values(tensors, self.weights), sizes)
        except ExtempoError:
            return None
        return sizes

    def module(self) -> Module:
        """The program as an `nn.Module` with copies of its weights, to train or to put into a larger model.

        >>> program = ex.program(nn.Linear(2, 1).eval(), ex.ones(3, 2), dynamic={"input": {0: "n"}})
        >>> model = program.module()
        >>> model(ex.ones(5, 2)).sum().backward()
        >>> model.bias.grad
        tensor([5.])
        """
        from .module import ProgramModule

        return ProgramModule(self)

    # ---- changing it

    @contextlib.contextmanager
    def edit(self) -> Iterator[GraphEditor]:
        """A block in which the graph is changed: `with program.edit() as graph:`. See `GraphEditor`.

        The block has a copy. At its end the copy is put in order and checked, and the program runs that from then on;
        if the block raises, or the graph is not valid, the program stays as it was.

        >>> program = ex.program(lambda x: ex.relu(x) * 2, ex.ones(3))
        >>> with program.edit() as graph:
        ...     for node in graph.find("relu"):
        ...         graph.replace(node, graph.call(ex.tanh, *node.inputs))
        >>> program(ex.tensor([0.0, 1.0, -1.0]))
        tensor([ 0.0000,  1.5232, -1.5232])
        """
        from .editing import GraphEditor, edited

        editor = GraphEditor(self.graph, self.weights, len(self.inputs), self.dims)
        yield editor
        vars(self).update(vars(edited(self, editor)))

    def quantize(self, kind: str, *examples: Any, dynamic: bool = False) -> Program:
        """The program with its weights rounded, so that its file is smaller; `report` says what that changes.

        kind: "int8", a quarter of the bytes, with a scale for each row of a weight, or "float16", half of them.
        dynamic: also round what linear layers get to int8, row by row, when the program runs. Either way it computes in
        the dtype that it had, with weights in that dtype once loaded: there is no int8 kernel, so it is not faster and
        takes no less memory; dynamic shows what such a kernel would do to results. examples: calls to
        compare the results on, as for `ex.program`; without them, one is drawn. `report.measure()` times both, too.

        >>> ex.manual_seed(0)
        >>> program = ex.program(nn.Linear(64, 64).eval(), ex.randn(8, 64), dynamic={"input": {0: "n"}})
        >>> small = program.quantize("int8", ex.randn(100, 64))
        >>> print(str(small.report).partition("accuracy")[0].strip())
        int8: 1 of 2 weights
        size      16,640 -> 4,608 bytes in a file (28%); in memory as before
        """
        from .quantizing import quantized

        return quantized(self, kind, examples, dynamic)

    # ---- keeping it

    @classmethod
    def parse(cls, text: str, weights: Mapping[str, Tensor]) -> Program:
        """The program that `str(program)` is the text of, with these weights by name.

        >>> from extempo.exporting import Program
        >>> program = ex.program(lambda x: x * 2, ex.ones(3), dynamic={"x": {0: "n"}})
        >>> Program.parse(str(program).replace("mul(%0, 2)", "mul(%0, 3)"), program.weights)(ex.ones(2))
        tensor([3., 3.])
        """
        from .text import parse_program

        return parse_program(text, weights)

    def save(self, f: Any) -> None:
        """Write the program to a path or a binary file; `ex.load_program` reads it, without the model's class."""
        from .files import save_program

        save_program(self, f)

    def to_onnx(self, f: Any, opset_version: int = 21, ragged: str = "offsets") -> None:
        """Write the program as an ONNX model to a path or a binary file, with its loops and open sizes; opset 17 to 21.

        A ragged argument `x` is two inputs: `x.values`, all rows end to end, and `x.offsets`, where each begins and the
        last one ends. With `ragged="padded"` these are `x`, rows filled up to the longest, and `x.lengths`.

        Needs the extra `onnx`. An op without an ONNX form is an error that names it and the line that called it.
        """
        from .onnx_export.model import write_onnx

        write_onnx(self, f, opset_version, ragged)

    # ---- looking at it

    @property
    def leaf_names(self) -> dict[Node, str]:
        """The names of the graph's leaves: inputs, then weights."""
        names = [*(spec.name for spec in self.inputs), *self.weights]
        return dict(zip(self.graph.inputs, names, strict=True))

    def __str__(self) -> str:
        from .text import program_text

        return program_text(self)

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        names = [*self.outputs, *self.state]
        outputs = ", ".join(
            str(ProgramInput(name, node.type)) for name, node in zip(names, self.graph.outputs, strict=True)
        )
        return f"program({inputs}) -> ({outputs})"
