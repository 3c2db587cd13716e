"""Which op is to blame for a nan or an infinity: found in a graph whose values are known, in forward and in backward.

The graph of a loss keeps the values that gradients read; the others are computed again from these, op by op. In
forward the way is followed back from the loss to the op whose inputs are fine. In backward the gradients are computed
once more, each looked at as it is handed on, and the way is followed from a leaf up to the op that got a fine gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..autograd.custom import FunctionOp
from ..autograd.engine import BackwardEngine
from ..core.context import no_grad, switch
from ..core.graph import Graph, Leaf, Node, Pick, Where
from ..core.op import Op
from ..core.tensor import Tensor, wrap
from ..dispatch.dispatcher import apply, quietly
from ..nn import Module
from ..tracing.api import eager
from .nonfinite import counted_text, range_text
from .owners import models_of, named_parameters, variables

Values = dict[Node, Any]  # an array, or a tuple of them
_MOST_IN_CHAIN = 6

_REMEDIES = {
    "log": "the logarithm of 0 is -inf, of less nan: clamp its input, or add a small number",
    "sqrt": "the root of less than 0 is nan, and its slope at 0 infinite: add a small number to its input",
    "rsqrt": "1/sqrt of 0 is infinite: add a small number to its input",
    "div": "it divides by 0, or by nearly 0: add a small number to the divisor",
    "reciprocal": "it divides by 0, or by nearly 0: add a small number",
    "exp": "exp overflows float32 above 88: subtract the maximum first, or use log_softmax, logsumexp, softplus",
    "pow": "a power of 0 with a negative exponent, or of a negative number with a fraction: clamp its input",
    "sub": "inf - inf is nan: look at where the infinities come from",
    "where": "where() computes both sides, and 0 times the infinite slope of the other side is nan: make that side's "
    "input harmless before, where(mask, x, 1)",
    "norm": "the slope of a norm at 0 is not defined: add a small number under the root",
}
_ELSE = "look at the values that go in there: their range, their scale, a division by 0"


class Blame(NamedTuple):
    """The op that turned fine values into nan or infinity."""

    op: str
    made: str  # "3 nan", of the result or of a gradient
    inputs: str  # ranges of what went in
    line: str  # where the op was recorded
    module: str  # its path in the model, if that is known
    chain: list[str]  # from the op to the loss, or to the weight
    in_backward: bool
    leads_there: bool = False  # the chain is that of the ops before it

    @property
    def remedy(self) -> str:
        return _REMEDIES.get(self.op.removesuffix("_").partition("_")[0], _ELSE)

    def __str__(self) -> str:
        within = f"module {self.module}, " if self.module else ""
        what = f"backward of {self.op}" if self.in_backward else self.op
        line = self.line or "an unknown line"
        text = f"{what} ({within}{line}) gave {self.made} from inputs {self.inputs}"
        if len(self.chain) > 1:
            shown = self.chain if len(self.chain) <= _MOST_IN_CHAIN else [*self.chain[:3], "...", *self.chain[-2:]]
            text += f"; {'led there' if self.leads_there else 'from there'}: {' -> '.join(shown)}"
        return f"{text}; {self.remedy}"


# ---- forward


def values_of(graph: Graph) -> Values:
    """The values of nodes: those that are saved, those of leaves that live, and what can be computed from these."""
    found: Values = {}
    for node in graph:
        if node.op is Leaf and node.variable is not None:
            found[node] = node.variable._values()
        for position, array, storage, version in node.saved or ():
            if not isinstance(array, np.ndarray) or (storage is not None and storage.version != version):
                continue
            if position == 0 and not isinstance(node.type, tuple | list):
                found[node] = array
            elif position > 0 and isinstance(node.inputs[position - 1], Node):
                found[node.inputs[position - 1]] = array
    with eager(), no_grad(), switch(interceptor=None):
        for node in graph:
            if node not in found and node.op is not Leaf:
                value = _computed(node, found)
                if value is not None:
                    found[node] = value
    return found


def _computed(node: Node, values: Values) -> Any:
    """A node's value by its op, if its inputs are known."""
    if any(isinstance(i, Node) and i not in values for i in node.inputs):
        return None
    if node.op is Pick:
        return values[node.inputs[0]][node.attrs["index"]]
    inputs = tuple(wrap(values[i], i.type) if isinstance(i, Node) else i for i in node.inputs)
    try:
        out = quietly(apply, node.op, inputs, node.attrs)
    except Exception:  # what cannot run by itself, a user's Function for example, is not known
        return None
    return tuple(t._values() for t in out) if isinstance(out, tuple) else out._values()


