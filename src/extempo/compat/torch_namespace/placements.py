"""`torch.distributed.tensor`: how a tensor would lie on many processes. Libraries state it while they load."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """One of the three below."""


@dataclass(frozen=True)
class Replicate(Placement):
    """Every process has all of it."""


@dataclass(frozen=True)
class Shard(Placement):
    """Every process has a part, along a dimension."""

    dim: int


@dataclass(frozen=True)
class Partial(Placement):
    """Every process has a summand."""

    reduce_op: str = "sum"
