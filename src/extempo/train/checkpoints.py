"""Everything that training needs to go on as if it had not stopped, in one file that is whole at every moment.

`save` writes beside the old file and then renames, so a process that is killed leaves the old checkpoint or the new
one, and perhaps an unfinished file, which the next one to read there removes.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.files import remove_abandoned
from ..nn import Module
from ..serialization import load, save
from .history import History
from .positions import random_state, restore_random_state

if TYPE_CHECKING:
    from .trainer import Trainer

_VERSION = 2


def state_of(trainer: Trainer, loaders: tuple[Any, ...]) -> dict[str, Any]:
    """Everything that going on needs. `loaders`: the data, whose generators are part of it."""
    return {
        "model": trainer.model.state_dict(),
        "loss": trainer.loss.state_dict() if isinstance(trainer.loss, Module) else {},
        "optimizer": trainer.optimizer.state_dict(),
        "scheduler": None if trainer.scheduler is None else trainer.scheduler.state_dict(),
        "callbacks": [[type(callback).__name__, callback.state_dict()] for callback in trainer.callbacks],
        "metrics": {name: metric.state_dict() for name, metric in trainer.metrics.items()},
        "history": trainer.history.records,
        "epoch": trainer.epoch,
        "n_steps": trainer.n_steps,
        "so_far": trainer.so_far.state_dict(),
        "random": random_state(*loaders),
    }


def restore(trainer: Trainer, state: dict[str, Any], loaders: tuple[Any, ...]) -> None:
    """Put a trainer where the state was taken.

    Callbacks come first: one that has changed the model's layers can change them again before weights are loaded.
    """
    kept = state["callbacks"]
    if [name for name, _ in kept] != [type(callback).__name__ for callback in trainer.callbacks]:
        warnings.warn(
            f"fit: the checkpoint was written with callbacks {[name for name, _ in kept]}; what it knows of them is "
            "not used",
            stacklevel=4,
        )
    else:
        for callback, (_, of_callback) in zip(trainer.callbacks, kept, strict=True):
            callback.load_state_dict(of_callback)
    trainer.model.load_state_dict(state["model"])
    if isinstance(trainer.loss, Module):
        trainer.loss.load_state_dict(state["loss"])
    trainer.optimizer.load_state_dict(state["optimizer"])
    if trainer.scheduler is not None and state["scheduler"] is not None:
        trainer.scheduler.load_state_dict(state["scheduler"])
    for name, metric in trainer.metrics.items():
        if name in state["metrics"]:
            metric.load_state_dict(state["metrics"][name])
    trainer.history = History(state["history"])
    trainer.epoch, trainer.n_steps = state["epoch"], state["n_steps"]
    trainer.so_far.load_state_dict(state["so_far"])
    restore_random_state(state["random"], *loaders)


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write it, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save({"version": _VERSION, **state}, path)


def read_checkpoint(path: Path) -> dict[str, Any]:
    remove_abandoned(path.parent)
    state: dict[str, Any] = load(path)
    if state.get("version") != _VERSION:
        raise ValueError(f"{path} is a checkpoint of version {state.get('version')}, this is version {_VERSION}")
    return state
