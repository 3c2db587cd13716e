"""`explain`: which parameters a loss will give gradients to, which not, and why; after backward, how large they are.

Before backward the graph is read: a parameter that is among its leaves gets a gradient. Of one that is not the reason
is told: it is frozen, the path was cut (`detach()`, `no_grad()`, an op that gives integers), or it is not used. Given a
function in place of the loss, the function is run op by op, and it is known which of these it was.
"""

from __future__ import annotations

import copy
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..autograd.observers import Observer
from ..core.context import no_grad, switch
from ..core.graph import Graph, Node, describe_where
from ..core.op import Op
from ..core.tensor import Tensor, TensorLike
from ..core.wording import counted
from ..errors import DtypeError
from ..nn import Embedding, EmbeddingBag, Module
from ..nn.hidden_layers import hidden_parameters
from ..tracing.api import eager
from .owners import named_parameters, variables
from .style import fragment
from .tables import WIDTH, Column, Printable, Table

TINY = 1e-5  # of the largest gradient of a layer: it vanishes
HUGE = 1e3  # times the median of all layers, or of its weight: it explodes
LARGE_UPDATE, SMALL_UPDATE = 0.1, 1e-7  # of a weight, in one step
_SHOWN_LINES = 3

# A function, and the loss that applies it itself.
_TWICE = {
    ("softmax", "cross_entropy"): "cross_entropy takes scores and applies softmax itself: leave the softmax out",
    ("sigmoid", "binary_cross_entropy_with_logits"): "this loss applies sigmoid itself: leave the sigmoid out",
}
_PASSING = {"reshape", "view", "squeeze", "unsqueeze", "transpose", "permute", "flatten", "contiguous"}


class ParameterReport(NamedTuple):
    """What a loss does to one parameter.

    >>> w = ex.ones(2, requires_grad=True)
    >>> ex.explain((w * w).sum()).parameters[0].gets_gradient
    True
    """

    name: str
    shape: tuple[int, ...]
    gets_gradient: bool
    reason: str  # why it gets none; "" if it does
    weight: float | None  # root mean square of its elements
    gradient: float | None  # the same of its gradient, after backward
    update: float | None  # size of the optimizer's next step beside that of the weight
    n_dead: int  # units without any gradient
    n_units: int


class Explanation(Printable):
    """What `explain` found. Printed it is a table and the findings.

    >>> model = nn.Linear(2, 1)
    >>> told = ex.explain(model(ex.ones(3, 2)).mean(), model)
    >>> told.with_gradient, told.without_gradient, told.findings
    (['weight', 'bias'], {}, [])
    """

    def __init__(self, parameters: list[ParameterReport], findings: list[str], *, is_after: bool) -> None:
        self.parameters = parameters
        self.findings = findings
        self.is_after_backward = is_after

    @property
    def with_gradient(self) -> list[str]:
        """Names of the parameters that get a gradient, or have got one."""
        return [p.name for p in self.parameters if p.gets_gradient]

    @property
    def without_gradient(self) -> dict[str, str]:
        """The other parameters, each with the reason."""
        return {p.name: p.reason for p in self.parameters if not p.gets_gradient}

    def __getitem__(self, name: str) -> ParameterReport:
        found = next((p for p in self.parameters if p.name == name), None)
        if found is None:
            raise KeyError(f"no parameter {name!r}; there are {[p.name for p in self.parameters]}")
        return found

    @property
    def table(self) -> Table:
        """A row for each parameter."""
        columns = [Column("parameter", may_shrink=True, least=12), Column("shape"), Column("weight", right=True)]
        if self.is_after_backward:
            columns += [Column("gradient", right=True), Column("update", right=True)]
        columns.append(Column("gets a gradient", wraps=True))
        rows = []
        for p in self.parameters:
            row = [p.name, str(p.shape), _figure(p.weight)]
            if self.is_after_backward:
                row += [_figure(p.gradient), _figure(p.update)]
            dead = f", but {p.n_dead} of {p.n_units} units none" if p.n_dead else ""
            rows.append([*row, f"yes{dead}" if p.gets_gradient else f"no: {p.reason}"])
        return Table(columns, rows)

    def _heading(self) -> str:
        n = len(self.with_gradient)
        verb = "got" if self.is_after_backward else "will get"
        return f"{n} of {counted(len(self.parameters), 'parameter')} {verb} a gradient"

    def __str__(self) -> str:
        findings = [textwrap.fill(f"- {text}", WIDTH, subsequent_indent="  ") for text in self.findings]
        return "\n".join([self._heading(), self.table.text(), *findings])

    def as_dict(self) -> dict[str, Any]:
        return {
            "is_after_backward": self.is_after_backward,
            "parameters": [p._asdict() for p in self.parameters],
            "findings": self.findings,
        }

    def _repr_html_(self) -> str:
        from html import escape

        findings = "".join(f"<li>{escape(text)}</li>" for text in self.findings)
        listed = f"<ul>{findings}</ul>" if findings else ""
        return fragment(f"<h4>{escape(self._heading())}</h4>{self.table.html()}{listed}")


