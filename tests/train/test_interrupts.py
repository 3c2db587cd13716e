"""Ctrl-C and SIGTERM during training."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from extempo import nn
from extempo.train import Callback

from .resumable import batches, same, small, weights

pytestmark = pytest.mark.alone


class Interrupting(Callback):
    """Ctrl-C, or another signal, at a step."""

    def __init__(self, at, number=signal.SIGINT):
        self.at, self.number = at, number

    def on_step(self, trainer, loss):
        if trainer.n_steps == self.at:
            signal.raise_signal(self.number)


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
