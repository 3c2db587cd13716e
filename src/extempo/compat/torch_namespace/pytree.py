"""`torch.utils._pytree`: tuples, lists, dicts and named tuples as trees of leaves."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

PyTree = Context = Any


@dataclass(frozen=True)
class SequenceKey:
    """The place of a child in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclass(frozen=True)
class MappingKey:
    """The place of a child in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """The place of a child in an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


class _Container(NamedTuple):
    """How a kind of container is taken apart and put together."""

    children: Callable[[Any], tuple[list[Any], Any]]
    rebuild: Callable[[list[Any], Any], Any]


def _list_flatten(tree: list[Any]) -> tuple[list[Any], Any]:
    return list(tree), None


def _list_unflatten(children: Iterable[Any], context: Any) -> list[Any]:
    return list(children)


def _dict_flatten(tree: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(tree.values()), list(tree)


def _list_flatten_with_keys(tree: list[Any]) -> tuple[list[tuple[Any, Any]], Any]:
    return [(SequenceKey(i), child) for i, child in enumerate(tree)], None


def _dict_flatten_with_keys(tree: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Any]:
    return [(MappingKey(key), child) for key, child in tree.items()], list(tree)


def _dict_unflatten(children: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, children, strict=True))


SUPPORTED_NODES: dict[type, _Container] = {
    tuple: _Container(lambda t: (list(t), None), lambda children, _: tuple(children)),
    list: _Container(_list_flatten, _list_unflatten),
    dict: _Container(_dict_flatten, _dict_unflatten),
    deque: _Container(lambda t: (list(t), t.maxlen), lambda children, maxlen: deque(children, maxlen=maxlen)),
    defaultdict: _Container(
        lambda t: (list(t.values()), (t.default_factory, list(t))),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
    OrderedDict: _Container(_dict_flatten, lambda children, keys: OrderedDict(zip(keys, children, strict=True))),
}


def register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, **kwargs: Any) -> None:
    """Make a class of your own a container: `flatten_fn(x)` gives (children, context)."""

    def children(tree: Any) -> tuple[list[Any], Any]:
        found, context = flatten_fn(tree)
        return list(found), context

    SUPPORTED_NODES[cls] = _Container(children, unflatten_fn)


_register_pytree_node = register_pytree_node


def _container_of(tree: Any) -> _Container | None:
    found = SUPPORTED_NODES.get(type(tree))
    if found is None and isinstance(tree, tuple) and hasattr(tree, "_fields"):
        make: Any = type(tree)
        return _Container(lambda t: (list(t), None), lambda children, _: make(*children))
    return found


def _get_node_type(tree: Any) -> Any:
    """The type that a tree is taken apart as."""
    return namedtuple if isinstance(tree, tuple) and hasattr(tree, "_fields") else type(tree)


def is_namedtuple_class(cls: Any) -> bool:
    """Whether it is a class of named tuples."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def is_namedtuple_instance(obj: Any) -> bool:
    return is_namedtuple_class(type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether it is a class of C's named tuples, which PyTorch's functions return; those of Extempo are Python's."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields")


def is_structseq_instance(obj: Any) -> bool:
    return is_structseq_class(type(obj))


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether a tree is one leaf and no container."""
    return (is_leaf is not None and is_leaf(tree)) or _container_of(tree) is None


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


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves from left to right."""
    return iter(tree_leaves(tree, is_leaf))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Call a function for every leaf, and return the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


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