def explain(loss: Tensor | Callable[[], Tensor], model: Module | None = None, optimizer: Any = None) -> Explanation:
    """Say which parameters a loss gives gradients to and which not, and why; after backward also how large they are.

    loss: a tensor, before or after its backward; or a function without arguments that computes it, which is run op by
    op, so that a parameter whose path was cut is told from one that is not used.
    model: whose parameters are looked at; without it, the models that the loss depends on.
    optimizer: whose next step is tried on a copy, and whose parameters are compared with the model's.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    >>> told = ex.explain(lambda: model[1](model[0](ex.ones(3, 2)).detach()).mean(), model)
    >>> told.with_gradient
    ['1.weight', '1.bias']
    >>> told.without_gradient["0.weight"].partition(" at ")[0]
    'cut by detach()'
    """
    if model is not None and not isinstance(model, Module):
        raise DtypeError(
            f"explain: model must be a Module, got {type(model).__name__}: explain(loss, model, optimizer)"
        )
    following: _Following | None = None
    if callable(loss) and not isinstance(loss, Tensor):
        following = _Following(dict(named_parameters(model, ())))
        with eager(), switch(interceptor=following):
            loss = loss()
    if isinstance(loss, TensorLike):
        loss = loss._flat
    if not isinstance(loss, Tensor):
        raise DtypeError(f"explain: expected a tensor or a function that gives one, got {type(loss).__name__}")
    graph = Graph.of(loss)
    leaves = variables(graph)
    is_after = any(node.saved is None for node in graph)
    trained = [p for group in optimizer.param_groups for p in group["params"]] if optimizer is not None else []
    named = named_parameters(model, trained if is_after else leaves)
    # What backward has freed does not know its leaves any more.
    reached = {id(p) for p in leaves} if not is_after else {id(p) for _, p in named if p.grad is not None}
    cuts = None if is_after else _cuts(loss, graph)
    updates = _updates(optimizer, named) if is_after and optimizer is not None else {}
    owners = {id(p): m for _, m in (model.named_modules() if model is not None else ()) for p in m._parameters.values()}
    reports = []
    for name, p in named:
        gets = id(p) in reached and p.requires_grad
        reason = "" if gets else _reason(name, p, cuts, following)
        reports.append(_report(name, p, gets, reason, updates.get(id(p)), owners.get(id(p)), is_after))
    findings = [*_after(reports, optimizer)] if is_after else [*_of_graph(graph), *_stale(named, leaves)]
    findings += [*_of_optimizer(named, optimizer), *_of_model(model, loss, bool(leaves))]
    return Explanation(reports, findings, is_after=is_after)


# ---- why there is no gradient


class _Following(Observer):
    """Notes which parameters went into each memory, and where values that they went into stop being tracked."""

    def __init__(self, named: dict[str, Tensor]) -> None:
        super().__init__()
        self._held: list[Any] = []  # so that no other memory gets its identity
        self._origins: dict[int, frozenset[str]] = {}  # by storage
        self._named = named
        self.used: set[str] = set()
        self.cut: dict[str, tuple[str, Any]] = {}

    def ran(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], node: Node | None) -> None:
        """Looked at in `apply`."""

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        result = super().apply(op, inputs, attrs)
        origins: frozenset[str] = frozenset()
        for x in inputs:
            if isinstance(x, Tensor):
                origins |= self._origins_of(x)
        if origins:
            self.used |= origins
            for out in result if isinstance(result, tuple) else (result,):
                if isinstance(out, Tensor):
                    self._held.append(out)
                    self._origins[id(out._storage)] = origins
                    if out._grad_barrier is not None:
                        for name in origins:
                            self.cut.setdefault(name, out._grad_barrier)
        return result

    def _origins_of(self, x: Tensor) -> frozenset[str]:
        found = self._origins.get(id(x._storage))
        if found is None:
            names = [name for name, p in self._named.items() if p is x or p._storage is x._storage]
            found = self._origins[id(x._storage)] = frozenset(names)
            self._held.append(x)
        if found and x._grad_barrier is not None:
            for name in found:
                self.cut.setdefault(name, x._grad_barrier)
        return found


