"""`torch.nn.utils._named_member_accessor`: tensors of a module taken out and put in by name."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...nn.module import Module

_MISSING = object()


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put a tensor in the place of a parameter, buffer or attribute, and return what was there."""
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name or not name:
        raise KeyError(f"tensor name {name!r} must be one of the module itself")
    for table in (module._parameters, module._buffers):
        if name in table:
            before = table[name]
            if tensor is _MISSING:
                del table[name]
            else:
                table[name] = tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute {name!r}", name=name, obj=module)
    if before is not _MISSING and not isinstance(before, Tensor | None):
        raise TypeError(f"{name!r} of {type(module).__name__} is not a tensor")
    setattr(module, name, tensor)
    return before


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Put a tensor in the place of a parameter, buffer or attribute."""
    swap_tensor(module, name, tensor, allow_missing=True)


class NamedMemberAccessor:
    """The tensors of a module and of those in it, by their full names."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def get_submodule(self, name: str) -> Module:
        return self.module.get_submodule(name)

    def get_tensor(self, name: str) -> Any:
        path, _, last = name.rpartition(".")
        return getattr(self.get_submodule(path), last)

    def set_tensor(self, name: str, value: Tensor) -> None:
        path, _, last = name.rpartition(".")
        set_tensor(self.get_submodule(path), last, value)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        path, _, last = name.rpartition(".")
        return swap_tensor(self.get_submodule(path), last, value, allow_missing)

    def named_parameters(self, remove_duplicate: bool = True) -> Any:
        return self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Any:
        return self.module.named_buffers(remove_duplicate=remove_duplicate)
