"""Trade time for memory: keep a function's inputs, and run it again in backward."""

from __future__ import annotations

from ..autograd.checkpointing import checkpoint, checkpoint_sequential
from ..core.absent_names import explain_absent

__all__ = ["checkpoint", "checkpoint_sequential"]

explain_absent(
    __name__,
    dict.fromkeys(
        (
            "CheckpointFunction",
            "CheckpointPolicy",
            "SelectiveCheckpointContext",
            "create_selective_checkpoint_contexts",
        ),
        "what is kept is not chosen op by op; put `checkpoint` around the parts that are to be computed again",
    ),
)