def blame_forward(root: Node, values: Values, model: Module | None = None) -> Blame | None:
    """The op to which a nan or an infinity of the root goes back; None if it came in from outside, or is not known."""
    graph = Graph.reach([root])
    way = [root]
    wants_nan = root not in values or any(np.isnan(a).any() for a in _arrays(values[root]))
    while True:
        node = way[-1]
        bad = [i for i in node.inputs if isinstance(i, Node) and i in values and _is_bad(values[i], wants_nan)]
        if not bad:
            break
        way.append(bad[0])
    node = way[-1]
    if node.op is Leaf:
        return None
    while node.op is Pick:
        node = node.inputs[0]
    known = [values[i] for i in node.inputs if isinstance(i, Node) and i in values]
    return Blame(
        node.op.name,
        counted_text(*_arrays(values.get(node, ()))),
        ", ".join(range_text(a) for value in known for a in _arrays(value)) or "that are not known",
        node.line,
        module_of(node, graph, model),
        [short(n) for n in reversed(way) if n.op is not Pick],
        in_backward=False,
    )


def _arrays(value: Any) -> list[Any]:
    parts = value if isinstance(value, tuple) else (value,)
    return [a for a in parts if isinstance(a, np.ndarray) and a.dtype.kind not in "biu"]


def _is_bad(value: Any, wants_nan: bool) -> bool:
    return any(np.isnan(a).any() if wants_nan else not np.isfinite(a).all() for a in _arrays(value))


def short(node: Node) -> str:
    """The op and its line, as it stands in a chain."""
    line = node.line.rpartition("/")[2]
    return f"{node.op.name} ({line})" if line else node.op.name


# ---- backward


class _Looking(BackwardEngine):
    """A backward that adds to no `.grad`, and notes which node handed on gradients that are not finite."""

    natively = False

    def __init__(self) -> None:
        super().__init__(keep=True, create_graph=False, wanted=None, accumulate=False)
        self.current: Node | None = None
        self.made_bad: dict[Node, list[Node]] = {}  # by the node that got them: who handed them on
        self.got: dict[Node, Any] = {}  # the gradient that each node got

    def _visit(self, node: Node, g: Any) -> None:
        self.current = node
        self.got[node] = g
        before = dict.fromkeys(i for i in node.inputs if isinstance(i, Node))
        had = {i: _copied(self.gradients.get(i)) for i in before}
        super()._visit(node, g)
        for i in before:
            now = self.gradients.get(i)
            if _is_not_finite(now) and not _is_not_finite(had[i]):
                self.made_bad.setdefault(i, []).append(node)


def _copied(g: Any) -> Any:
    return g.copy() if isinstance(g, np.ndarray) else None if g is None else list(g) if isinstance(g, list) else g


def _is_not_finite(g: Any) -> bool:
    parts = g if isinstance(g, list | tuple) else (g,)
    arrays = [p._values() if isinstance(p, Tensor) else p for p in parts if p is not None]
    return any(not np.isfinite(a).all() for a in arrays)


def blame_backward(
    roots: list[tuple[Node, Tensor]], values: Values, model: Module | None = None
) -> tuple[Blame, Node] | None:
    """The op whose gradient is to blame, and the leaf where it arrived; None if a second run is finite."""
    job = _Looking()
    with eager(), switch(interceptor=None):
        quietly(job.run, roots)
    leaves = [node for node in job.made_bad if node.op is Leaf]
    if not leaves:
        return None
    way = [leaves[0]]
    while way[-1] in job.made_bad:
        source = job.made_bad[way[-1]][0]
        way.append(source)
        if not _is_not_finite(job.got.get(source)):
            break
    node = way[-1]
    graph = Graph.reach([root for root, _ in roots])
    came = job.got.get(node)
    parts = [p._values() if isinstance(p, Tensor) else p for p in (came if isinstance(came, list) else [came])]
    went_in = [values[i] for i in node.inputs if isinstance(i, Node) and i in values]
    inputs = ", ".join(range_text(a) for value in went_in for a in _arrays(value)) or "that are not known"
    gradient = ", ".join(range_text(p) for p in parts if p is not None)
    made = job.got.get(way[-2])
    arrays = [p for p in (made if isinstance(made, list) else [made]) if p is not None]
    made_text = counted_text(*arrays) or "what is not finite"
    blame = Blame(
        node.op.name,
        f"a gradient with {made_text}",
        f"{inputs} and the gradient {gradient}",
        node.line,
        module_of(node, graph, model),
        [*(short(n) for n in reversed(way[1:]))],
        in_backward=True,
    )
    return blame, leaves[0]


