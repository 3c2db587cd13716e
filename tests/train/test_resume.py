"""What is interrupted and resumed ends with the same bits as what was not."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.core.files import replacing
from extempo.data import DataLoader, IterableDataset, TensorDataset
from extempo.nn import functional as F
from extempo.train import Callback, EarlyStopping, Trainer

pytestmark = pytest.mark.alone

SCRIPT = Path(__file__).with_name("resumed_run.py")
N_STEPS = 4 * 6  # 11 batches in groups of two: the last one is not full


def load_script():
    spec = importlib.util.spec_from_file_location("resumed_run", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run = load_script()


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


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return run_whole(tmp_path_factory.mktemp("whole"))


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


class Interrupting(Callback):
    """Ctrl-C, or another signal, at a step."""

    def __init__(self, at, number=signal.SIGINT):
        self.at, self.number = at, number

    def on_step(self, trainer, loss):
        if trainer.n_steps == self.at:
            signal.raise_signal(self.number)


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


def batches(n=6):
    generator = ex.Generator().manual_seed(0)
    x = ex.randn(n * 4, 3, generator=generator)
    return DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 4, shuffle=True)


def weights(trainer):
    return [p.detach().clone() for p in trainer.model.parameters()]


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


def test_the_handler_of_ctrl_c_is_put_back_and_a_second_one_stops_at_once(capsys):
    before = signal.getsignal(signal.SIGINT)
    small(callbacks=[Interrupting(2)]).fit(batches(), epochs=1)
    assert signal.getsignal(signal.SIGINT) is before
    assert "stopped in epoch 1: interrupted\n" in capsys.readouterr().out
    made = small(callbacks=[Interrupting(2), Interrupting(2)])
    with pytest.raises(KeyboardInterrupt):
        made.fit(batches(), epochs=1)
    assert signal.getsignal(signal.SIGINT) is before
    made.callbacks.clear()
    assert len(made.fit(batches(), epochs=1)) == 1, "model and optimizer are usable"


def test_ctrl_c_while_fit_checks_itself_stops_before_anything_is_trained(tmp_path, capsys):
    class Asking(nn.Linear):
        asked = False

        def forward(self, x):
            if not self.asked:
                self.asked = True
                signal.raise_signal(signal.SIGINT)
            return super().forward(x)

    made = small(tmp_path, model=Asking(3, 2))
    before = weights(made)
    made.fit(batches(), epochs=2)
    assert made.stop == "interrupted"
    assert made.n_steps == 0
    same(weights(made), before)
    assert len(made.fit(batches(), epochs=2)) == 2


def test_a_process_that_ignores_ctrl_c_goes_on_ignoring_it():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert len(small(callbacks=[Interrupting(2)]).fit(batches(), epochs=1)) == 1
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_importing_sets_no_handlers_and_fit_puts_them_back(capsys):
    told = []

    def own(number, frame):
        told.append(number)

    code = "import signal; old = signal.getsignal(15); import extempo.train; assert signal.getsignal(15) is old"
    subprocess.run([sys.executable, "-c", code], check=True)
    before = signal.signal(signal.SIGTERM, own)
    try:
        made = small(callbacks=[Interrupting(2, signal.SIGTERM)])
        made.fit(batches(), epochs=1)
        assert made.n_steps == 2
        assert signal.getsignal(signal.SIGTERM) is own
        with pytest.raises(SystemExit):
            small(callbacks=[Interrupting(2, signal.SIGTERM)] * 2).fit(batches(), epochs=1)
        assert signal.getsignal(signal.SIGTERM) is own
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert len(small(callbacks=[Interrupting(2, signal.SIGTERM)]).fit(batches(), epochs=1)) == 1
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert told == []
    assert "stopped in epoch 1: asked to end by SIGTERM\n" in capsys.readouterr().out


def test_a_handler_that_python_did_not_set_stays(monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert len(small(callbacks=[Interrupting(2, signal.SIGTERM)]).fit(batches(), epochs=1)) == 1
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_is_forked_during_fit_ends_at_sigterm():
    class Forking(Callback):
        def on_step(self, trainer, loss):
            if trainer.n_steps == 1:
                if not (child := os.fork()):
                    signal.raise_signal(signal.SIGTERM)
                    os._exit(0)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM

    made = small(callbacks=[Forking()])
    made.fit(batches(), epochs=1)
    assert made.n_steps == 6


def test_fit_in_another_thread_sets_no_handlers():
    found = []

    class Looking(Callback):
        def on_step(self, trainer, loss):
            found.append((signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)))

    before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    thread = threading.Thread(target=small(callbacks=[Looking()]).fit, args=(batches(),))
    thread.start()
    thread.join(60)
    assert set(found) == {before}


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


def test_resuming_without_a_checkpoint_starts_and_without_a_place_is_an_error(tmp_path):
    made = small(tmp_path)
    assert len(made.fit(batches(), epochs=1, resume=True)) == 1
    assert not made.resumed
    with pytest.raises(ValueError, match="checkpoint= or log_dir="):
        small().fit(batches(), epochs=1, resume=True)


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


def test_unfinished_files_of_killed_processes_are_removed_on_resuming(tmp_path):
    made = small(tmp_path)
    made.fit(batches(), epochs=1)
    code = (
        "import os, sys; from extempo.core.files import replacing\nwith replacing(sys.argv[1]): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(made.checkpoint)], check=False)
    assert len(os.listdir(tmp_path)) == 2
    small(tmp_path).fit(batches(), epochs=2, resume=True)
    assert os.listdir(tmp_path) == ["c.ext"]


def test_the_unfinished_file_of_a_process_that_is_writing_is_left_alone_on_resuming(tmp_path):
    made = small(tmp_path)
    made.fit(batches(), epochs=1)
    with replacing(str(made.checkpoint)) as file:
        small(tmp_path).fit(batches(), epochs=2, resume=True)
        file.write(b"new")
    assert made.checkpoint.read_bytes() == b"new"


@pytest.mark.parametrize("place", ["log_dir", "checkpoint"])
def test_a_second_fit_in_the_same_place_is_refused_while_the_first_one_runs(place, tmp_path):
    def made(callbacks=()):
        ex.manual_seed(1)
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        where = tmp_path if place == "log_dir" else tmp_path / "c.ext"
        return Trainer(model, F.cross_entropy, optimizer, callbacks=callbacks, progress=False, **{place: where})

    class Second(Callback):
        def on_step(self, trainer, loss):
            with pytest.raises(ex.errors.ExtempoError, match=rf"fit: {place}=.* is in use by process {os.getpid()} on"):
                made().fit(batches(), epochs=1, resume=True)

    first = made([Second()])
    first.fit(batches(), epochs=1)
    assert first.n_steps == 6
    again = made([Second()])
    again.fit(batches(), epochs=2, resume=True)
    assert again.n_steps == 12
    assert not list(tmp_path.glob("*.lock")) + list(tmp_path.glob(".*.lock"))


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


def test_a_callback_that_changes_the_model_can_do_so_again_before_weights_are_loaded(tmp_path):
    class Growing(Callback):
        def __init__(self, model):
            self.model, self.n_grown = model, 0

        def grow(self):
            nn.utils.widen(self.model[0], 12, into=[self.model[1]])
            self.n_grown += 1

        def on_epoch(self, trainer, record):
            if record["epoch"] == 1:
                self.grow()

        def state_dict(self):
            return {"n_grown": self.n_grown}

        def load_state_dict(self, state):
            while self.n_grown < state["n_grown"]:
                self.grow()

    def grown(folder=None):
        ex.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 2))
        return small(folder, [Growing(model)], model)

    whole = grown()
    before = weights(whole)
    whole.fit(batches(), epochs=3)
    assert whole.model[0].weight.shape == (12, 3)
    assert {id(p) for p in whole.model.parameters()} == {id(p) for p in whole.optimizer.param_groups[0]["params"]}
    assert all(ex.isfinite(p).all() for p in whole.model.parameters())
    assert not ex.equal(whole.model[0].weight[:8], before[0])
    grown(tmp_path).fit(batches(), epochs=2)
    again = grown(tmp_path)
    again.fit(batches(), epochs=3, resume=True)
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
