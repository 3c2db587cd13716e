"""Event files that TensorBoard reads."""

from __future__ import annotations

import math
import shutil
import warnings

import pytest

from extempo.train import Callback, TensorBoard
from extempo.train.tensorboard import EventWriter, crc32c

from .small_runs import loader, trainer


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
