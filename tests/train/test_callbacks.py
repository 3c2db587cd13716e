"""Callbacks: the order of their calls, stopping early, keeping the best, event files that TensorBoard reads."""

from __future__ import annotations

import math
import shutil
import warnings

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.data import DataLoader, TensorDataset
from extempo.nn import functional as F
from extempo.train import Callback, EarlyStopping, KeepBest, TensorBoard, Trainer
from extempo.train.tensorboard import EventWriter, crc32c


def loader(n_batches=3):
    generator = ex.Generator().manual_seed(0)
    x = ex.randn(n_batches * 4, 3, generator=generator)
    return DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 4)


def trainer(callbacks=(), lr=0.1, **options):
    ex.manual_seed(1)
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=lr)
    return Trainer(model, F.cross_entropy, optimizer, callbacks=callbacks, **{"progress": False, **options})


class Noting(Callback):
    def __init__(self, calls, name=""):
        self.calls, self.name = calls, name

    def on_start(self, trainer):
        self.calls.append(f"{self.name}start")

    def on_step(self, trainer, loss):
        self.calls.append(f"{self.name}step {trainer.n_steps}")

    def on_epoch(self, trainer, record):
        self.calls.append(f"{self.name}epoch {record['epoch']}")

    def on_end(self, trainer):
        self.calls.append(f"{self.name}end")


def test_the_order_of_calls():
    calls = []
    trainer([Noting(calls)], accumulate=2).fit(loader(), epochs=2)
    assert calls == ["start", "step 1", "step 2", "epoch 1", "step 3", "step 4", "epoch 2", "end"]
    calls = []
    trainer([Noting(calls, "a "), Noting(calls, "b ")]).fit(loader(1), epochs=1)
    assert calls == ["a start", "b start", "a step 1", "b step 1", "a epoch 1", "b epoch 1", "a end", "b end"]


def test_the_end_is_told_also_after_an_error():
    class Failing(Callback):
        def on_step(self, trainer, loss):
            raise OSError("no space")

    calls = []
    with pytest.raises(OSError, match="no space"):
        trainer([Noting(calls), Failing()]).fit(loader(), epochs=1)
    assert calls == ["start", "step 1", "end"]


def test_a_step_is_told_the_mean_loss_of_its_batches():
    losses = []

    class Losses(Callback):
        def on_step(self, trainer, loss):
            losses.append(loss)

    trainer([Losses()], lr=0.0, accumulate=3).fit(loader(), epochs=1)
    made = trainer()
    x, y = loader().dataset.tensors
    assert losses == [pytest.approx(F.cross_entropy(made.model(x), y).item())]


class Replaying(Callback):
    """Puts losses of our choice into the records; stands before the one that is tested."""

    def __init__(self, losses):
        self.losses = losses

    def on_epoch(self, trainer, record):
        record["valid_loss"] = self.losses[record["epoch"] - 1]


def test_training_stops_when_a_figure_has_not_improved_for_so_many_epochs(capsys):
    losses = [3.0, 2.0, 2.5, 1.9, 1.95, 1.9, 1.0, 1.0]
    made = trainer([Replaying(losses), EarlyStopping(2)], progress=True)
    assert len(made.fit(loader(), epochs=8)) == 6
    assert made.stop == "valid_loss has not improved for 2 epochs (best 1.9)"
    assert f"stopped: {made.stop}" in capsys.readouterr().out
    made = trainer([Replaying(losses), EarlyStopping(1, min_delta=0.6)])
    assert len(made.fit(loader(), epochs=8)) == 3
    made = trainer([Replaying(losses), EarlyStopping(2, mode="max")])
    assert len(made.fit(loader(), epochs=8)) == 3
    with pytest.raises(ValueError, match="no figure 'valid_f1' in this epoch; there are train_loss"):
        trainer([EarlyStopping(figure="valid_f1")]).fit(loader(), loader(), epochs=1)
    with pytest.raises(ValueError, match="'min' or 'max'"):
        EarlyStopping(mode="least")
    with pytest.raises(ValueError, match="at least 1 epoch"):
        EarlyStopping(0)


def test_nan_is_no_improvement():
    made = trainer([Replaying([2.0, math.nan, math.nan, 1.0]), EarlyStopping(2)])
    assert len(made.fit(loader(), epochs=4)) == 3


def test_the_best_weights_are_kept_and_put_back(tmp_path):
    seen = []

    class Weights(Callback):
        def on_epoch(self, trainer, record):
            seen.append(trainer.model.weight.detach().clone())

    keep = KeepBest(tmp_path / "deep" / "best.ext", restore=True)
    made = trainer([Replaying([2.0, 1.0, 3.0, math.nan]), Weights(), keep])
    made.fit(loader(), epochs=4)
    assert ex.equal(ex.load(tmp_path / "deep" / "best.ext")["weight"], seen[1])
    assert ex.equal(made.model.weight, seen[1])
    assert not ex.equal(made.model.weight, seen[3])
    made = trainer([Replaying([2.0, 1.0]), KeepBest()], log_dir=tmp_path / "log")
    made.fit(loader(), epochs=2)
    assert (tmp_path / "log" / "best.ext").exists()
    with pytest.raises(ValueError, match="log_dir"):
        trainer([KeepBest()]).fit(loader(), loader(), epochs=1)


