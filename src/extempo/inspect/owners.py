"""Whose a parameter is: names of parameters and modules, from a model that is given or from all modules that live.

Looking for modules that live asks the garbage collector for all its objects, which takes a tenth of a second; it is for
messages and reports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType

from ..core.graph import Leaf, Node
from ..core.live_objects import live_objects
from ..core.tensor import Tensor
from ..nn import Module
from ..nn.module import CODE_OF_CALL


def variables(nodes: Iterable[Node]) -> list[Tensor]:
    """The leaves among nodes that require grad and whose tensors live."""
    found = [node.variable for node in nodes if node.op is Leaf and node.requires_grad]
    return [t for t in found if t is not None]


def named_parameters(model: Module | None, used: Iterable[Tensor]) -> list[tuple[str, Tensor]]:
    """All parameters of the model, by name; of the models that `used` tensors are parameters of if none is given.

    Used tensors of no model come last, as `leaf 0` and so on.
    """
    used = list(used)
    models = [model] if model is not None else models_of(used)
    found: dict[int, tuple[str, Tensor]] = {}
    for owner in models:
        prefix = f"{type(owner).__name__}." if len(models) > 1 else ""
        for name, p in owner.named_parameters():
            found.setdefault(id(p), (prefix + name, p))
    free = [t for t in used if id(t) not in found]
    found.update((id(t), (f"leaf {i}", t)) for i, t in enumerate(free))
    return list(found.values())


def models_of(parameters: Iterable[Tensor]) -> list[Module]:
    """The outermost modules that live and have one of these parameters, the oldest first."""
    wanted = {id(p) for p in parameters}
    if not wanted:
        return []
    modules = [m for m in live_objects(Module) if "_modules" in m.__dict__]
    inner = {id(child) for m in modules for child in m._modules.values() if child is not None}
    outermost = [m for m in modules if id(m) not in inner]
    return [m for m in outermost if any(id(p) in wanted for module in m.modules() for p in own_parameters(module))]


def own_parameters(module: Module) -> list[Tensor]:
    """Those of the module itself."""
    return [p for p in module._parameters.values() if p is not None]


def running_path() -> str:
    """The path, in the outermost module that is being called, of the innermost one; "" if none is."""
    frame: FrameType | None = sys._getframe(1)
    inner: Module | None = None
    outer: Module | None = None
    while frame is not None:
        if frame.f_code is CODE_OF_CALL:
            outer = frame.f_locals["self"]
            if inner is None:
                inner = outer
        frame = frame.f_back
    if outer is None or inner is None:
        return ""
    return _PATHS.path(outer, inner)


class _Paths:
    """Names of modules in the model that was called last, which most often is called again."""

    def __init__(self) -> None:
        self._outer: Module | None = None
        self._names: dict[int, str] = {}

    def path(self, outer: Module, inner: Module) -> str:
        found = self._names.get(id(inner)) if outer is self._outer else None
        if found is None:
            self._outer, self._names = outer, {id(module): name for name, module in outer.named_modules()}
            found = self._names.get(id(inner), type(inner).__name__)
        return found or type(inner).__name__

    def forget(self) -> None:
        """Keep no model alive."""
        self._outer, self._names = None, {}


_PATHS = _Paths()
forget_paths = _PATHS.forget
