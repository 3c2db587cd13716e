"""`torch.utils._pytree`: tuples, lists, dicts and named tuples as trees of leaves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

PyTree = Any


class _Container(NamedTuple):
    """How a kind of container is taken apart and put together."""

    children: Callable[[Any], tuple[list[Any], Any]]
    rebuild: Callable[[list[Any], Any], Any]


_CONTAINERS: dict[type, _Container] = {
    tuple: _Container(lambda t: (list(t), None), lambda children, _: tuple(children)),
    list: _Container(lambda t: (list(t), None), lambda children, _: list(children)),
    dict: _Container(
        lambda t: (list(t.values()), list(t)), lambda children, keys: dict(zip(keys, children, strict=True))
    ),
    OrderedDict: _Container(
        lambda t: (list(t.values()), list(t)), lambda children, keys: OrderedDict(zip(keys, children, strict=True))
    ),
}


def register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, **kwargs: Any) -> None:
    """Make a class of your own a container: `flatten_fn(x)` gives (children, context)."""

    def children(tree: Any) -> tuple[list[Any], Any]:
        found, context = flatten_fn(tree)
        return list(found), context

    _CONTAINERS[cls] = _Container(children, unflatten_fn)


_register_pytree_node = register_pytree_node


def _container_of(tree: Any) -> _Container | None:
    found = _CONTAINERS.get(type(tree))
    if found is None and isinstance(tree, tuple) and hasattr(tree, "_fields"):
        make: Any = type(tree)
        return _Container(lambda t: (list(t), None), lambda children, _: make(*children))
    return found


@dataclass(frozen=True)
class TreeSpec:
    """The structure of a tree without its leaves."""

    type: type | None
    context: Any
    children_specs: tuple[TreeSpec, ...]
    container: Any = None

    @property
    def num_leaves(self) -> int:
        return 1 if self.container is None else sum(child.num_leaves for child in self.children_specs)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, ())


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """(leaves from left to right, structure)."""
    leaves: list[Any] = []

    def walk(part: Any) -> TreeSpec:
        container = None if is_leaf is not None and is_leaf(part) else _container_of(part)
        if container is None:
            leaves.append(part)
            return LeafSpec()
        children, context = container.children(part)
        return TreeSpec(type(part), context, tuple([walk(child) for child in children]), container)

    return leaves, walk(tree)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of this structure with these leaves."""
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(given)} leaves for a structure of {treespec.num_leaves}")
    rest = iter(given)

    def build(spec: TreeSpec) -> Any:
        if spec.container is None:
            return next(rest)
        return spec.container.rebuild([build(child) for child in spec.children_specs], spec.context)

    return build(treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree of results; further trees have its structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(rest, is_leaf)[0] for rest in rests]
    return tree_unflatten([func(*parts) for parts in zip(leaves, *others, strict=True)], spec)


def tree_map_only(kinds: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """`tree_map` on leaves of some type; others stay."""
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, kinds) else leaf, tree)


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    return any(map(pred, tree_leaves(tree)))
