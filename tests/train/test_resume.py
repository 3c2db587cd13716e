"""What is interrupted and resumed ends with the same bits as what was not."""

from __future__ import annotations

import json
import random
import signal
import threading
import time

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.data import DataLoader, IterableDataset
from extempo.nn import functional as F
from extempo.train import Callback, EarlyStopping, Trainer

from .resumable import N_STEPS, batches, let, run, run_and_kill, run_whole, same, small, start, weights

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return run_whole(tmp_path_factory.mktemp("whole"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(seed, tmp_path, uninterrupted):
    n_kills, result = run_and_kill(random.Random(seed), tmp_path)
    assert n_kills >= 3
    same(result, uninterrupted)
    told = json.loads((tmp_path / "run" / "history.json").read_text())
    assert [record["train_loss"] for record in told] == [record["train_loss"] for record in uninterrupted["history"]]


@pytest.mark.slow
def test_ctrl_c_saves_and_stops_cleanly_and_goes_on_with_the_same_bits(tmp_path, uninterrupted):
    out = tmp_path / "out.ext"
    process = start(tmp_path / "run", out)
    let(process, 7)
    assert process.stdout.readline() == "step 8\n"
    process.send_signal(signal.SIGINT)
    told, errors = process.communicate("\n", timeout=120)
    assert process.returncode == 0, errors
    assert told == "stopped in epoch 2: interrupted; fit(..., resume=True) goes on from the checkpoint\n"
    assert "Traceback" not in errors
    assert not out.exists()
    process = start(tmp_path / "run", out)
    assert process.stdout.readline() == "step 9\n"
    told, errors = process.communicate("\n" * N_STEPS, timeout=120)
    assert process.returncode == 0, errors
    same(ex.load(out), uninterrupted)


@pytest.mark.slow
def test_sigterm_saves_and_stops_cleanly_and_goes_on_with_the_same_bits(tmp_path, uninterrupted):
    out = tmp_path / "out.ext"
    process = start(tmp_path / "run", out)
    let(process, 7)
    assert process.stdout.readline() == "step 8\n"
    process.terminate()
    told, errors = process.communicate("\n", timeout=120)
    assert process.returncode == 0, errors
    assert told.startswith("stopped in epoch 2: asked to end by SIGTERM; fit(..., resume=True) goes on")
    process = start(tmp_path / "run", out)
    assert process.stdout.readline() == "step 9\n"
    told, errors = process.communicate("\n" * N_STEPS, timeout=120)
    assert process.returncode == 0, errors
    same(ex.load(out), uninterrupted)


def test_a_second_sigterm_ends_the_process_at_once(tmp_path):
    process = start(tmp_path / "run", tmp_path / "out.ext")
    assert process.stdout.readline() == "step 1\n"
    process.terminate()
    while process.poll() is None:  # a second one that comes before the first was heard is the same to the system
        time.sleep(0.01)
        process.terminate()
    process.communicate(timeout=120)
    assert process.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)  # a third one may come while it ends


@pytest.mark.parametrize("step", [1, 5, 6, 7, 13, N_STEPS])
def test_stopping_at_a_step_and_resuming_gives_the_same_bits(step, tmp_path, uninterrupted, capsys):
    made = run.trainer(tmp_path, stop_at=step)
    made.fit(*run.loaders(), epochs=4)
    assert made.n_steps == step
    ex.manual_seed(99)  # whatever happens in between
    again = run.trainer(tmp_path)
    again.fit(*run.loaders(), epochs=4, resume=True)
    same(run.result(again), uninterrupted)


def test_compiled_and_eager_runs_have_the_same_bits(tmp_path, uninterrupted):
    made = run.trainer(tmp_path, compile=False)
    made.fit(*run.loaders(), epochs=4)
    same(run.result(made), uninterrupted)


def test_an_interrupt_during_validation_stops_there_and_validation_is_made_up_for(tmp_path, capsys):
    class InValidation:
        def __init__(self, data, at):
            self.data, self.at = data, at

        def __iter__(self):
            for i, batch in enumerate(self.data):
                if i == self.at:
                    signal.raise_signal(signal.SIGINT)
                yield batch

    whole = small()
    whole.fit(batches(), batches(3), epochs=2)
    made = small(tmp_path)
    made.fit(batches(), InValidation(batches(3), 1), epochs=2)
    assert made.epoch == 0
    assert made.n_steps == 6
    again = small(tmp_path)
    again.fit(batches(), batches(3), epochs=2, resume=True)
    same(weights(again), weights(whole))
    assert again.history["valid_loss"] == whole.history["valid_loss"]


def test_fit_in_another_thread_is_stopped_by_setting_stop(tmp_path):
    going = threading.Event()

    class Slow(Callback):
        def on_step(self, trainer, loss):
            going.set()
            time.sleep(0.005)

    made = small(tmp_path, callbacks=[Slow()])
    thread = threading.Thread(target=made.fit, args=(batches(), None, 1000))
    thread.start()
    assert going.wait(30)
    made.stop = "enough"
    thread.join(30)
    assert not thread.is_alive()
    assert made.checkpoint.exists()
    n_steps = made.n_steps
    again = small(tmp_path, callbacks=[Slow()])
    epochs = n_steps // 6 + 1
    again.fit(batches(), epochs=epochs, resume=True)
    whole = small()
    whole.fit(batches(), epochs=epochs)
    same(weights(again), weights(whole))


def test_a_run_that_was_stopped_early_stays_stopped_when_resumed(tmp_path):
    def go():
        made = small(tmp_path, callbacks=[EarlyStopping(1, "train_loss", mode="max")])
        made.fit(batches(), epochs=9, resume=True)
        return made

    first = go()
    assert 1 < first.epoch < 9
    assert go().n_steps == first.n_steps
    n_epochs = first.epoch
    first.fit(batches(), epochs=9)
    assert first.epoch > n_epochs, "who calls fit again wants to go on"


def test_a_stream_with_a_shuffle_buffer_goes_on_where_it_was(tmp_path):
    class Stream(IterableDataset):
        """Draws from the same stream as the model's dropout, and keeps a buffer that depends on all draws so far."""

        def __iter__(self):
            generator = ex.Generator().manual_seed(0)
            buffer = []
            for _ in range(40):
                x = ex.randn(3, generator=generator)
                buffer.append((x, (x[0] > 0).long()))
                if len(buffer) > 8:
                    yield buffer.pop(int(ex.randint(8, ()).item()))

    class Stopping(Callback):
        def on_step(self, trainer, loss):
            if trainer.n_steps == 5:
                trainer.stop = "here"

    whole = small()
    whole.fit(DataLoader(Stream(), 4), epochs=2)
    made = small(tmp_path, callbacks=[Stopping()])
    made.fit(DataLoader(Stream(), 4), epochs=2)
    again = small(tmp_path, callbacks=[Stopping()])
    again.fit(DataLoader(Stream(), 4), epochs=2, resume=True)
    assert again.n_steps == whole.n_steps
    same(weights(again), weights(whole))


def test_generators_of_loaders_and_samplers_are_part_of_the_checkpoint(tmp_path):
    def loader(seed):
        data = batches().dataset
        sampler = ex.utils.data.RandomSampler(data, generator=ex.Generator().manual_seed(seed))
        return DataLoader(data, 4, sampler=sampler)

    whole = small()
    whole.fit(loader(7), epochs=3)
    small(tmp_path).fit(loader(7), epochs=1)
    again = small(tmp_path)
    again.fit(loader(1234), epochs=3, resume=True)
    same(weights(again), weights(whole))


SCHEDULES = {
    "step": lambda o: optim.lr_scheduler.StepLR(o, 2),
    "lambda": lambda o: optim.lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "one cycle": lambda o: optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=100),
    "cyclic": lambda o: optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=5),
    "sequential": lambda o: optim.lr_scheduler.SequentialLR(
        o, [optim.lr_scheduler.ConstantLR(o, 0.1, 3), optim.lr_scheduler.ExponentialLR(o, 0.9)], milestones=[4]
    ),
    "chained": lambda o: optim.lr_scheduler.ChainedScheduler(
        [optim.lr_scheduler.ConstantLR(o, 0.1, 3), optim.lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "plateau": lambda o: optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=0.5),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("every", ["epoch", "step"])
def test_every_kind_of_schedule_goes_on(name, every, tmp_path):
    def made(folder=None):
        ex.manual_seed(1)
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return Trainer(
            model,
            F.cross_entropy,
            optimizer,
            scheduler=SCHEDULES[name](optimizer),
            scheduler_every=every,
            checkpoint=None if folder is None else folder / "c.ext",
            progress=False,
        )

    whole = made()
    whole.fit(batches(), epochs=4)
    made(tmp_path).fit(batches(), epochs=2)
    again = made(tmp_path)
    again.fit(batches(), epochs=4, resume=True)
    same(weights(again), weights(whole))
    assert again.history["lr"] == whole.history["lr"]


def test_loaders_with_workers_go_on_in_the_middle_of_an_epoch(tmp_path):
    class Stopping(Callback):
        def on_step(self, trainer, loss):
            if trainer.n_steps == 8 and not trainer.resumed:
                trainer.stop = "here"

    def working():
        return DataLoader(run.Noisy(), 4, shuffle=True, num_workers=2)

    def made(folder=None):
        ex.manual_seed(1)
        return small(folder, [Stopping()] if folder else [], nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.1)))

    whole = made()
    whole.fit(working(), epochs=2)
    made(tmp_path).fit(working(), epochs=2)
    again = made(tmp_path)
    again.fit(working(), epochs=2, resume=True)
    assert again.n_steps == whole.n_steps == 22
    same(weights(again), weights(whole))


