"""Parametrizations: a tensor of a module that is computed from others, whenever it is read.

`module.parametrizations.weight` holds what is trained (`original`, or `original0`, `original1`, ...) and the modules
that compute the weight from it, one after the other. `module.weight` is then found there; nothing else about the
module changes, so it pickles and copies as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from ...core.absent_names import explain_absent
from ...core.context import no_grad
from ...core.interrupts import block
from ...core.tensor import Tensor
from ...errors import ArgumentError, DtypeError, ShapeError
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Buffer, Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

M = TypeVar("M", bound=Module)

_cache: ContextVar[dict[int, Tensor] | None] = ContextVar("extempo_parametrizations", default=None)


@block
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once in this block, however often it is read.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> with nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    before = _cache.get()
    try:
        _cache.set({} if before is None else before)
        yield
    finally:
        _cache.set(before)


class ParametrizationList(ModuleList):
    """What one tensor is computed from, and the modules that do it, in order; calling it computes the tensor.

    >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.Tanh())
    >>> of_weight = layer.parametrizations.weight
    >>> type(of_weight).__name__, bool((of_weight() == of_weight.original.tanh()).all())
    ('ParametrizationList', True)
    """

    _computes_tensor = True

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ArgumentError("ParametrizationList: expected at least one parametrization, got none")
        super().__init__(modules)
        self.unsafe = unsafe
        try:
            parts = self._inverse(original)
        except NotImplementedError:  # a right_inverse that is none for these options: the original stays as it is
            parts = original
        self.is_tensor = isinstance(parts, Tensor)
        self.ntensors = 1 if self.is_tensor else len(parts)
        if self.is_tensor:
            if parts is not original:
                original.data = parts.detach().clone()
            self._keep("original", original)
        else:
            for i, part in enumerate(parts):
                kept = part.detach().clone()
                as_parameter = isinstance(original, Parameter) and kept.dtype.is_floating_point
                self._keep(f"original{i}", Parameter(kept, original.requires_grad) if as_parameter else kept)

    def _keep(self, name: str, tensor: Tensor) -> None:
        if isinstance(tensor, Parameter):
            self.register_parameter(name, tensor)
        else:
            self.register_buffer(name, tensor)

    def _inverse(self, value: Tensor) -> Any:
        """What the tensor must be computed from to become `value`, by the `right_inverse` of each module."""
        found: Any = value
        with no_grad():
            for module in reversed(list(self)):
                inverse = getattr(module, "right_inverse", None)
                if inverse is not None:
                    found = inverse(found) if isinstance(found, Tensor) else inverse(*found)
        return found if isinstance(found, Tensor) else tuple(found)

    def originals(self) -> list[Tensor]:
        """The tensors that are kept."""
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Change what is kept so that the tensor becomes `value`."""
        parts = self._inverse(value)
        parts = [parts] if isinstance(parts, Tensor) else list(parts)
        if len(parts) != self.ntensors:
            raise ShapeError(
                f"right_inverse: {self.ntensors} tensors are kept, but the parametrizations gave {len(parts)}"
            )
        with no_grad():
            for kept, part in zip(self.originals(), parts, strict=True):
                if kept.shape != part.shape:
                    raise ShapeError(f"right_inverse: expected shape {tuple(kept.shape)}, got {tuple(part.shape)}")
                kept.copy_(part)

    def forward(self) -> Tensor:
        """The tensor as it is now."""
        cache = _cache.get()
        if cache is not None and id(self) in cache:
            return cache[id(self)]
        first, *others = self
        value = first(*self.originals())
        for module in others:
            value = module(value)
        if cache is not None:
            cache[id(self)] = value
        return value


def register_parametrization(module: M, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> M:
    """From now on compute a parameter or buffer of the module by `parametrization(original)`.

    A `right_inverse` of the parametrization says what the original becomes; without one it stays as it was. Unless
    `unsafe`, shape and dtype must stay the same.

    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> ex.equal(layer.weight, layer.weight.T)
    True
    """
    if not isinstance(parametrization, Module):
        raise DtypeError(f"register_parametrization: expected a Module, got {type(parametrization).__name__}")
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _add(module.parametrizations[tensor_name], parametrization, unsafe)
        return module
    original = module._parameters.get(tensor_name)
    if original is None:
        original = module._buffers.get(tensor_name)
    if original is None:
        raise ArgumentError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer {tensor_name!r}; "
            f"it has: {', '.join([*module._parameters, *module._buffers]) or 'none'}"
        )
    before = (tuple(original.shape), original.dtype)
    values = original.detach().clone()
    made = ParametrizationList([parametrization], original, unsafe)
    if not unsafe:
        try:
            _check_same(made, before)
        except Exception:
            original.data = values
            raise
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.add_module("parametrizations", ModuleDict())
    module.parametrizations[tensor_name] = made
    return module


def _add(chain: ParametrizationList, parametrization: Module, unsafe: bool) -> None:
    with no_grad():
        before = chain()
    chain.append(parametrization)
    chain.unsafe |= unsafe
    try:
        if not unsafe:
            _check_same(chain, (tuple(before.shape), before.dtype))
        chain.right_inverse(before)
    except Exception:
        chain.pop()
        raise


def _check_same(made: ParametrizationList, before: tuple[Any, Any]) -> None:
    with no_grad():
        result = made()
    if not isinstance(result, Tensor):
        raise DtypeError(f"register_parametrization: it must return a tensor, got {type(result).__name__}")
    after = (tuple(result.shape), result.dtype)
    if after != before:
        raise ShapeError(
            f"register_parametrization: the tensor would change from {before} to {after}; "
            "pass unsafe=True if the module can work with that"
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or any, is computed by a parametrization.

    >>> nn.utils.parametrize.is_parametrized(nn.Linear(2, 2))
    False
    """
    parametrized = module._modules.get("parametrizations")
    if not isinstance(parametrized, ModuleDict):
        return False
    return tensor_name in parametrized if tensor_name is not None else len(parametrized) > 0


def remove_parametrizations(module: M, tensor_name: str, leave_parametrized: bool = True) -> M:
    """Make the tensor a parameter or buffer again: as computed now, or with `leave_parametrized=False` the original.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    >>> layer = nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} is not parametrized")
    chain = module.parametrizations[tensor_name]
    if not leave_parametrized and not chain.is_tensor:
        raise ArgumentError(
            f"remove_parametrizations: {tensor_name!r} is computed from {chain.ntensors} tensors, there is no "
            "original; leave leave_parametrized=False out"
        )
    kept = chain.originals()[0]
    if leave_parametrized:
        with no_grad():
            value = chain().detach()
        if chain.is_tensor:
            kept.data = value  # the same object as before, so that optimizers still hold it
        else:
            kept = Parameter(value, kept.requires_grad) if isinstance(kept, Parameter) else value
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        delattr(module, "parametrizations")
    if isinstance(kept, Parameter | Buffer):
        setattr(module, tensor_name, kept)
    else:
        module.register_buffer(tensor_name, kept)
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class of the module, which parametrizations do not change here.

    >>> nn.utils.parametrize.type_before_parametrizations(nn.Identity()).__name__
    'Identity'
    """
    return type(module)


explain_absent(__name__)
