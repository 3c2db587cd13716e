"""Small trainings that stop and go on."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import time
from pathlib import Path

import extempo as ex
from extempo import nn, optim
from extempo.data import DataLoader, TensorDataset
from extempo.nn import functional as F
from extempo.train import Trainer


def batches(n=6):
    generator = ex.Generator().manual_seed(0)
    x = ex.randn(n * 4, 3, generator=generator)
    return DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 4, shuffle=True)


def same(a, b, path="result"):
    if isinstance(a, ex.Tensor):
        assert a.dtype == b.dtype, path
        assert a.numpy().tobytes() == b.numpy().tobytes(), path
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            same(a[key], b[key], f"{path}[{key!r}]")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{path}[{i}]")
    else:
        assert a == b, path


def small(folder=None, callbacks=(), model=None, **options):
    ex.manual_seed(1)
    model = model or nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.1), nn.Linear(8, 2))
    return Trainer(
        model,
        F.cross_entropy,
        optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        callbacks=callbacks,
        checkpoint=None if folder is None else folder / "c.ext",
        progress=False,
        **options,
    )


def weights(trainer):
    return [p.detach().clone() for p in trainer.model.parameters()]


SCRIPT = Path(__file__).with_name("resumed_run.py")


N_STEPS = 4 * 6  # 11 batches in groups of two: the last one is not full


def load_script():
    spec = importlib.util.spec_from_file_location("resumed_run", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run = load_script()


def start(folder, out):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, str(SCRIPT), str(folder), str(out)], text=True, **pipes)


def let(process, n_steps):
    """Let it make so many steps, and begin what comes after."""
    for _ in range(n_steps):
        line = process.stdout.readline()
        assert line.startswith("step") or not line, line
        if line:
            process.stdin.write("\n")
            process.stdin.flush()


def run_whole(folder):
    made = run.trainer(folder)
    made.fit(*run.loaders(), epochs=4)
    assert made.n_steps == N_STEPS
    return run.result(made)


def run_and_kill(draws, folder, most_kills=4):
    """Kill a run at moments that are drawn, and go on, until it is done; how often it was killed, and its result."""
    out, n_kills = folder / "out.ext", 0
    while not out.exists():
        process = start(folder / "run", out)
        let(process, draws.randint(1, 7) if n_kills < most_kills else N_STEPS)
        if n_kills < most_kills:
            time.sleep(draws.random() * 0.01)  # also in the middle of steps, of saving and of validation
            process.kill()
            n_kills += 1
        _, errors = process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGKILL), errors
    return n_kills, ex.load(out)
