"""Capture: run something, and note every op with its inputs, result, line and the module that it ran in.

The tape of autograd knows only what needs gradients; an observer of all ops knows everything. What runs is not changed:
ops run eagerly, one by one, and the hooks on modules are gone afterwards.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...autograd.observers import Observer
from ...core.context import switch
from ...core.graph import Node, describe_where
from ...core.interrupts import Undone
from ...core.op import Op
from ...core.source_location import user_line
from ...core.tensor import Tensor, TensorLike
from ...func.tree import leaves
from ...nn import Module
from ...tracing.api import eager
from .model import ROOT, Diagram, Group, Item, Parameter, shape_text

_PACKAGE = __name__.partition(".")[0] + "."


class Capture(Undone, Observer):
    """An observer that draws up a diagram as ops run. A context manager."""

    def __init__(self, models: dict[str, Module], values: bool = True) -> None:
        super().__init__()
        self.diagram = Diagram()
        self._values = values
        self._names: dict[int, str] = {}  # of modules, by their ids
        self._paths: dict[int, str] = {}  # of modules, by their groups
        self._modules: list[Module] = []
        self._known: dict[int, tuple[Parameter, Any]] = {}  # parameters and buffers, by their tensors' ids
        for name, model in models.items():
            self._take(name, model)
        self._made: dict[int, tuple[Any, int]] = {}  # by a tensor's id: a weak reference to it, and its item
        self._written: dict[int, tuple[Any, int]] = {}  # by a storage's id, likewise
        self._shared: dict[int, tuple[Any, int]] = {}  # the same for what was made, and may be seen detached
        self._within = [ROOT]
        self._handles: list[Any] = []
        self._blocks: list[Any] = []
        self._failed: BaseException | None = None

    def _take(self, prefix: str, model: Module) -> None:
        """Names for what is in a model, which has the name `prefix`; "" is the one that the picture is of."""
        for name, module in model.named_modules(prefix=prefix):
            if id(module) not in self._names:
                self._names[id(module)] = name
                self._modules.append(module)
        for named, learns in ((model.named_parameters(prefix), True), (model.named_buffers(prefix), False)):
            for name, t in named:
                shown = Parameter(name, shape_text(t.shape), learns and t.requires_grad)
                self._known.setdefault(id(t), (shown, t))

    # ---- the block in which it looks

    def _begin(self) -> None:
        self._without_hooks = [module for module in self._modules if module._call_hooks is None]
        for module in self._modules:
            self._handles.append(module.register_forward_pre_hook(self._enter_module))
            self._handles.append(module.register_forward_hook(self._leave_module, always_call=True))
        for block in (eager(), switch(interceptor=self)):
            block.__enter__()
            self._blocks.append(block)

    def _end(self) -> None:
        while self._blocks:
            self._blocks.pop().__exit__(None, None, None)
        for handle in self._handles:
            handle.remove()
        for module in self._without_hooks:
            module._call_hooks = None

    # ---- modules

    def _enter_module(self, module: Module, args: Any) -> None:
        name, kind = self._names.get(id(module), ""), type(module).__name__  # a compiled one runs another
        if not name and self._within == [ROOT]:  # the model itself is the picture
            self.diagram.root.n_parameters = sum(p.numel() for p in module.parameters())
            self._within.append(ROOT)
            return
        n_parameters = sum(p.numel() for p in module.parameters())
        where = describe_where(user_line())
        group = Group(self._relative(name), "module", kind, where, n_parameters=n_parameters)
        self._within.append(self.diagram.add(group, self._within[-1]))
        self._paths[group.number] = name

    def _relative(self, name: str) -> str:
        """A module's name below the one that calls it: `blocks.0`, not all of `encoder.blocks.0`."""
        outer = self._paths.get(self._within[-1], "")
        return name.removeprefix(outer + ".") if outer else name

    def _leave_module(self, module: Module, args: Any, output: Any) -> None:
        if sys.exc_info()[1] is None or self._failed is None:
            left = self._within.pop()
            group = self.diagram.group(left)
            if left != ROOT and not group.members:
                self._drop_empty(group)

    def _drop_empty(self, group: Group) -> None:
        """A module that ran no op (Identity, dropout in eval mode) is a point that values pass."""
        self.diagram.group(group.parent).members.remove(group.number)

    # ---- ops

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        try:
            result = super().apply(op, inputs, attrs)
        except Exception as error:
            self.fail(error, op.name, inputs, attrs)
            raise
        self._finish(self._item(op.name, inputs, attrs), result)
        return result

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        is_made = isinstance(value, Tensor) and self._source(value) is not None
        before = (target, value) if is_made else (target,)
        item = self._item(op_name, before, {})
        written = super().write(target, value, op_name, made_from)
        number = self._finish(item, written)
        self._written[id(target._storage)] = (target._storage, number)
        return written

    def ran(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], node: Node | None) -> None:
        """Noted in `apply`, where the result is at hand."""

    def fail(self, error: BaseException, name: str, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> None:
        """The op that raised, with what it was given."""
        if self._failed is None:
            self._failed = error
            item = self._item(name, inputs, attrs)
            item.kind, item.message = "error", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            self.diagram.error = item.message
            self.diagram.add(item, self._within[-1])

    def name_inputs(self, args: tuple[Any, ...], names: list[str]) -> None:
        """What the program is given, before it runs: one item for each argument, a list of tensors included."""
        for place, argument in enumerate(args):
            given = [t for t in leaves(argument) if isinstance(t, Tensor | TensorLike) and id(t) not in self._known]
            if not given:
                continue
            item = Item("leaf", "input", names[place] if place < len(names) else f"input {place}")
            shapes = list(dict.fromkeys(shape_text(t.shape) for t in given))
            many = f"{len(given)} x " if len(given) > 1 else ""
            item.shapes = [many + (shapes[0] if len(shapes) == 1 else "...")]
            item.types = list(dict.fromkeys(map(_type, given)))
            flat = [t._flat if isinstance(t, TensorLike) else t for t in given]
            item.grad = any(t.requires_grad for t in flat)
            item.values = value_summary(flat[0]) if self._values and len(flat) == 1 else ""
            number = self.diagram.add(item, ROOT)
            for t in flat:
                self._made[id(t)] = (weakref.ref(t), number)

    def mark_outputs(self, tree: Any) -> None:
        for leaf in leaves(tree):
            if isinstance(leaf, Tensor | TensorLike):
                source = self._source(leaf)
                if source is not None:
                    self.diagram.item(source).is_output = True

    def _finish(self, item: Item, result: Any) -> int:
        """Put an op into the diagram, with what it gave."""
        results = [r for r in (result if isinstance(result, tuple) else (result,)) if isinstance(r, Tensor)]
        item.shapes = [shape_text(r.shape) for r in results]
        item.types = [_type(r) for r in results]
        item.grad = any(r.requires_grad for r in results)
        if results and not item.grad and any(self.diagram.item(source).grad for source in item.inputs):
            item.notes += _cut_by(results[0], item)
        if self._values and results:
            item.values = value_summary(results[0])
        number = self.diagram.add(item, self._within[-1])
        for r in results:
            self._made[id(r)] = (weakref.ref(r), number)
            known = self._shared.get(id(r._storage))
            if known is None or known[0]() is not r._storage:  # else it is a view
                self._shared[id(r._storage)] = (weakref.ref(r._storage), number)
        return number

    def _item(self, name: str, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Item:
        item = Item(name)
        others = []
        for value in inputs:
            if isinstance(value, Tensor | TensorLike):
                known = self._known.get(id(value))
                if known is not None:
                    item.parameters.append(known[0])
                    continue
                source = self._source(value)
                if source is None and isinstance(value, Tensor) and not value.requires_grad:
                    source = self._detached_from(value)
                    item.notes += [] if source is None else _cut_by(value, item)
                if source is not None:
                    item.inputs.append(source)
                else:
                    item.parameters.append(constant(value))
            elif value is not None:
                others.append(_short(value))
        others += [f"{key}={_short(value)}" for key, value in attrs.items()]
        item.arguments = ", ".join(others)
        item.where = describe_where(user_line())
        item.spot = _spot()
        return item

    def _source(self, t: Any) -> int | None:
        """The item that made a tensor's values, if one did."""
        if isinstance(t, TensorLike):
            t = t._flat
        made, found = self._made.get(id(t)), None
        if made is not None and made[0]() is t:
            found = made[1]
        written = self._written.get(id(t._storage)) if isinstance(t, Tensor) and t._storage is not None else None
        if written is not None and (found is None or written[1] > found):
            found = written[1]
        return found

    def _detached_from(self, t: Tensor) -> int | None:
        """The item that made the memory which a tensor shares, without a path for gradients."""
        known = self._shared.get(id(t._storage))
        return known[1] if known is not None and known[0]() is t._storage else None


def _cut_by(t: Tensor, item: Item) -> list[str]:
    """A note on what keeps gradients from going through a tensor, unless the item has it already."""
    if t._grad_barrier is None:
        return []
    what, where = t._grad_barrier
    line = describe_where(where)
    note = f"gradients end: {what}" + (f" at {line}" if line else "")
    return [note] if note not in item.notes else []


def constant(t: Any) -> Parameter:
    """A tensor that nothing here made and nobody named."""
    flat = t._flat if isinstance(t, TensorLike) else t
    name = _short(flat.tolist()) if flat.numel() == 1 else "constant"
    return Parameter(name, shape_text(t.shape), flat.requires_grad)


def _type(t: Any) -> str:
    return f"{str(t.dtype).rpartition('.')[2]} {shape_text(t.shape)}"


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else text[:39] + "…"


def _spot() -> tuple[tuple[int, int], ...]:
    """Where an op was called from, down to the instruction: in the user's line, and in layers of `nn` below it.

    Frames of other packages say nothing: inline caches come and go among them from one call to the next.
    """
    found: list[tuple[int, int]] = []
    frame: Any = sys._getframe(3)
    while frame is not None:
        package = (frame.f_globals.get("__package__") or "") + "."
        is_own = not package.startswith(_PACKAGE)
        if is_own or frame.f_code.co_name == "forward":
            found.append((id(frame.f_code), frame.f_lasti))
        if is_own:
            break
        frame = frame.f_back
    return tuple(found)


def value_summary(t: Any) -> str:
    """Range, mean and what is not finite, in a few words; of a tensor of one element its value.

    >>> value_summary(ex.tensor([1.0, float("nan"), 3.0]))
    '1..3, mean 2, 1 nan'
    """
    array = np.asarray(t.detach()._values())
    if array.size == 0:
        return "no elements"
    if array.size == 1:
        return f"{array.reshape(()).item():.4g}"
    if array.dtype.kind == "b":
        return f"{int(array.sum()):,} of {array.size:,} true"
    if array.dtype.kind in "iu":
        return f"{array.min()}..{array.max()}"
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    parts = [f"{finite.min():.3g}..{finite.max():.3g}, mean {finite.mean():.3g}"] if finite.size else []
    n_nan, n_inf = int(np.isnan(wide).sum()), int(np.isinf(wide).sum())
    parts += [f"{n:,} {what}" for n, what in ((n_nan, "nan"), (n_inf, "inf")) if n]
    n_zero = int((wide == 0).sum())
    parts += [f"{100 * n_zero / wide.size:.0f}% zeros"] if n_zero > wide.size / 10 else []
    return ", ".join(parts)


def models_in(fn: Callable[..., Any], args: Iterable[Any]) -> dict[str, Module]:
    """The modules that a function is, is bound to, closes over, reads or is given, with names for them."""
    if isinstance(fn, Module):
        return {"": fn}
    code = getattr(fn, "__code__", None)
    held: dict[str, Any] = {"self": getattr(fn, "__self__", None)}
    if code is not None:
        cells = zip(code.co_freevars, getattr(fn, "__closure__", None) or (), strict=False)
        held |= {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
        around = getattr(fn, "__globals__", {})
        held |= {name: around[name] for name in code.co_names if name in around}
        held |= dict(zip(code.co_varnames, args, strict=False))
    found: dict[str, Module] = {}
    for name, value in held.items():
        if isinstance(value, Module) and not any(value is other for other in found.values()):
            found[name] = value
    return found


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a variable that has no value yet
        return False
