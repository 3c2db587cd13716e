"""PyTorch's names for the tables of a module's hooks, `module._forward_hooks` and its fellows.

Libraries count hooks there, take them away and put them back. Each is a view of what the module has: a table from
handle ids to hooks, to be read and changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any


class HookTable(MutableMapping[int, Any]):
    """The hooks of one kind. `options` is what stands beside a hook that is put here without a word on it."""

    def __init__(self, entries: dict[int, Any], options: tuple[bool, ...]) -> None:
        self._entries = entries
        self._options = options

    def __getitem__(self, key: int) -> Any:
        return self._entries[key][0] if self._options else self._entries[key]

    def __setitem__(self, key: int, hook: Any) -> None:
        self._entries[key] = (hook, *self._options) if self._options else hook

    def __delitem__(self, key: int) -> None:
        del self._entries[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)})"


class HookTableName:
    """The attribute of a module that is such a table; assigning to it replaces its hooks."""

    def __init__(self, hooks: str, kind: str, *options: bool) -> None:
        self._hooks = hooks
        self._kind = kind
        self._options = options

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        if module is None:
            return self
        return HookTable(getattr(getattr(module, self._hooks)(), self._kind), self._options)

    def __set__(self, module: Any, hooks: Mapping[int, Any]) -> None:
        table, hooks = self.__get__(module), dict(hooks)
        table.clear()
        table.update(hooks)


class HookTables:
    """The part of Module that has these names."""

    _forward_pre_hooks = HookTableName("_own_call_hooks", "forward_pre", False)
    _forward_hooks = HookTableName("_own_call_hooks", "forward", False, False)
    _backward_pre_hooks = HookTableName("_own_call_hooks", "backward_pre")
    _backward_hooks = HookTableName("_own_call_hooks", "backward")
    _state_dict_pre_hooks = HookTableName("_own_state_hooks", "save_pre")
    _state_dict_hooks = HookTableName("_own_state_hooks", "save_post")
    _load_state_dict_pre_hooks = HookTableName("_own_state_hooks", "load_pre")
    _load_state_dict_post_hooks = HookTableName("_own_state_hooks", "load_post")
