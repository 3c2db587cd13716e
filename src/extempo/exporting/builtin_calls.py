"""Python's own functions on traced values: what `range`, `len`, `sum`, `max`, `math.sqrt` and their like mean there.

Rewritten source calls every function by `Control.call`, which asks here first. For plain values each does what Python
does. `len` of a traced tensor is a symbolic size, `range` and `zip` of such are `loop_items`, `any` of traced values is
a tensor, and a function of a size is part of the size's expression.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any

from .. import ops
from ..core.graph import describe_where
from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..core.types import int64
from ..errors import ExportError
from ..func.tree import leaves
from ..symbolic.sym_int import SymInt, depends
from .loop_items import LoopItems, StackedList, SymbolicRange, larger, smaller, tree_of, zipped
from .sizes import FUNCTIONS, SizeLog
from .tracer import as_tensor, decision


class BuiltinCalls:
    """The stand-ins of one trace. `find` gives the one for a function, if it has one."""

    def __init__(self, is_traced: Callable[[Any], bool], list_of: Callable[..., Any], joins_nothing: bool) -> None:
        """joins_nothing: at sizes where a list has no elements, stacking it gives none; otherwise it is an error."""
        self._is_traced = is_traced
        self._joins_nothing = joins_nothing
        self._list_of = list_of
        self._stand_ins: dict[Any, Callable[..., Any]] = {
            fn: getattr(self, f"_{name}") for name, fn in vars(builtins).items() if hasattr(BuiltinCalls, f"_{name}")
        }
        self._stand_ins |= {ops.stack: self._stack, ops.cat: self._cat, ops.unbind: self._unbind}
        self._stand_ins |= {ops.concat: self._cat, ops.concatenate: self._cat}
        self._stand_ins |= {ops.tensor: self._tensor, ops.as_tensor: self._tensor}
        self._stand_ins |= {getattr(math, name): self._math for name in FUNCTIONS if hasattr(math, name)}

    def find(self, fn: Any) -> Callable[..., Any] | None:
        """What to call in place of a function: with the function, then its arguments."""
        owner: Any = getattr(fn, "__self__", None)
        if isinstance(owner, Tensor):
            if self._is_traced(owner) and fn.__name__ == "item":
                return lambda fn: owner.reshape(())
            return (lambda fn, *args, **kwargs: self._unbind(fn, owner, *args, **kwargs)) if (
                fn.__name__ == "unbind"
            ) else None  # fmt: skip
        try:
            return self._stand_ins.get(fn)
        except TypeError:  # it has no hash
            return None

    # ---- what is gone along

    def _range(self, fn: Any, *bounds: Any) -> Any:
        plain = [b if type(b) is SymInt or self._is_traced(b) else int(b) for b in bounds]
        if all(type(b) is int for b in plain):
            return range(*plain)
        start, stop, step = (0, plain[0], 1) if len(plain) == 1 else (*plain, 1)[:3]
        return SymbolicRange(start, stop, step)

    def _len(self, fn: Any, value: Any) -> Any:
        if isinstance(value, Tensor) and value.ndim:
            return value.shape[0]
        if isinstance(value, SymbolicRange) and not value.is_counted:
            return value.tensor().shape[0]
        return value.length() if isinstance(value, StackedList) else fn(value)

    def _enumerate(self, fn: Any, value: Any, start: Any = 0) -> Any:
        tree = tree_of(value)
        if tree is None:
            return fn(value, start)
        return LoopItems((ops.arange(leaves(tree)[0].shape[0]) + start, tree))

    def _zip(self, fn: Any, *values: Any, strict: bool = False) -> Any:
        trees = [tree_of(v) for v in values]
        if all(tree is None for tree in trees):
            return fn(*values, strict=strict)
        for i, value in enumerate(values):
            if trees[i] is None:
                trees[i] = ops.tensor(list(value)) if isinstance(value, range) else value
            if any(not isinstance(x, Tensor) or not x.ndim for x in leaves(trees[i])):
                raise ExportError(
                    f"{describe_where(user_line())}: zip of a tensor whose length stays open with a "
                    f"{type(value).__name__}; zip tensors, ranges, and lists that a loop of that length made"
                )
        return zipped(trees, strict)

    def _reversed(self, fn: Any, value: Any) -> Any:
        tree = tree_of(value)
        if tree is None:
            return fn(value)
        return StackedList([], tree).reversed() if not isinstance(tree, Tensor) else tree.flip(0)

    def _list(self, fn: Any, *args: Any) -> Any:
        tree = tree_of(args[0]) if args else None
        return fn(*args) if tree is None else StackedList([], tree)

    _tuple = _list

    def _map(self, fn: Any, function: Any, *values: Any) -> Any:
        if all(tree_of(v) is None for v in values):
            return fn(function, *values)
        if len(values) == 1:
            return self._list_of(function, values[0])
        return self._list_of(lambda item: function(*item), self._zip(zip, *values))

    def _unbind(self, fn: Any, value: Any, dim: int = 0) -> Any:
        if not isinstance(value, Tensor) or not value.ndim or not depends((value._type.shape[dim],)):
            return value.unbind(dim)
        return StackedList([], value.movedim(dim, 0))

    # ---- numbers

    def _int(self, fn: Any, *args: Any) -> Any:
        if args and type(args[0]) is SymInt:
            return args[0] if type(args[0].value) is int else _of_size("int", args[0])
        return args[0].reshape(()).to(int64) if args and self._is_traced(args[0]) else fn(*args)

    def _float(self, fn: Any, *args: Any) -> Any:
        if args and type(args[0]) is SymInt:
            return args[0] if type(args[0].value) is float else args[0] * 1.0
        return args[0].reshape(()).float() if args and self._is_traced(args[0]) else fn(*args)

    def _bool(self, fn: Any, *args: Any) -> Any:
        return decision(args[0]) if args and self._is_traced(args[0]) else fn(*args)

    def _abs(self, fn: Any, value: Any) -> Any:
        return larger(value, 0 - value) if type(value) is SymInt else fn(value)

    def _round(self, fn: Any, value: Any, *digits: Any) -> Any:
        if type(value) is SymInt and not digits:
            return value if type(value.value) is int else _of_size("round", value)
        return fn(value, *digits)

    def _math(self, fn: Any, value: Any, *others: Any) -> Any:
        if type(value) is SymInt and not others:
            return _of_size(fn.__name__, value)
        if self._is_traced(value) and not others:
            made: Any = getattr(ops, fn.__name__)(value.reshape(()).float())
            return made.to(int64) if fn.__name__ in ("floor", "ceil") else made
        return fn(value, *others)

    # ---- of many values

    def _sum(self, fn: Any, items: Any, start: Any = 0) -> Any:
        tree = tree_of(items)
        if tree is None:
            return fn(items, start)
        return self._one_tensor(tree, "sum").sum(0) + start

    def _any(self, fn: Any, items: Any) -> Any:
        return self._reduced(fn, items, lambda a, b: a | b, lambda x: x.any())

    def _all(self, fn: Any, items: Any) -> Any:
        return self._reduced(fn, items, lambda a, b: a & b, lambda x: x.all())

    def _reduced(self, fn: Any, items: Any, join: Callable[..., Any], whole: Callable[[Tensor], Any]) -> Any:
        tree = tree_of(items)
        if tree is not None:
            return whole(self._one_tensor(tree, fn.__name__))
        values = list(items)
        if not any(map(self._is_traced, values)):
            return fn(values)
        return functools.reduce(join, [decision(as_tensor(v)) for v in values])

    def _min(self, fn: Any, *values: Any, **options: Any) -> Any:
        return self._extreme(fn, values, options, smaller, ops.minimum, lambda x: x.amin(0))

    def _max(self, fn: Any, *values: Any, **options: Any) -> Any:
        return self._extreme(fn, values, options, larger, ops.maximum, lambda x: x.amax(0))

    def _extreme(
        self,
        fn: Any,
        values: tuple[Any, ...],
        options: dict[str, Any],
        of_sizes: Callable[..., Any],
        of_tensors: Callable[..., Any],
        whole: Callable[[Tensor], Any],
    ) -> Any:
        tree = tree_of(values[0]) if len(values) == 1 else None
        if tree is not None and not options:
            return whole(self._one_tensor(tree, fn.__name__))
        many = list(values[0]) if len(values) == 1 else list(values)
        if options or not many or not any(type(v) is SymInt or self._is_traced(v) for v in many):
            return fn(many, **options)
        if any(isinstance(v, Tensor) for v in many):
            return functools.reduce(of_tensors, [as_tensor(v) for v in many])
        return functools.reduce(of_sizes, many)

    def _one_tensor(self, tree: Any, name: str) -> Tensor:
        if not isinstance(tree, Tensor):
            raise ExportError(f"{describe_where(user_line())}: {name} of tuples; take their parts first")
        return tree

    # ---- tensors of many

    def _stack(self, fn: Any, tensors: Any, dim: int = 0, **options: Any) -> Any:
        if not isinstance(tensors, StackedList) or self._refuses(tensors):
            return fn(tensors, dim, **options)
        whole = tensors.stacked()
        return whole if dim == 0 else whole.movedim(0, dim)

    def _cat(self, fn: Any, tensors: Any, dim: int = 0, **options: Any) -> Any:
        if not isinstance(tensors, StackedList) or self._refuses(tensors):
            return fn(tensors, dim, **options)
        return tensors.joined(dim)

    def _refuses(self, tensors: StackedList) -> bool:
        """Whether it is an error to join what is in a list: there is nothing."""
        return not self._joins_nothing and bool(tensors.length() == 0)

    def _tensor(self, fn: Any, data: Any, **options: Any) -> Any:
        """`ex.tensor([x.sum().item(), 2.0])`: the traced numbers in it stay what they are."""
        if isinstance(data, StackedList):
            made = _columns(data.tree())
        elif isinstance(data, list | tuple) and any(map(self._is_open, leaves(data))):
            made = self._built(data)
        elif type(data) is SymInt:
            made = as_tensor(data)
        else:
            return fn(data, **options)
        return made.to(options["dtype"]) if options.get("dtype") is not None else made

    def _is_open(self, value: Any) -> bool:
        return type(value) is SymInt or self._is_traced(value)

    def _built(self, data: Any) -> Tensor:
        if not isinstance(data, list | tuple):
            return as_tensor(data)
        parts = [self._built(part) for part in data]
        common = functools.reduce(ops.promote_types, [p.dtype for p in parts])
        return ops.stack([p.to(common) for p in parts])


def _columns(tree: Any) -> Tensor:
    """Rows of lists of numbers as one tensor."""
    return tree if isinstance(tree, Tensor) else ops.stack([_columns(part) for part in tree], 1)


def _of_size(name: str, value: SymInt) -> Any:
    """A function of a size, as a part of the program's sizes."""
    log: Any = value.notes
    if not isinstance(log, SizeLog):
        return FUNCTIONS[name](value)
    return log.function(name, value)
