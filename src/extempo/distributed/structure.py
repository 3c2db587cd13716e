"""What ranks must have in common before they add up gradients: code, and names, shapes and dtypes of parameters.

A digest is compared at every step, so a model that grows or swaps a layer does so everywhere, or the error names the
layer and the rank.
"""

from __future__ import annotations

import zlib
from types import CodeType
from typing import Any, NamedTuple

from ..core.tensor import Tensor
from ..nn.module import Module


class Entry(NamedTuple):
    """One parameter, as all ranks must have it. `generation`: how often another one has taken its name."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    generation: int

    def __str__(self) -> str:
        again = f", replaced {self.generation} times" if self.generation else ""
        return f"{self.name} {self.shape} {self.dtype}{again}"


class Structure:
    """The parameters of a module that are trained, looked at before each step."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.parameters: list[Tensor] = []
        self.entries: list[Entry] = []
        self.digest = 0
        self.look()

    def look(self) -> bool:
        """See what there is now; whether it differs from the last time."""
        found = [p for p in self._module.parameters() if p.requires_grad]
        kept = self.parameters
        if len(found) == len(kept) and all(
            p is q and p._type.shape == entry.shape for p, q, entry in zip(found, kept, self.entries, strict=True)
        ):
            return False
        before = {entry.name: (p, entry.generation) for p, entry in zip(kept, self.entries, strict=True)}
        self.parameters, self.entries = [], []
        for name, p in self._module.named_parameters():
            if p.requires_grad:
                old, generation = before.get(name, (p, 0))
                self.parameters.append(p)
                shape, kind = tuple(p._type.shape), str(p._type.dtype)
                self.entries.append(Entry(name, shape, kind, generation + (old is not p)))
        self.digest = zlib.crc32(repr(self.entries).encode())
        return True


def code_of(module: Module) -> list[tuple[str, int]]:
    """Each class of a module's parts, with a digest of its forward."""
    found = {}
    for part in module.modules():
        cls = type(part)
        code = getattr(cls.forward, "__code__", None)
        found[f"{cls.__module__}.{cls.__qualname__}"] = 0 if code is None else _digest(code)
    return sorted(found.items())


def _digest(code: CodeType) -> int:
    constants = [_digest(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return zlib.crc32(repr((code.co_code, code.co_names, constants)).encode())


def first_difference(descriptions: list[Any], of: str) -> str:
    """Which rank differs from the first one, and where. `of`: what the entries are."""
    for rank, entries in enumerate(descriptions):
        if entries != descriptions[0]:
            for here, there in zip(descriptions[0], entries, strict=False):
                if here != there:
                    return f"rank 0 has {of} {here}, rank {rank} has {there}"
            longer, shorter = (0, rank) if len(descriptions[0]) > len(entries) else (rank, 0)
            extra = descriptions[longer][len(descriptions[shorter])]
            return f"rank {longer} has {of} {extra}, rank {shorter} has not"
    return "all ranks are alike now"