# ---- a graph that was freed


class Structure:
    """What it takes to make a graph again that backward has freed: its nodes, their inputs, and the data that came in.

    The values in between are let go as backward goes: of large graphs there would not be room for them.
    """

    def __init__(self, order: list[Node]) -> None:
        self._parts = [(node, node.inputs, _data_of(node)) for node in order]

    def rebuilt(self) -> dict[Node, Tensor]:
        """For each node a tensor that was made as its own was, with nodes that know their lines; as far as possible."""
        made: dict[Node, Any] = {}
        for node, _, data in self._parts:
            if node.op is Leaf and node.variable is not None:
                made[node] = node.variable
            made.update((leaf, wrap(array, leaf.type)) for leaf, array in data if leaf not in made)
        with eager(), switch(interceptor=None, recording=None, grad=True):
            for node, inputs, _ in sorted(self._parts, key=lambda part: part[0].number):
                if node not in made and all(i in made for i in inputs if isinstance(i, Node)):
                    _make_again(node, inputs, made)
        return {node: t for node, t in made.items() if isinstance(t, Tensor)}


def _data_of(node: Node) -> list[tuple[Node, Any]]:
    """The saved values of a node that no recorded op has made."""
    found: list[tuple[Node, Any]] = []
    if issubclass(node.op, FunctionOp):  # what a user's Function has saved is its own affair
        return found
    for position, array, storage, version in node.saved or ():
        source = node.inputs[position - 1] if position > 0 else None
        if not isinstance(source, Node) or source.op is not Leaf or not isinstance(array, np.ndarray):
            continue
        if storage is None or storage.version == version:
            found.append((source, array))
    return found


def _make_again(node: Node, inputs: tuple[Any, ...], made: dict[Node, Any]) -> None:
    if node.op is Pick:
        made[node] = made[inputs[0]][node.attrs["index"]]
        return
    try:
        out = quietly(apply, node.op, tuple(made[i] if isinstance(i, Node) else i for i in inputs), node.attrs)
    except Exception:  # what cannot run by itself, a user's Function for example, is not known
        return
    made[node] = out
    for t in out if isinstance(out, tuple) else (out,):
        note_line(t, node.op, node.where)


def note_line(t: Tensor, op: type[Op], where: Any) -> None:
    """The result of an op that was run again belongs to the line that ran it first."""
    node = t._history
    if type(node) is Node and node.op is not Leaf:
        node.where = where
        if node.op is not op and node.inputs:
            node.inputs[0].where = where  # one of several results


# ---- names


def module_of(node: Node, graph: Graph, model: Module | None) -> str:
    """The path of the module that ran an op: that of its parameters, or the one whose forward has its line."""
    used = variables(graph)
    models = [model] if model is not None else models_of(used)
    owners = {id(p): name.rpartition(".")[0] for name, p in named_parameters(model, used)}
    own = _owner_of(node, owners)
    if own:
        return own
    fitting = modules_at(node.where, models)
    if len(fitting) == 1:
        return fitting[0]
    near = _nearest_owner(node, owners)
    return next((name for name in fitting if near == name or near.startswith(f"{name}.")), "")


def modules_at(where: Where | None, models: list[Module]) -> list[str]:
    """The paths of the modules whose forward has a line."""
    code = None if where is None else where[0]
    every = [pair for outer in models for pair in outer.named_modules()]
    return [name for name, module in every if getattr(type(module).forward, "__code__", None) is code]


def _owner_of(node: Node, owners: dict[int, str]) -> str:
    for i in node.inputs:
        if isinstance(i, Node) and i.op is Leaf and i.variable is not None:
            name = owners.get(id(i.variable), "")
            if name:
                return name
    return ""


def _nearest_owner(node: Node, owners: dict[int, str]) -> str:
    """The module of the parameters that were used last before an op."""
    before = sorted(Graph.reach([node]), key=lambda n: -n.number)
    return next((name for name in (_owner_of(n, owners) for n in before) if name), "")


def name_of(leaf: Node, model: Module | None) -> str:
    """The name of a leaf's parameter."""
    found = leaf.variable
    if found is None:
        return "a leaf"
    named = named_parameters(model, [found])
    return next((name for name, p in named if p is found), "a leaf")
