"""A training run that can be killed at any moment and started again: `python resumed_run.py FOLDER RESULT`.

It has all that could go astray: shuffling, dropout, batch statistics, draws of the data set (Extempo's, Python's and
NumPy's), a schedule by steps, groups of batches of which the last is not full, metrics, clipping.
"""

import random
import sys
from pathlib import Path

import numpy as np

import extempo as ex
from extempo import metrics, nn, optim
from extempo.data import DataLoader, Dataset
from extempo.nn import functional as F
from extempo.train import Callback, EarlyStopping, KeepBest, Trainer


class Noisy(Dataset):
    def __init__(self):
        generator = ex.Generator().manual_seed(0)
        self.x = ex.randn(44, 6, generator=generator)
        self.y = (self.x[:, 0] > 0).long() + (self.x[:, 1] > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        noise = 0.05 * ex.randn(6) + 0.01 * random.random() + 0.01 * float(np.random.rand())
        return self.x[i] + noise, self.y[i]


class Telling(Callback):
    """Says each step and waits for a line before the next, so that a test knows when to kill; can also just stop."""

    def __init__(self, stop_at=None, waits=False):
        self.stop_at = stop_at
        self.waits = waits

    def on_step(self, trainer, loss):
        if self.waits:
            print("step", trainer.n_steps, flush=True)
            sys.stdin.readline()
        if self.stop_at == trainer.n_steps:
            trainer.stop = "asked to"


def trainer(folder, stop_at=None, waits=False, **options):
    ex.manual_seed(3)
    random.seed(4)
    np.random.seed(5)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    optimizer = optim.AdamW(model.parameters(), lr=0.02)
    return Trainer(
        model,
        F.cross_entropy,
        optimizer,
        [metrics.Accuracy(), metrics.ROCAUC()],
        scheduler=optim.lr_scheduler.CosineAnnealingLR(optimizer, 40),
        scheduler_every="step",
        callbacks=[EarlyStopping(50), KeepBest(folder / "best.ext"), Telling(stop_at, waits)],
        log_dir=folder,
        clip_grad_norm=1.0,
        accumulate=2,
        checkpoint_every=3,
        progress=False,
        **options,
    )


def loaders():
    data = Noisy()
    return DataLoader(data, 4, shuffle=True), DataLoader(data, 22)


def result(made):
    """Everything that must be the same."""
    times = ("seconds", "samples_per_second", "peak_bytes")
    history = [{name: value for name, value in record.items() if name not in times} for record in made.history]
    return {
        "model": made.model.state_dict(),
        "optimizer": made.optimizer.state_dict(),
        "history": history,
        "n_steps": made.n_steps,
        "draw": ex.rand(3),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    made = trainer(folder, waits=True)
    train, valid = loaders()
    made.fit(train, valid, epochs=4, resume=True)
    if made.epoch == 4:
        ex.save(result(made), sys.argv[2])
