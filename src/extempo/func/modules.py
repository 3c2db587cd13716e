"""Modules as functions of their parameters: functional_call, stack_module_state.

Works on anything with the protocol of `nn.Module`: `named_parameters()` and `named_buffers()`, and on it and its
submodules the dicts `_parameters`, `_buffers` and `_modules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import ops
from ..core.interrupts import block, certainly
from ..core.tensor import Tensor
from ..errors import AutogradError, ShapeError

_MISSING = object()


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call the module with other tensors in place of its parameters and buffers, by name, leaving it unchanged.

    tie_weights: a tensor that the module has under several names is replaced under all of them. strict: every
    parameter and buffer must be given, and no other name.

    >>> model = nn.Linear(1, 1)
    >>> ex.func.functional_call(model, {"weight": ex.tensor([[2.0]]), "bias": ex.tensor([1.0])}, ex.tensor([3.0]))
    tensor([7.])
    """
    given = _merged(parameter_and_buffer_dicts)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, Mapping):
        return dict(dicts)
    merged: dict[str, Tensor] = {}
    for d in dicts:
        twice = merged.keys() & d.keys()
        if twice:
            raise AutogradError(
                f"functional_call: {sorted(twice)} stands in more than one of the dicts; give each name once"
            )
        merged |= d
    return merged


def _named_tensors(module: Any) -> dict[str, Any]:
    """Every parameter and buffer, under every name it has."""
    found = dict(_walk(module, ""))
    if not found:
        found = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return found


def _walk(module: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for table in (module._parameters, module._buffers):
        for name, tensor in table.items():
            if tensor is not None:
                yield prefix + name, tensor
    for name, child in getattr(module, "_modules", {}).items():
        if child is not None:
            yield from _walk(child, f"{prefix}{name}.")


@block
def _replaced(module: Any, given: dict[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    known = _named_tensors(module)
    unknown = sorted(given.keys() - known.keys())
    missing = sorted(known.keys() - given.keys())
    if strict and (unknown or missing):
        raise AutogradError(
            f"functional_call: strict=True, but {missing} are missing and {unknown} are not the module's"
        )
    wanted = _with_tied(given, known) if tie_weights else dict(given)
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for path, tensor in wanted.items():
            table, name = _place(module, path)
            replaced.append((table, name, table.get(name, _MISSING)))
            table[name] = tensor
        yield
    finally:
        certainly(_put_back, replaced)


def _put_back(replaced: list[tuple[dict[str, Any], str, Any]]) -> None:
    for table, name, before in reversed(replaced):
        if before is _MISSING:
            table.pop(name, None)
        else:
            table[name] = before


def _with_tied(given: dict[str, Tensor], known: dict[str, Any]) -> dict[str, Tensor]:
    """The given tensors, also under the other names of those they replace."""
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in known.items():
        by_tensor.setdefault(id(tensor), []).append(name)
    wanted = dict(given)
    for name, tensor in given.items():
        for other in by_tensor.get(id(known.get(name)), ()):
            if other not in given:
                wanted[other] = tensor
            elif given[other] is not tensor:
                raise AutogradError(
                    f"functional_call: {name!r} and {other!r} are one tensor in the module, but different ones were "
                    "given; pass tie_weights=False if that is meant"
                )
    return wanted


def _place(module: Any, path: str) -> tuple[dict[str, Any], str]:
    """The table that holds a tensor, and its name there."""
    *parents, name = path.split(".")
    for parent in parents:
        children = getattr(module, "_modules", {})
        if parent not in children:
            raise AutogradError(f"functional_call: the module has no {path!r}; named_parameters() lists what there is")
        module = children[parent]
    for table in (module._parameters, module._buffers):
        if name in table:
            return table, name
    raise AutogradError(f"functional_call: the module has no {path!r}; named_parameters() lists what there is")


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of equal models, each stacked along a new first dimension: an ensemble for vmap.

    >>> parameters, buffers = ex.func.stack_module_state([nn.Linear(2, 3) for _ in range(5)])
    >>> parameters["weight"].shape
    extempo.Size([5, 3, 2])
    """
    if not models:
        raise ShapeError("stack_module_state: expected at least one model, got none")
    if len({type(m) for m in models}) > 1:
        raise ShapeError(
            f"stack_module_state: the models must be of one class, got {sorted({type(m).__name__ for m in models})}"
        )
    if len({bool(getattr(m, "training", True)) for m in models}) > 1:
        raise ShapeError(
            "stack_module_state: the models must all be in train mode or all in eval mode; call .train() or .eval()"
        )
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return _stacked(parameters, variables=True), _stacked(buffers, variables=False)


def _stacked(states: list[dict[str, Any]], variables: bool) -> dict[str, Tensor]:
    stacked = {}
    for name, first in states[0].items():
        tensors = [s[name] for s in states]
        shapes = {tuple(t.shape) for t in tensors}
        if len(shapes) > 1:
            raise ShapeError(
                f"stack_module_state: {name!r} has the shapes {sorted(shapes)}; the models must be equal but for values"
            )
        joined = ops.stack([t.detach() for t in tensors])
        stacked[name] = joined.requires_grad_() if variables and first.requires_grad else joined
    return stacked