def _cuts(loss: Tensor, graph: Graph) -> list[tuple[str, Any]]:
    """Where paths of gradients end, as far as the graph knows: (by what, where)."""
    found = [(node.attrs["cut"], node.where) for node in graph if "cut" in node.attrs]
    if loss._grad_barrier is not None:
        found.append(loss._grad_barrier)
    return list(dict.fromkeys(found))


def _reason(name: str, p: Tensor, cuts: list[tuple[str, Any]] | None, following: _Following | None) -> str:
    """`cuts`: None if backward has freed what knows them."""
    if not p.requires_grad:
        return "requires_grad=False"
    if cuts is None:
        return "none came; explain the loss before backward to see why"
    if following is not None:
        if name in following.cut:
            return _cut_text(following.cut[name])
        return "its result does not go into the loss" if name in following.used else "not used"
    if not cuts:
        return "not used"
    told = ", ".join(_cut_text(cut).removeprefix("cut by ") for cut in cuts[:_SHOWN_LINES])
    return f"not used, or cut by {told}"


def _cut_text(cut: tuple[str, Any]) -> str:
    by, where = cut
    return f"cut by {by} at {describe_where(where) or 'an unknown line'}"


# ---- figures


def _report(
    name: str, p: Tensor, gets: bool, reason: str, update: float | None, owner: Module | None, is_after: bool
) -> ParameterReport:
    gradient = p.grad if is_after else None
    n_dead = n_units = 0
    if gradient is not None and p.ndim > 1 and not isinstance(owner, Embedding | EmbeddingBag):
        array = np.abs(gradient._values()).reshape(p.shape[0], -1)
        n_units = int(p.shape[0])
        n_dead = int((array.sum(1) == 0).sum())
    size = None if gradient is None else _size(gradient)
    return ParameterReport(name, tuple(p.shape), gets, reason, _size(p), size, update, n_dead, n_units)


def _size(t: Tensor) -> float:
    """Root mean square."""
    array = t._values()
    return math.sqrt(float(np.square(array.astype(np.float64)).mean())) if array.size else 0.0


def _updates(optimizer: Any, named: list[tuple[str, Tensor]]) -> dict[int, float]:
    """How far the next step would move each parameter, beside its size; a copy of the optimizer tries it."""
    tried = copy.deepcopy(optimizer)
    pairs = [
        (p, twin)
        for group, copied in zip(optimizer.param_groups, tried.param_groups, strict=True)
        for p, twin in zip(group["params"], copied["params"], strict=True)
    ]
    with no_grad():
        before = [p.detach().clone() for p, _ in pairs]
        for p, twin in pairs:
            twin.grad = None if p.grad is None else p.grad.clone()  # copies of parameters have none
        tried.step()
        moved = [_size(twin.detach() - start) for (_, twin), start in zip(pairs, before, strict=True)]
    return {id(p): n / _size(p) for (p, _), n in zip(pairs, moved, strict=True) if _size(p)}


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


# ---- findings


def _of_graph(graph: Graph) -> Iterator[str]:
    for node in graph:
        if node.inputs and isinstance(node.inputs[0], Node):
            before = _through(node.inputs[0])
            advice = _TWICE.get((before.op.name, node.op.name))
            if advice:
                yield f"{before.op.name} ({before.line}) goes into {node.op.name} ({node.line}): {advice}"
        shapes = [i.type.shape for i in node.inputs if isinstance(i, Node) and type(i.type) is not tuple]
        if node.op.name in ("sub", "mse_loss") and _outer(shapes):
            a, b = shapes
            yield (
                f"{node.op.name} ({node.line}) of shapes {a} and {b} broadcasts to {node.type.shape}, every element "
                "with every other, which a loss seldom means: squeeze or unsqueeze one of them"
            )


def _through(node: Node) -> Node:
    """What made a value, behind ops that only arrange it."""
    while node.op.name in _PASSING and isinstance(node.inputs[0], Node):
        node = node.inputs[0]
    return node


def _outer(shapes: list[tuple[int, ...]]) -> bool:
    """Whether two values that seem to belong element to element differ by dimensions of 1, and are broadcast."""
    if len(shapes) != 2 or shapes[0] == shapes[1]:
        return False
    a, b = ([size for size in shape if size != 1] for shape in shapes)
    return a == b and math.prod(np.broadcast_shapes(*shapes)) > math.prod(a)


