"""Train and eval mode of modules, left as they were found."""

from __future__ import annotations

import extempo as ex
from extempo import nn
from extempo.train import Callback

from .small_networks import loader, trainer


class Modes(Callback):
    def __init__(self, seen):
        self.seen = seen

    def on_step(self, trainer, loss):
        self.seen.append(trainer.model[2].training)


def test_modes_of_modules_are_respected():
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))
    model[1].eval()  # statistics that shall stay
    made = trainer(model)
    before = model[1].running_mean.clone()
    made.fit(loader(), loader(16), epochs=2)
    assert ex.equal(model[1].running_mean, before)
    assert [m.training for m in model] == [True, False, True, True]
    model.eval()
    seen = []
    made.callbacks = [Modes(seen)]
    made.fit(loader(), epochs=3)
    assert all(seen)
    assert not model.training


def test_modules_are_left_in_the_mode_they_were_in(capsys):
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 3))
    for training, of_dropout in ((True, False), (False, True)):
        made = trainer(model)
        model.train(training)
        model[2].train(of_dropout)
        modes = [module.training for module in model.modules()]
        for look in (
            lambda made=made: made.fit(loader(), loader(), epochs=1),
            lambda made=made: made.evaluate(loader()),
            lambda made=made: made.predict(loader()),
            lambda made=made: made.find_lr(loader(), steps=3),
            lambda made=made: made.overfit(next(iter(loader())), steps=2),
        ):
            look()
            assert [module.training for module in model.modules()] == modes
