"""From an OpInfo to the function of that name, in PyTorch or in Extempo.

The rule: `a.b.c` is the attribute of that path, a plain name is the function of that name, or else the tensor method.
`SPELLINGS` lists the ops whose OpInfo calls something else, or takes its arguments in another order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from .convert import lookup


def unchanged(function: Any) -> Any:
    """The function itself takes the sample's arguments."""
    return function


class Spelling(NamedTuple):
    """Where the function is, and how it takes the sample's arguments."""

    path: str
    adapt: Callable[[Any], Callable[..., Any]] = unchanged


def _first_two_swapped(function: Any) -> Callable[..., Any]:
    return lambda first, second, *rest, **options: function(second, first, *rest, **options)


def _on_a_clone(method: Any) -> Callable[..., Any]:
    return lambda tensor, *arguments: method(tensor.clone(), *arguments)


def _of_a_product(function: Any) -> Callable[..., Any]:
    return lambda left, right, **options: function(left @ right.mT, **options)


def _method(name: str) -> Spelling:
    return Spelling(f"Tensor.{name}")


def _property(name: str) -> Spelling:
    return Spelling(f"Tensor.{name}", lambda _: operator.attrgetter(name))


# Keyed by the name, or by (name, variant) where only one variant differs.
SPELLINGS: dict[str | tuple[str, str], Spelling] = {
    # Both a dtype and a cast have these names.
    **{
        name: _method(name)
        for name in ("bfloat16", "bool", "byte", "char", "double", "float", "half", "int", "long", "short")
    },
    **{name: _method(name) for name in ("cdouble", "cfloat", "chalf", "item")},
    **{name: _property(name) for name in ("H", "T", "mH", "mT")},
    # Random fills are written in place.
    **{name: _method(f"{name}_") for name in ("cauchy", "exponential", "geometric", "log_normal", "uniform")},
    ("normal", "in_place"): _method("normal_"),
    ("normal", "number_mean"): Spelling("normal", _first_two_swapped),
    "resize_": Spelling("Tensor.resize_", _on_a_clone),
    "resize_as_": Spelling("Tensor.resize_as_", _on_a_clone),
    "zero_": Spelling("Tensor.zero_", _on_a_clone),
    "einsum": Spelling("einsum", _first_two_swapped),
    "nn.functional.embedding": Spelling("nn.functional.embedding", _first_two_swapped),
    "nn.functional.embedding_bag": Spelling("nn.functional.embedding_bag", _first_two_swapped),
    "polygamma": Spelling("polygamma", _first_two_swapped),
    "special.polygamma": Spelling("special.polygamma", _first_two_swapped),
    "where": Spelling("where", _first_two_swapped),
    ("linalg.lstsq", "grad_oriented"): Spelling(
        "linalg.lstsq", lambda function: lambda a, b, driver: tuple(function(a, b, driver=driver))[:2]
    ),
    ("linalg.pinv", "singular"): Spelling("linalg.pinv", _of_a_product),
    "pca_lowrank": Spelling("pca_lowrank", _of_a_product),
}


def resolve(module: Any, op: Any) -> Callable[..., Any] | None:
    """The function that takes this OpInfo's samples in `module`, or None if the module lacks it."""
    spelling = SPELLINGS.get((op.name, op.variant_test_name)) or SPELLINGS.get(op.name) or Spelling(op.name)
    found = lookup(module, spelling.path)
    if not callable(found) and "." not in spelling.path:  # a module may have the name of a method, as ops.view
        found = lookup(module, f"Tensor.{spelling.path}")
    return None if found is None else spelling.adapt(found)


def absent_methods(module: Any, op: Any) -> list[str]:
    """Names of the method and in-place forms that PyTorch has of this op and `module` has not."""
    import torch

    names = []
    for variant in (op.method_variant, op.inplace_variant):
        name = getattr(variant, "__name__", "")
        if hasattr(torch.Tensor, name) and not hasattr(module.Tensor, name):
            names.append(name)
    return names
