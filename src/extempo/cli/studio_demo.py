"""What `extempo studio` shows without a script: the model of `extempo demo`, trained until it is stopped."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import extempo as ex
from extempo.cli import demo_task as task

N_EPOCHS = 1_000_000  # until Ctrl-C


def train(seed: int = 0, n_epochs: int = N_EPOCHS) -> None:
    """Train the demo's classifier of sequences, within the studio of the Trainer."""
    ex.manual_seed(seed)
    examples, held_out = task.sequences(seed)
    model = task.Classifier()
    trainer = task.trainer_of(model)
    trainer.studio = True
    batches, valid = task.batches(examples, task.BATCH_SIZE, shuffle=True), task.batches(held_out, len(held_out))
    with ex.studio(model, classes=task.GROUPS, torch=torch_step, name="demo"):
        trainer.fit(batches, valid, epochs=n_epochs)
    if trainer.stop is not None:
        raise KeyboardInterrupt  # fit has ended cleanly, and the command ends here, too


def torch_step() -> Callable[..., Any] | None:
    """The same step in PyTorch, sample by sample; None where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    layers = torch.nn.ModuleDict(
        {
            "embed": torch.nn.Embedding(task.N_WORDS, task.N_FEATURES),
            "cell": torch.nn.GRUCell(task.N_FEATURES, task.N_HIDDEN),
            "score": torch.nn.Linear(task.N_HIDDEN, task.N_CLASSES),
        }
    )
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.02)

    def step(inputs: Any, target: Any) -> Any:
        losses = []
        for words, label in zip(inputs[0], target, strict=True):
            state = torch.zeros(task.N_HIDDEN)
            for word in words:
                state = layers["cell"](layers["embed"](torch.tensor(word)), state)
            losses.append(torch.nn.functional.cross_entropy(layers["score"](state), torch.tensor(int(label))))
        loss: Any = torch.stack(losses).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step
