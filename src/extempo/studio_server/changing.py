"""Changing a model while it trains, all or nothing: tried on the last input first, and undone if anything fails.

The training thread calls this between two steps. What a change did is undone by putting back what modules and
optimizers had: surgery makes new tensors and never writes into old ones, so references are enough.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..core.context import no_grad
from ..core.interrupts import certainly
from ..core.tensor import Tensor, TensorLike
from ..func.tree import leaves
from ..inspect.tracing import unchanged
from ..nn import Module, ModuleList, Sequential, surgery
from ..nn.identity_start import start_as_identity
from ..optim.lr_base import set_rate
from ..optim.remapping import LIVE
from ..random import get_rng_state, set_rng_state
from ..tracing.api import eager
from .commands import PageCommand, RefusedCommand
from .layers import Shape, made_layer

Sample = tuple[tuple[Any, ...], dict[str, Any]]
_CONTENTS = ("_modules", "_parameters", "_buffers")


def apply_change(command: PageCommand, model: Module, optimizer: Any, sample: Sample | None) -> str:
    """Do it and say what was done. If it raises, model and optimizers are as they were.

    `sample`: what the model was called with last, to try it on.
    """
    kept = _Kept(model)
    fields = command.fields
    try:
        if command.kind == "lr":
            return _set_rate(optimizer, fields["lr"], fields["group"])
        if command.kind in ("freeze", "unfreeze"):
            return _freeze(model, fields["path"], command.kind == "freeze")
        if sample is None:
            raise RefusedCommand(f"{command.kind}: it cannot be tried yet; wait until an iteration was captured")
        before = _shapes(model, sample)
        done = _OPERATIONS[command.kind](model, fields, sample)
        _try(model, sample, before)
        _require_learning(model, command.kind)
        return done
    except BaseException as error:
        certainly(kept.put_back)
        if isinstance(error, Exception) and not isinstance(error, RefusedCommand):
            raise RefusedCommand(f"{command.kind}: {error}") from error
        raise


class _Kept:
    """What modules and optimizers had."""

    def __init__(self, model: Module) -> None:
        self._draws = get_rng_state()  # a new layer draws its weights
        self._modules = [
            (module, dict(vars(module)), {name: dict(vars(module)[name]) for name in _CONTENTS})
            for module in model.modules()
        ]
        self._parameters = [(p, p.requires_grad, p.grad) for p in model.parameters()]
        self._optimizers = [
            (
                optimizer,
                [(group, {**group, "params": list(group["params"])}) for group in optimizer.param_groups],
                dict(optimizer.state),
            )
            for optimizer in LIVE
        ]

    def put_back(self) -> None:
        """Everything; twice does no harm."""
        set_rng_state(self._draws)
        for module, attributes, contents in self._modules:
            for name, entries in contents.items():
                there = attributes[name]
                there.clear()
                there.update(entries)
            vars(module).clear()
            vars(module).update(attributes)
        for p, requires_grad, grad in self._parameters:
            if p.requires_grad != requires_grad:
                p.requires_grad_(requires_grad)
            p.grad = grad
        for optimizer, groups, state in self._optimizers:
            for group, entries in groups:
                group.clear()
                group.update(entries)
            optimizer.param_groups[:] = [group for group, _ in groups]
            optimizer.state.clear()
            optimizer.state.update(state)
            optimizer._forget_layout()


# ---- trying


def _outputs(model: Module, sample: Sample) -> Any:
    with unchanged(model), no_grad(), eager():
        return model(*sample[0], **sample[1])


def _shapes(model: Module, sample: Sample) -> list[Shape]:
    found = [leaf for leaf in leaves(_outputs(model, sample)) if isinstance(leaf, Tensor | TensorLike)]
    return [tuple(leaf.shape) for leaf in found]


def _try(model: Module, sample: Sample, before: list[Shape]) -> None:
    now = _shapes(model, sample)
    if now != before:
        raise RefusedCommand(f"the model would give {_told(now)} then, and the loss expects {_told(before)}")


def _require_learning(model: Module, kind: str) -> None:
    if not any(p.requires_grad for p in model.parameters()):
        raise RefusedCommand(f"{kind}: nothing would be left to learn")


def _told(shapes: list[Shape]) -> str:
    return ", ".join(str(shape) for shape in shapes) or "nothing"


def _shape_at(model: Module, place: Module, sample: Sample, after: bool) -> Shape | None:
    """What flows into a module, or out of it, on the last input."""
    seen: list[Shape] = []

    def note(value: Any) -> None:
        found = [t for t in leaves(value) if isinstance(t, Tensor | TensorLike)]
        if found:
            seen.append(tuple(found[0].shape))

    if after:
        handle = place.register_forward_hook(lambda module, args, output: note(output))
    else:
        handle = place.register_forward_pre_hook(lambda module, args: note(args))
    try:
        _outputs(model, sample)
    finally:
        handle.remove()
    return seen[0] if seen else None


# ---- what can be done


def _set_rate(optimizer: Any, rate: float, group: int | None) -> str:
    groups = optimizer.param_groups
    if group is not None and group >= len(groups):
        raise RefusedCommand(f"lr: there is no group {group}; the optimizer has groups 0 to {len(groups) - 1}")
    for one in groups if group is None else [groups[group]]:
        if "lr" not in one:
            raise RefusedCommand(f"lr: {type(optimizer).__name__} has no learning rate")
        set_rate(one, rate)
    return f"learning rate {rate:g}" + (f" of group {group}" if group is not None else "")


def _freeze(model: Module, path: str, freeze: bool) -> str:
    module = _module(model, path)
    parameters = list(module.parameters())
    if not parameters:
        raise RefusedCommand(f"{path or 'the model'} has no parameters")
    for p in parameters:
        p.requires_grad_(not freeze)
        if freeze:
            p.grad = None
    _require_learning(model, "freeze")
    return f"{'froze' if freeze else 'unfroze'} {path or 'the model'}"


def _insert(model: Module, fields: dict[str, Any], sample: Sample) -> str:
    path, position = fields["container"], fields["position"]
    container = _module(model, path)
    start = "identity" if fields["identity"] else None
    if not isinstance(container, Sequential | ModuleList):
        return _insert_beside(model, path, position, fields, sample)
    if position > len(container):
        raise RefusedCommand(f"insert: {path or 'the model'} has positions 0 to {len(container)}, got {position}")
    at_end = position == len(container)
    beside = container if not len(container) else container[position - 1 if at_end else position]
    layer = made_layer(fields["layer"], _shape_at(model, beside, sample, after=at_end))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a layer that cannot start as the identity: the page is told by its curves
        surgery.insert_layer(container, position, layer, start=start)
    return f"inserted {type(layer).__name__} at {path or 'the model'} position {position}"


def _insert_beside(model: Module, path: str, position: int, fields: dict[str, Any], sample: Sample) -> str:
    """Before or after a layer that stands alone: both become one Sequential in its place."""
    layer_there = _module(model, path)
    if position > 1 or not path or list(layer_there.children()):
        raise RefusedCommand("insert: choose a Sequential, or position 0 (before) or 1 (after) a single layer")
    layer = made_layer(fields["layer"], _shape_at(model, layer_there, sample, after=position == 1))
    if fields["identity"]:
        start_as_identity(layer, [layer_there] if position else [])
    both = [layer_there, layer] if position else [layer, layer_there]
    pair = Sequential(*both)
    pair.train(layer_there.training)
    surgery.replace_layer(*_parent(model, path), pair)
    return f"inserted {type(layer).__name__} {'after' if position else 'before'} {path}"


def _remove(model: Module, fields: dict[str, Any], sample: Sample) -> str:
    parent, name = _parent(model, fields["path"])
    if not isinstance(parent, Sequential | ModuleList):
        raise RefusedCommand("remove: only layers of a Sequential or ModuleList can be taken out")
    if len(parent) == 1:
        raise RefusedCommand("remove: it is the last layer there")
    removed = surgery.remove_layer(parent, int(name))
    return f"removed {type(removed).__name__} at {fields['path']}"


def _replace(model: Module, fields: dict[str, Any], sample: Sample) -> str:
    path = fields["path"]
    old = _module(model, path)
    if list(old.children()):
        raise RefusedCommand(f"replace: {path or 'the model'} has layers inside; choose one of them")
    described = dict(fields["layer"])
    if described.get("kind") == "Linear" and described.get("out_features") is None and hasattr(old, "out_features"):
        described["out_features"] = old.out_features
    layer = made_layer(described, _shape_at(model, old, sample, after=False))
    layer.train(old.training)
    surgery.replace_layer(*_parent(model, path), layer)
    return f"replaced {type(old).__name__} at {path} by {type(layer).__name__}"


def _widen(model: Module, fields: dict[str, Any], sample: Sample) -> str:
    path, units = fields["path"], fields["units"]
    layer = _module(model, path)
    through, into = _readers(model, layer, sample)
    if not into:
        raise RefusedCommand(f"widen: no Linear layer was found that reads the units of {path or 'the model'}")
    surgery.widen(layer, units, through=through, into=into)
    return f"widened {path} to {units} units"


def _readers(model: Module, layer: Module, sample: Sample) -> tuple[list[Module], list[Module]]:
    """The layers that come after one: those that keep something for each unit, and the one that reads the units."""
    called: list[Module] = []
    leaf_layers = [m for m in model.modules() if not list(m.children())]
    handles = [m.register_forward_pre_hook(lambda module, args: called.append(module)) for m in leaf_layers]
    try:
        _outputs(model, sample)
    finally:
        for handle in handles:
            handle.remove()
    if not any(layer is one for one in called):
        raise RefusedCommand("widen: the model did not call this layer, so it is not known who reads its units")
    through: list[Module] = []
    n_units = getattr(layer, "out_features", None)
    for after in called[[id(one) for one in called].index(id(layer)) + 1 :]:
        if getattr(after, "in_features", None) == n_units and after is not layer:
            return through, [after]
        if hasattr(after, "num_features") or getattr(after, "num_parameters", 1) != 1:
            through.append(after)
    return through, []


_OPERATIONS: dict[str, Callable[[Module, dict[str, Any], Sample], str]] = {
    "insert": _insert,
    "remove": _remove,
    "replace": _replace,
    "widen": _widen,
}


def _module(model: Module, path: str) -> Module:
    """The module of a path, found among those that there are."""
    for name, module in model.named_modules():
        if name == path:
            return module
    raise RefusedCommand(f"there is no module {path[:60]!r} in the model")


def _parent(model: Module, path: str) -> tuple[Module, str]:
    _module(model, path)
    if not path:
        raise RefusedCommand("the model itself cannot be replaced or removed")
    above, _, name = path.rpartition(".")
    return _module(model, above), name
