"""Nested tuples, named tuples, lists and dicts, taken apart into leaves and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..core.tensor import Tensor
from ..errors import ShapeError


def is_leaf(tree: Any) -> bool:
    """Whether a value is not taken apart."""
    return not isinstance(tree, tuple | list | dict)


def _children(tree: Any) -> Iterator[Any]:
    return iter(tree.values()) if isinstance(tree, dict) else iter(tree)


def leaves(tree: Any) -> list[Any]:
    """The leaves in order."""
    if is_leaf(tree):
        return [tree]
    return [leaf for child in _children(tree) for leaf in leaves(child)]


def rebuild(tree: Any, values: Iterator[Any]) -> Any:
    """A tree of the same structure with other leaves."""
    if is_leaf(tree):
        return next(values)
    if isinstance(tree, dict):
        pairs = [(key, rebuild(child, values)) for key, child in tree.items()]
        return dict(pairs) if type(tree) is dict else type(tree)(pairs)
    children = [rebuild(child, values) for child in tree]
    if isinstance(tree, list):
        return children
    return type(tree)(*children) if hasattr(tree, "_fields") else tuple(children)


def mapped(fn: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the same structure with `fn` applied to each leaf."""
    return rebuild(tree, iter([fn(leaf) for leaf in leaves(tree)]))


def tensors_mapped(fn: Callable[[Tensor], Any], tree: Any) -> Any:
    """`mapped` that leaves everything but tensors alone."""
    return mapped(lambda leaf: fn(leaf) if isinstance(leaf, Tensor) else leaf, tree)


def spread(prefix: Any, tree: Any, what: str) -> list[Any]:
    """One entry for each leaf of `tree`, from a tree that may stop earlier: its leaves stand for all below them."""
    if is_leaf(prefix):
        return [prefix] * len(leaves(tree))
    same = not is_leaf(tree) and len(prefix) == len(tree) and isinstance(prefix, dict) == isinstance(tree, dict)
    if not same or (isinstance(prefix, dict) and prefix.keys() != tree.keys()):
        raise ShapeError(
            f"{what}: {prefix!r} does not fit the structure that it belongs to; give one number for all, or the same "
            "nesting"
        )
    pairs = [(prefix[k], tree[k]) for k in tree] if isinstance(tree, dict) else list(zip(prefix, tree, strict=True))
    return [entry for p, t in pairs for entry in spread(p, t, what)]
