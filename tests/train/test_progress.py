"""The bar: on a terminal, after two seconds, gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from extempo.train import Callback, progress

from .small_networks import loader, trainer


def test_a_bar_is_shown_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    shown = {}
    for kind in (io.StringIO, Terminal):
        stream = kind()
        monkeypatch.setattr(sys, "stderr", stream)
        trainer(progress=True).fit(loader(), loader(), epochs=1)
        shown[kind] = stream.getvalue()
    assert shown[io.StringIO] == ""
    assert "epoch 1" in shown[Terminal]
    assert "samples/s" in shown[Terminal]


def test_the_bar_is_gone_when_a_step_raises(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    class Failing(Callback):
        def on_step(self, trainer, loss):
            if trainer.n_steps == 3:
                raise OSError("disk full")

    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    stopped = []
    monkeypatch.setattr(progress.Bar, "__exit__", lambda bar, *raised: stopped.append(raised[0]))
    with pytest.raises(OSError, match="disk full"):
        trainer(progress=True, callbacks=[Failing()]).fit(loader(), epochs=1)
    assert stopped == [OSError]


def test_a_bar_says_what_is_being_done(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.Bar("comparing", None, True) as bar:
        bar.say("warming up", 7)
        bar.advance(1)
        bar.say("timing")
        bar.advance(1)
        shown = bar._progress.tasks[0]
    assert (shown.description, shown.total, shown.completed) == ("timing", 7, 2)
