"""`torch.utils.weak`: dictionaries whose keys are objects that may go away, told apart by identity."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any


class WeakIdRef:
    """A reference that does not keep its object, and is equal to others of the same object."""

    __slots__ = ("_id", "_ref")

    def __init__(self, key: Any, callback: Any = None) -> None:
        self._ref = weakref.ref(key)
        self._id = id(key)

    def __call__(self) -> Any:
        return self._ref()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdRef):
            return False
        mine, others = self(), other()
        return mine is others if mine is not None and others is not None else self is other


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """Values by the identity of their keys. Entries of keys that are gone are dropped when the next one is set."""

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.ref_type = ref_type
        self.data: dict[WeakIdRef, Any] = {}
        self.update(dict or {})

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.data[self.ref_type(key)]
        except (KeyError, TypeError):  # one that cannot be referred to is not here
            raise KeyError(key) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        for ref in [ref for ref in self.data if ref() is None]:
            del self.data[ref]
        self.data[self.ref_type(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __iter__(self) -> Iterator[Any]:
        return (key for ref in list(self.data) if (key := ref()) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)}>"


WeakTensorRef, WeakTensorKeyDictionary = WeakIdRef, WeakIdKeyDictionary
