"""Saving: whole or not at all, and readable by others."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import extempo as ex
from extempo.errors import ExtempoError
from extempo.serialization import load, save, saving

from .folders import names_in


@pytest.mark.parametrize("broken", ["os.fsync", "os.replace", "extempo.serialization.saving._write"])
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
def test_a_failure_while_saving_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, broken, error):
    path = tmp_path / "model.ex"
    save(ex.ones(3), path)

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(broken, fail)
    with pytest.raises(type(error)):
        save(ex.zeros(3), path)
    monkeypatch.undo()
    assert names_in(tmp_path) == ["model.ex"]
    assert load(path).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_a_process_killed_in_the_middle_of_saving_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.ex"
    save(ex.ones(3), path)
    code = (
        "import sys, time, extempo as ex\n"
        "from extempo.serialization import saving\n"
        "write = saving._write\n"
        "def slow(file, *rest):\n"
        "    write(file, *rest)\n"
        "    file.flush()\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
        "saving._write = slow\n"
        "saving.save([ex.zeros(1000), ex.zeros(1000)], sys.argv[1])\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "writing\n"
        child.kill()
    assert load(path).tolist() == [1.0, 1.0, 1.0]
    assert len(names_in(tmp_path)) == 2, "the half-written file has a name of its own"
    save(ex.zeros(1), path)
    assert load(path).tolist() == [0.0]


def test_a_tensor_that_another_thread_changes_while_it_is_saved_is_an_error(tmp_path, monkeypatch):
    x, path = ex.ones(3), tmp_path / "a.ex"
    save(1, path)
    write = saving._write

    def meddle(file, name, array, expected):
        x.add_(1.0)
        write(file, name, array, expected)

    monkeypatch.setattr(saving, "_write", meddle)
    with pytest.raises(ExtempoError, match="changed by another thread"):
        save({"w": x}, path)
    assert load(path) == 1
