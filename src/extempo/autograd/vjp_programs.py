"""The gradient of a node as a list of kernel calls on arrays, from tracing its op's `vjp` once for these types.

The same kernels that the vjp's ops would run, in the same order, without a Tensor in between: the same bits. What
cannot be traced (a vjp that reads values, or writes in place) is left to the vjp itself. An op whose sizes are new at
every call is not traced at every call: after a few the list is learnt as a function of sizes (`sym_int.generalize`):
an `_Outline`, which all sizes share, and what of it depends on them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import chain
from typing import Any

from ..backends.numpy.straight_line import numbers_only
from ..backends.selection import native
from ..core.cache import Cache
from ..core.graph import Leaf, Node, Pick
from ..dispatch.kernel_cache import SIGNATURES, BoundKernel, learn, shape_class_of, sizes_of, with_sizes
from ..errors import ExtempoError
from ..symbolic.sym_int import GuardedCache
from .derive import Gradient
from .vjp_trace import VjpTrace, input_kind


class VjpProgram(Gradient):
    """`kernel(g, *saved values, *numbers)`: one gradient, of the input's type, for each input in `needed`."""

    __slots__ = ("_unbound", "fresh", "kernel", "needed", "numbers", "reads")

    def __init__(self, outline: _Outline, steps: tuple[Any, ...]) -> None:
        """`steps`: for each of the outline's, what of it depends on sizes."""
        self.reads = outline.reads
        self.numbers = outline.numbers
        self.needed = outline.needed
        self.fresh = outline.fresh
        self._unbound: Any = (outline, steps)
        self.kernel: Callable[..., tuple[Any, ...]] = self._first
        self.native: Any = None if outline.native is None else outline.native.calling(self._first)

    def _first(self, *arguments: Any) -> tuple[Any, ...]:
        """The first call: now kernels are needed."""
        unbound = self._unbound
        if unbound is not None:
            outline, steps = unbound
            calls: list[Any] = []
            for step, (sizes, attrs, constants) in zip(outline.steps, steps, strict=True):
                calls += (step.call(sizes, attrs), *constants)
            self.kernel = outline.make(*calls)
            if self.native is not None:
                self.native.call = self.kernel
            self._unbound = None  # after that: another thread may be here, too
        return self.kernel(*arguments)


class _KernelCall:
    """One call of the list, but for what depends on sizes: those, attributes, and inputs that are constants."""

    __slots__ = ("_op", "_plain", "_shared", "_structure", "_types")

    def __init__(self, node: Node, weak: set[Node]) -> None:
        self._op = op = node.op
        self._types = tuple([input_kind(i, weak) for i in node.inputs])
        self._plain = node in weak or (op.aliases_input and (native() is None or type(node.type) is tuple))
        self._structure: Any = None  # found when it is first called
        self._shared: Any = None  # what runs it at any size

    def sized(self, node: Node) -> tuple[Any, ...]:
        """What depends on sizes."""
        constants = tuple([i for i in node.inputs if not isinstance(i, Node)])
        return sizes_of(self._types, node.attrs), node.attrs, constants

    def call(self, sizes: tuple[int, ...], attrs: dict[str, Any]) -> Callable[..., Any]:
        """What runs it on arrays."""
        op = self._op
        if self._shared is not None:
            return self._shared
        if self._plain:
            return functools.partial(op.numpy, **attrs) if attrs else op.numpy
        if self._structure is None:
            self._structure = shape_class_of(op, self._types, attrs)[0]
        found = self._structure.find(sizes)
        if found is None:
            found = learn(self._structure, sizes, op, *with_sizes(self._types, attrs, iter(sizes)))
        (_, words, view_words), kernel = found
        if op.aliases_input:
            backend = native()
            assert backend is not None
            return backend.view_call(op, view_words, _Copy(kernel, attrs, words))
        made = kernel.native_call(attrs, words)
        if made is None:  # at these sizes: a product without elements, for one
            return kernel.fallback(attrs)
        if words is None and not attrs:
            self._shared = made
        return made


class _Copy:
    """What runs a view op where native code makes no view: a reshape that needs a copy, for one."""

    __slots__ = ("_call", "_given")

    def __init__(self, kernel: BoundKernel, attrs: dict[str, Any], words: Any) -> None:
        self._given = (kernel, attrs, words)
        self._call: Any = None

    def __call__(self, *arrays: Any) -> Any:
        if self._call is None:  # most never are
            kernel, attrs, words = self._given
            # NumPy's own copy takes several times as long.
            self._call = kernel.native_call(attrs, words) or functools.partial(kernel.op.numpy, **attrs)
        return self._call(*arrays)


