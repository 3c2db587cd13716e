"""Trade time for memory: keep a function's inputs, and run it again in backward."""

from __future__ import annotations

from ..autograd.checkpointing import checkpoint, checkpoint_sequential

__all__ = ["checkpoint", "checkpoint_sequential"]