def test_models_of_one_sample_go_on_with_the_same_bits_where_batches_pay(tmp_path):
    class Stopping(Callback):
        def on_step(self, trainer, loss):
            if trainer.n_steps == 4 and not trainer.resumed:
                trainer.stop = "here"

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.drop, self.out = nn.GRUCell(3, 8), nn.Dropout(0.2), nn.Linear(8, 2)

        def forward(self, x, n):
            h = ex.zeros(8)
            for _ in range(n):
                h = self.drop(self.cell(x, h))
            return self.out(h)

    draws = random.Random(0)
    data = [
        (
            ex.randn(32, 3, generator=ex.Generator().manual_seed(i)),
            [draws.randint(1, 6) for _ in range(32)],
            [0, 1] * 16,
        )
        for i in range(3)
    ]

    def made(folder=None):
        ex.manual_seed(1)
        return small(folder, [Stopping()] if folder else [], Chain(), batch=True)

    whole = made()
    whole.fit(data, epochs=3)
    made(tmp_path).fit(data, epochs=3)
    again = made(tmp_path)
    again.fit(data, epochs=3, resume=True)
    assert again.n_steps == 9
    same(weights(again), weights(whole))


def test_a_loss_that_learns_goes_on_with_the_same_bits(tmp_path):
    class Tempered(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(ex.ones(()))
            self.register_buffer("seen", ex.zeros(()))

        def forward(self, output, target):
            self.seen += 1
            return F.cross_entropy(output * self.scale, target)

    def made(folder=None):
        ex.manual_seed(1)
        model, loss = nn.Linear(3, 2), Tempered()
        optimizer = optim.Adam([*model.parameters(), *loss.parameters()], lr=0.05)
        return Trainer(model, loss, optimizer, checkpoint=folder and folder / "c.ext", progress=False)

    whole = made()
    whole.fit(batches(), epochs=3)
    made(tmp_path).fit(batches(), epochs=1)
    again = made(tmp_path)
    again.fit(batches(), epochs=3, resume=True)
    same(again.loss.state_dict(), whole.loss.state_dict())
    assert again.loss.seen.item() == 18
    same(weights(again), weights(whole))
