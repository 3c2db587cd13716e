"""How a tensor would lie on many processes."""

from __future__ import annotations

from extempo.compat.torch_namespace.placements import Partial, Placement, Replicate, Shard


def test_placements_are_values():
    assert Shard(0) == Shard(dim=0) != Shard(1)
    assert {Replicate(), Replicate()} == {Replicate()}
    assert isinstance(Partial(), Placement)
