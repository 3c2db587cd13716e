"""Checkpoints: whole at every moment, and all that going on needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.core.files import replacing
from extempo.nn import functional as F
from extempo.train import Callback, Trainer

from .resumable import batches, same, small, weights

pytestmark = pytest.mark.alone


def test_resuming_without_a_checkpoint_starts_and_without_a_place_is_an_error(tmp_path):
    made = small(tmp_path)
    assert len(made.fit(batches(), epochs=1, resume=True)) == 1
    assert not made.resumed
    with pytest.raises(ValueError, match="checkpoint= or log_dir="):
        small().fit(batches(), epochs=1, resume=True)


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