def _stale(named: list[tuple[str, Tensor]], leaves: list[Tensor]) -> Iterator[str]:
    reached = {id(t) for t in leaves}
    stale = [name for name, p in named if p.grad is not None and id(p) in reached]
    if stale:
        yield (
            f"{_some(stale)} still {'has' if len(stale) == 1 else 'have'} the gradient of an earlier backward, and "
            "this one will add to it: call optimizer.zero_grad() before backward, unless they are to be accumulated"
        )


def _after(reports: list[ParameterReport], optimizer: Any) -> Iterator[str]:
    known = [p for p in reports if p.gradient is not None and p.shape]
    sizes = [p.gradient for p in known if p.gradient]
    if not sizes:
        return
    middle, largest = float(np.median(sizes)), max(sizes)
    bad = [p.name for p in known if not math.isfinite(p.gradient or 0.0)]
    if bad:
        yield f"the gradient of {_some(bad)} is not finite: `with ex.inspect.guard():` names the op"
    vanishing = [p for p in known if (p.gradient or 0.0) < TINY * largest]
    if vanishing:
        yield (
            f"vanishing gradients: {_some([p.name for p in vanishing])}, below {TINY:g} of the largest; relu in place "
            "of sigmoid or tanh, normalisation, residual connections or another initialisation help"
        )
    exploding = [
        p for p in known if (p.gradient or 0.0) > HUGE * max(middle, 1e-12) or (p.gradient or 0.0) > HUGE * _weight(p)
    ]
    if exploding:
        yield (
            f"exploding gradients: {_some([p.name for p in exploding])}, beyond {HUGE:g} times the others or their "
            "weight; nn.utils.clip_grad_norm_, a smaller lr or normalisation help"
        )
    for p in known:
        if 0 < p.n_dead < p.n_units or (p.n_dead and p.gradient == 0.0):
            yield f"dead units: {p.n_dead} of {p.n_units} of {p.name} have no gradient at all on this batch"
    if optimizer is None:
        return
    too_large = [p.name for p in known if p.update is not None and p.update > LARGE_UPDATE]
    if too_large:
        yield f"the next step changes {_some(too_large)} by more than {LARGE_UPDATE:.0%}: a smaller lr is safer"
    too_small = [p.name for p in known if p.update is not None and 0 <= p.update < SMALL_UPDATE]
    if too_small:
        yield f"the next step hardly changes {_some(too_small)}, by less than {SMALL_UPDATE:g} of it"


def _weight(p: ParameterReport) -> float:
    return p.weight if p.weight else math.inf


def _of_optimizer(named: list[tuple[str, Tensor]], optimizer: Any) -> Iterator[str]:
    if optimizer is None:
        return
    has = {id(p) for group in optimizer.param_groups for p in group["params"]}
    missing = [name for name, p in named if p.requires_grad and id(p) not in has]
    if missing:
        yield (
            f"not in the optimizer, so never updated: {_some(missing)}; make the optimizer of model.parameters() after "
            "the model is complete"
        )
    own = {id(p) for _, p in named}
    n_foreign = len(has - own)
    if n_foreign and not has & own:
        yield f"the optimizer has {counted(n_foreign, 'parameter')}, none of this model: was it made of another one?"


def _of_model(model: Module | None, loss: Tensor, has_path: bool) -> Iterator[str]:
    if model is None:
        return
    for name, advice, _ in hidden_parameters(model):
        yield f"{name} is no parameter of the model and will not be trained; {advice}"
        break
    barrier = "" if loss._grad_barrier is None else str(loss._grad_barrier[0])
    if not has_path and barrier in ("no_grad()", "inference_mode()"):
        differing = [n for n, m in model.named_modules() if m.training and _differs(m)]
        if differing:
            where = describe_where(loss._grad_barrier[1])
            yield (
                f"computed under {barrier} at {where} with the model in training mode, in which {_some(differing)} "
                f"{'behaves' if len(differing) == 1 else 'behave'} otherwise than at use: call model.eval() first"
            )


def _differs(module: Module) -> bool:
    kind = type(module).__name__
    return "Dropout" in kind or "BatchNorm" in kind


def _some(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:_SHOWN_LINES]) + (
        f" and {len(names) - _SHOWN_LINES} more" if len(names) > _SHOWN_LINES else ""
    )