class _Outline:
    """A traced gradient but for what depends on sizes."""

    def __init__(self, trace: VjpTrace) -> None:
        self.reads = tuple(trace.reads)
        self.numbers = trace.numbers
        self.needed = tuple([i for i, _ in trace.gradients])
        graph = trace.graph
        outputs = graph.outputs
        # Memory that nobody else sees, so that it may be added to: not a view, not handed out twice.
        self.fresh = tuple(o.op is not Leaf and not o.op.aliases_input and outputs.count(o) == 1 for o in outputs)
        outputs_at = [(i, k, fresh) for k, (i, fresh) in enumerate(zip(self.needed, self.fresh, strict=True))]
        backend = native()
        self.native: Any = None  # what native code needs of it, but for the function
        if backend is not None:
            self.native = backend.gradient(None, len(self.reads), self.numbers, outputs_at)
        weak = numbers_only(graph)
        nodes = [n for n in graph if n.op is not Leaf]
        self.make = _straight_line(nodes, outputs, trace.arguments(self.reads), weak)
        called = [n for n in nodes if n.op is not Pick]
        self.steps = [_KernelCall(node, weak) for node in called]
        self.sized = tuple([step.sized(node) for step, node in zip(self.steps, called, strict=True)])


class _Gradients(GuardedCache):
    """The gradients of one structure for certain inputs."""

    __slots__ = ("reads",)

    def __init__(self, reads: tuple[int, ...]) -> None:
        super().__init__()
        self.reads = reads

    def plan(self, sizes: tuple[int, ...]) -> VjpProgram | None:
        """The plan for these sizes; None: it has not been learnt."""
        found = self.find(sizes)
        return None if found is None else VjpProgram(found[1], found[0])


_plans: Cache[Any, VjpProgram | None] = Cache("gradients as lists of kernels", 10_000)
_UNSEEN: Any = object()
MOST_NEEDS = 4  # sets of inputs that need gradients, for which those of a structure are learnt


def vjp_program_of(node: Node) -> VjpProgram | None:
    """The plan of a node with one result, for all its inputs that require grad; None if its vjp cannot be traced."""
    if not node.op.traceable:
        return None
    types = tuple([i.type if isinstance(i, Node) else type(i) for i in node.inputs])
    reads = tuple([entry[0] for entry in node.saved])
    needed = tuple([i for i, source in enumerate(node.inputs) if type(source) is Node])
    key: Any = (node.op, types, *chain.from_iterable(node.attrs.items()))
    try:
        found = _plans.get((key, reads, needed), _UNSEEN)
    except TypeError:  # an attribute that cannot be hashed
        return None
    if found is _UNSEEN:
        found = _plans.put((key, reads, needed), _made(node, types, reads, needed))
        signature = SIGNATURES.get(key)
        if signature is not None:
            signature.plans[sum(1 << i for i in needed)] = (reads, found)
    return found


def _made(node: Node, types: tuple[Any, ...], reads: tuple[int, ...], needed: tuple[int, ...]) -> VjpProgram | None:
    if any(p < 0 for p in reads):
        return None
    op, attrs = node.op, node.attrs
    structure, sizes = shape_class_of(op, types, attrs)
    needs = sum(1 << i for i in needed)
    family: _Gradients | None = structure.gradients.get(needs)
    if family is not None and family.reads == reads and (known := family.plan(sizes)) is not None:
        return known
    try:
        trace = VjpTrace(op, types, attrs, node.type, reads, needed)
    except (ExtempoError, TypeError, AttributeError, ValueError):
        return None  # the vjp itself will say what is wrong, if anything is
    if not trace.gradients or trace.captured:
        return None
    outline = _Outline(trace)

    def derive(*others: Any) -> tuple[Any, _Outline]:
        their_types, their_attrs = with_sizes(types, attrs, iter(others))
        result = op.signature(their_types, their_attrs).type
        made = _Outline(VjpTrace(op, their_types, their_attrs, result, reads, needed))
        return made.sized, made

    if family is None and len(structure.gradients) < MOST_NEEDS:
        family = structure.gradients.setdefault(needs, _Gradients(reads))
    if family is not None and family.reads == reads:
        family.missed(derive, sizes)
    return VjpProgram(outline, outline.sized)


_makers: Cache[str, Callable[..., Any]] = Cache("code of gradients", 2_000)


def _straight_line(
    nodes: list[Node], outputs: list[Node], arguments: list[Node], weak: set[Node]
) -> Callable[..., Callable[..., tuple[Any, ...]]]:
    """A function of kernels, each with its constant inputs, that gives one that calls them one after another."""
    names = {node: f"a{i}" for i, node in enumerate(arguments)}
    lines = [f"    def gradient({', '.join(names.values())}):"]
    given: list[str] = []
    for i, node in enumerate(nodes):
        names[node] = f"t{i}"
        if node.op is Pick:
            lines.append(f"        t{i} = {names[node.inputs[0]]}[{node.attrs['index']}]")
            continue
        constants = {j: f"c{i}_{j}" for j, x in enumerate(node.inputs) if not isinstance(x, Node)}
        given += (f"f{i}", *constants.values())
        called = [constants[j] if j in constants else names[x] for j, x in enumerate(node.inputs)]
        lines.append(f"        t{i} = f{i}({', '.join(called)}){'.item()' if node in weak else ''}")
    lines.append(f"        return ({', '.join(names[o] for o in outputs)},)")
    text = "\n".join([f"def make({', '.join(given)}):", *lines, "    return gradient"])
    found = _makers.get(text)
    if found is None:
        namespace: dict[str, Any] = {}
        exec(text, namespace)
        found = _makers.put(text, namespace["make"])
    return found