@pytest.mark.parametrize("follower", [EarlyStopping(), KeepBest("best.ext")])
def test_a_figure_of_validation_without_validation_is_refused_before_anything_is_trained(follower):
    made = trainer([follower])
    with pytest.raises(ValueError, match=r"no data for validation: fit\(train, valid"):
        made.fit(loader(), epochs=1)
    assert made.n_steps == 0


def test_one_callback_needs_no_list_and_a_class_is_none():
    calls = []
    trainer(Noting(calls)).fit(loader(1), epochs=1)
    assert calls == ["start", "step 1", "epoch 1", "end"]
    with pytest.raises(TypeError, match="must be objects of Callback"):
        trainer([EarlyStopping])


# ---- TensorBoard


def test_the_checksum_is_castagnolis():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


def test_a_closed_writer_says_so(tmp_path):
    writer = EventWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="is closed"):
        writer.scalar("a", 1.0, 1)


def read_scalars(folder):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="TensorBoard's own reader is not installed"
    )
    events = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_what_was_written(tmp_path):
    writer = EventWriter(tmp_path)
    long = "a tag of more than 127 bytes " + "x" * 200
    for step, value in enumerate([0.5, -1e30, math.inf, 1e300]):
        writer.scalar("a/b", value, step * 1000)
    writer.scalar(long, 1.0, 2**40)
    writer.close()
    found = read_scalars(tmp_path)
    assert found["a/b"] == [(0, 0.5), (1000, pytest.approx(-1e30)), (2000, math.inf), (3000, math.inf)]
    assert found[long] == [(2**40, 1.0)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_training_is_in_the_event_files_once_also_after_resuming(tmp_path):
    class Stopping(Callback):
        def on_step(self, trainer, loss):
            if trainer.n_steps == 5 and not trainer.resumed:
                raise OSError("the machine went down")

    made = trainer([Stopping()], log_dir=tmp_path, checkpoint_every=2)
    with pytest.raises(OSError, match="went down"):
        made.fit(loader(), epochs=3)
    again = trainer([Stopping()], log_dir=tmp_path, checkpoint_every=2)
    history = again.fit(loader(), loader(), epochs=3, resume=True)
    found = read_scalars(tmp_path)
    assert [step for step, _ in found["step/loss"]] == list(range(1, 10)), "step 5 was made again"
    assert found["epoch/train_loss"] == [(i + 1, pytest.approx(v)) for i, v in enumerate(history["train_loss"])]
    assert [step for step, _ in found["epoch/valid_loss"]] == [2, 3], "the first epoch had no validation"
    assert found["epoch/lr"][0] == (1, pytest.approx(0.1))


def test_the_callback_can_be_used_without_a_log_dir(tmp_path):
    trainer([TensorBoard(tmp_path / "runs")]).fit(loader(), epochs=1)
    (file,) = (tmp_path / "runs").iterdir()
    assert file.name.startswith("events.out.tfevents.")
    assert b"epoch/train_loss" in file.read_bytes()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_whoever_goes_on_from_a_checkpoint_finds_all_steps_until_then(tmp_path):
    class Copying(Callback):
        """What a process that is killed now would leave."""

        def on_step(self, trainer, loss):
            if trainer.n_steps == 5:
                shutil.copytree(tmp_path / "run", tmp_path / "left")

    trainer([Copying()], log_dir=tmp_path / "run", checkpoint_every=2).fit(loader(6), epochs=1)
    steps = [step for step, _ in read_scalars(tmp_path / "left")["step/loss"]]
    assert steps[:4] == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_new_run_in_the_folder_of_another_warns_and_is_shown_alone(tmp_path):
    trainer(log_dir=tmp_path).fit(loader(6), epochs=2)
    with pytest.warns(UserWarning, match=r"writes over the checkpoint of another run.*resume=True"):
        history = trainer(log_dir=tmp_path, lr=0.01).fit(loader(6), epochs=1)
    found = read_scalars(tmp_path)
    assert len(found["step/loss"]) == 6
    assert found["epoch/train_loss"] == [(1, pytest.approx(history["train_loss"][0]))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = trainer(log_dir=tmp_path)
        made.fit(loader(6), epochs=2, resume=True)
        made.fit(loader(6), epochs=3)
    assert [step for step, _ in read_scalars(tmp_path)["step/loss"]] == list(range(1, 19))
