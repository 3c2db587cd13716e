"""`torch.nn.modules.utils`: one number or a tuple of n, for layers of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """What makes a tuple of n of one value; an iterable becomes a tuple as it is."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Each entry n times, the last one first: the order of `F.pad`."""
    return tuple(x for x in reversed(t) for _ in range(n))


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """`device`, `dtype` and `memory_format` among a layer's arguments, also those inside a `factory_kwargs` dict."""
    given = dict(kwargs or {})
    made = dict(given.pop("factory_kwargs", {}))
    for name, value in given.items():
        if name not in ("device", "dtype", "memory_format"):
            raise TypeError(f"factory_kwargs: expected device, dtype and memory_format, got {name!r}")
        if name in made:
            raise TypeError(f"factory_kwargs: {name!r} is given twice, alone and inside factory_kwargs")
        made[name] = value
    return made


def _list_with_default(out_size: list[int | None] | int, defaults: list[int]) -> list[int] | int:
    """Sizes, with those of `defaults` for None."""
    if isinstance(out_size, int):
        return out_size
    return [
        default if size is None else size for size, default in zip(out_size, defaults[-len(out_size) :], strict=True)
    ]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix such as `module.` from the keys of a state_dict, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in [key for key in metadata if key == prefix.rstrip(".") or key.startswith(prefix)]:
        metadata[key.removeprefix(prefix.rstrip(".")).removeprefix(".")] = metadata.pop(key)
