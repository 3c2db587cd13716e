"""Does it pay? `ex.compare` on the model that is being trained, with its own last inputs; everything is put back."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ..comparing import Comparison, compare
from ..core.tensor import Tensor, TensorLike
from ..errors import ArgumentError
from ..func.tree import leaves
from ..train.positions import random_state, restore_random_state

MOST_BATCHES = 8


def compared(watch: Any, make_torch_step: Any) -> Comparison:
    """The comparison of a watched run; with its own loss where a Trainer knows it."""
    step, data, others = _of_trainer(watch) if watch.trainer is not None else _of_loop(watch)
    state = [watch.model, watch.optimizer, *others]
    theirs = make_torch_step() if make_torch_step is not None else None
    return compare(step, data, state=state, torch=theirs, progress=False)


def _of_trainer(watch: Any) -> tuple[Any, list[Any], list[Any]]:
    trainer = watch.trainer
    loaders = trainer.loaders
    before = random_state(*loaders)
    try:
        data = [trainer.split(batch) for batch in islice(iter(loaders[0]), MOST_BATCHES)]
    finally:
        restore_random_state(before, *loaders)

    def training_step(inputs: Any, target: Any) -> Any:
        _, loss = trainer.stepper.forward(inputs, target)
        loss.backward()
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
        return loss

    return training_step, data, [trainer.loss] if hasattr(trainer.loss, "parameters") else []


def _of_loop(watch: Any) -> tuple[Any, list[Any], list[Any]]:
    """Nobody knows the loss of a loop that was written by hand: the mean square of the outputs stands for it."""
    if watch.model is None or not watch.samples:
        raise ArgumentError("compare: no iteration was captured yet, so it is not known what the model is called with")
    model, optimizer = watch.model, watch.optimizer

    def training_step(args: Any, kwargs: Any) -> Any:
        outputs = [_flat(t) for t in leaves(model(*args, **kwargs)) if isinstance(t, Tensor | TensorLike)]
        loss: Any = sum((t * t).mean() for t in outputs if t.dtype.is_floating_point)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return training_step, list(watch.samples), []


def _flat(t: Any) -> Any:
    return t._flat if isinstance(t, TensorLike) else t


def compare_message(name: str, found: Comparison, is_stand_in: bool) -> dict[str, Any]:
    """What a page shows of it."""
    tables = [{"columns": [c.title for c in t.columns], "rows": [list(row) for row in t.rows]} for t in found.tables()]
    notes = found.notes()
    if is_stand_in:
        notes.append("the loop's loss is not known here: the mean square of the model's outputs stands for it")
    return {
        "type": "compare",
        "id": name,
        "status": "done",
        "columns": tables[0]["columns"],
        "rows": tables[0]["rows"],
        "bars": [
            {
                "name": f.name,
                "seconds": f.median_seconds if f.runs else None,
                "bytes": f.peak_bytes if f.runs else None,
                "error": str(f.error or ""),
            }
            for f in found.columns
        ],
        "flexibility": [
            {"name": f.name, "text": f"{f.flexibility}, {f.n_taken}/{len(f.taken)}"} for f in found.columns
        ],
        "word": found.verdict.word,
        "verdict": str(found.verdict),
        "notes": notes,
        "text": str(found),
    }
