"""The layers that a page may put into a model, and the model as a page lists it.

A layer is made from a name in a list and from checked numbers; what flows in at its place decides its sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import nn
from ..nn import Module
from .commands import MOST_UNITS, RefusedCommand

Shape = tuple[int, ...]


class LayerField(NamedTuple):
    """A number that a layer is made with."""

    name: str
    type: str  # "int" or "float"
    default: float | None  # None: as many as come in
    min: float
    max: float


class LayerKind(NamedTuple):
    """A layer of the list. `make(size of the last dimension, fields)`."""

    make: Callable[[int, dict[str, Any]], Module]
    fields: tuple[LayerField, ...] = ()
    has_size: bool = False  # it must know how many features come in


_FEATURES = LayerField("out_features", "int", None, 1, MOST_UNITS)
_SHARE = LayerField("p", "float", 0.5, 0.0, 0.99)
LAYERS: dict[str, LayerKind] = {
    "Linear": LayerKind(lambda n, f: nn.Linear(n, f["out_features"] or n), (_FEATURES,), True),
    "ReLU": LayerKind(lambda n, f: nn.ReLU()),
    "GELU": LayerKind(lambda n, f: nn.GELU()),
    "SiLU": LayerKind(lambda n, f: nn.SiLU()),
    "ELU": LayerKind(lambda n, f: nn.ELU()),
    "LeakyReLU": LayerKind(lambda n, f: nn.LeakyReLU()),
    "PReLU": LayerKind(lambda n, f: nn.PReLU()),
    "Tanh": LayerKind(lambda n, f: nn.Tanh()),
    "Sigmoid": LayerKind(lambda n, f: nn.Sigmoid()),
    "Softplus": LayerKind(lambda n, f: nn.Softplus()),
    "Dropout": LayerKind(lambda n, f: nn.Dropout(f["p"]), (_SHARE,)),
    "LayerNorm": LayerKind(lambda n, f: nn.LayerNorm(n), (), True),
    "BatchNorm1d": LayerKind(lambda n, f: nn.BatchNorm1d(n), (), True),
    "Identity": LayerKind(lambda n, f: nn.Identity()),
}


def listed_layers() -> list[dict[str, Any]]:
    """The list as a page gets it."""
    return [{"kind": kind, "fields": [field._asdict() for field in each.fields]} for kind, each in LAYERS.items()]


def made_layer(described: Mapping[str, Any], shape: Shape | None) -> Module:
    """A layer of the list, for values of that shape; None: nobody knows what comes in."""
    kind = described.get("kind")
    if not isinstance(kind, str) or kind not in LAYERS:
        raise RefusedCommand(f"there is no layer {str(kind)[:40]!r} to choose; there are {', '.join(LAYERS)}")
    known = LAYERS[kind]
    names = {field.name for field in known.fields}
    strange = [key for key in described if key != "kind" and key not in names]
    if strange:
        raise RefusedCommand(f"{kind}: there is no field {strange[0][:40]!r}")
    fields = {field.name: _checked(kind, field, described.get(field.name, field.default)) for field in known.fields}
    if known.has_size and not shape:
        raise RefusedCommand(f"{kind}: it is not known yet what comes in there; wait until an iteration was captured")
    return known.make(shape[-1] if shape else 0, fields)


def _checked(kind: str, field: LayerField, value: Any) -> Any:
    if value is None and field.default is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not field.min <= value <= field.max or (field.type == "int" and value != int(value)):
        what = "a whole number" if field.type == "int" else "a number"
        raise RefusedCommand(f"{kind}: {field.name} must be {what} from {field.min:g} to {field.max:g}, got {value!r}")
    return int(value) if field.type == "int" else float(value)


# ---- the model as a list


def structure_of(model: Module, optimizer: Any) -> dict[str, Any]:
    """The message that lists the modules, each with what can be done to it."""
    rows = []
    for path, module in model.named_modules():
        parameters = list(module.parameters())
        trainable = sum(p.numel() for p in parameters if p.requires_grad)
        is_container = isinstance(module, nn.Sequential | nn.ModuleList)
        row: dict[str, Any] = {
            "path": path,
            "kind": type(module).__name__,
            "container": is_container,
            "parameters": sum(p.numel() for p in parameters),
            "trainable": trainable,
            "frozen": bool(parameters) and not trainable,
            "depth": path.count(".") + 1 if path else 0,
            "text": "" if list(module.children()) else module.extra_repr(),
            "can": _possible(model, path, module),
        }
        if isinstance(module, nn.Sequential | nn.ModuleList):
            row["length"] = len(module)
        elif "insert" in row["can"]:
            row["length"] = 1
        if path:
            row["parent"], _, last = path.rpartition(".")
            row["position"] = int(last) if last.isdigit() else last
        rows.append(row)
    return {
        "type": "structure",
        "model": type(model).__name__,
        "optimizer": type(optimizer).__name__ if optimizer is not None else "",
        "modules": rows,
    }


def _possible(model: Module, path: str, module: Module) -> list[str]:
    found = []
    is_leaf = not list(module.children())
    parent = model.get_submodule(path.rpartition(".")[0]) if path else None
    if isinstance(module, nn.Sequential | nn.ModuleList) or (path and is_leaf):
        found.append("insert")
    if isinstance(parent, nn.Sequential | nn.ModuleList):
        found.append("remove")
    if isinstance(module, nn.Linear) and path:
        found.append("widen")
    parameters = list(module.parameters())
    if parameters:
        found.append("freeze" if any(p.requires_grad for p in parameters) else "unfreeze")
    if path and is_leaf:
        found.append("replace")
    return found
