"""Files that other processes touch, kill the writer of, or leave no room for."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import extempo as ex
from extempo.core import files
from extempo.core.files import Claim, open_regular, remove_abandoned, replacing, write_text
from extempo.errors import DiskFullError, ExtempoError
from extempo.train.tensorboard import EventWriter

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork, signals and pipes")


def started(code: str, *args: object) -> subprocess.Popen[str]:
    """A process that runs the code; it says "ready" when it is where the test wants it."""
    command = [sys.executable, "-c", "import os, sys, time, signal\nfrom extempo.core.files import *\n" + code]
    process = subprocess.Popen([*command, *map(str, args)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=60)


WRITING = """
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("ready", flush=True)
    signal.pause()
"""


def test_an_unfinished_file_goes_when_its_writer_is_gone_and_not_before(tmp_path):
    path = tmp_path / "a.ex"
    path.write_bytes(b"old")
    process = started(WRITING, path)
    try:
        remove_abandoned(tmp_path)
        assert len(os.listdir(tmp_path)) == 2
    finally:
        ended(process)
    assert len(os.listdir(tmp_path)) == 2
    remove_abandoned(tmp_path)
    assert os.listdir(tmp_path) == ["a.ex"]
    assert path.read_bytes() == b"old"


@posix
def test_a_writer_whose_number_says_nothing_here_is_known_by_its_lock(tmp_path, monkeypatch):
    process = started(WRITING, tmp_path / "a.ex")
    monkeypatch.setattr(files, "_started", lambda process: None)  # as in another container
    try:
        remove_abandoned(tmp_path)
        assert len(os.listdir(tmp_path)) == 1
    finally:
        ended(process)
    remove_abandoned(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_later_process_of_the_same_number_is_another_one(tmp_path):
    left = tmp_path / f".a.ex.{os.getpid()}-1.0123456789ab.tmp"
    left.write_bytes(b"half")
    remove_abandoned(tmp_path)
    assert not left.exists()


def test_files_of_others_are_never_removed(tmp_path):
    names = [".a.ex.tmp", "a.ex", ".a.ex.1-1.xyz.tmp", "a.ex.1-1.0123456789ab.tmp"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    remove_abandoned(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(names)


def test_a_name_of_any_length_that_the_system_allows_can_be_replaced(tmp_path):
    path = tmp_path / ("é" * 120 + ".ex")
    ex.save(1, path)
    ex.save(2, path)
    assert ex.load(path) == 2
    assert os.listdir(tmp_path) == [path.name]


# ---- claims


def test_a_claim_ends_with_its_process_however_that_ends(tmp_path):
    code = (
        'Claim(__import__("pathlib").Path(sys.argv[1]), "here").__enter__(); print("ready", flush=True); signal.pause()'
    )
    process = started(code, tmp_path / ".lock")
    try:
        with pytest.raises(ExtempoError, match=f"here is in use by process {process.pid} on .*a place of its own"):
            Claim(tmp_path / ".lock", "here").__enter__()
    finally:
        ended(process)
    with Claim(tmp_path / ".lock", "here"):
        pass
    assert os.listdir(tmp_path) == []


@posix
def test_the_children_of_a_killed_process_do_not_keep_its_claim(tmp_path):
    code = """
from pathlib import Path
Claim(Path(sys.argv[1]), "here").__enter__()
reads, writes = os.pipe()
if not (child := os.fork()):
    os.write(writes, b"x")
    signal.pause()
os.read(reads, 1)  # it runs, and has given the claim up by then
print("ready", flush=True)
print(child, flush=True)
signal.pause()
"""
    process = started(code, tmp_path / ".lock")
    child = int(process.stdout.readline())
    process.kill()
    process.wait(60)
    try:
        with Claim(tmp_path / ".lock", "here"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate(timeout=60)


@posix
def test_a_forked_child_that_leaves_a_claim_does_not_end_it(tmp_path):
    with Claim(tmp_path / ".lock", "here") as claim:
        if not (child := os.fork()):
            claim.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert (tmp_path / ".lock").exists()
        with pytest.raises(ExtempoError, match="in use"):
            Claim(tmp_path / ".lock", "here").__enter__()


def test_many_threads_that_claim_one_place_have_it_one_at_a_time(tmp_path):
    inside, n_met, n_refused = [], [], []

    def run():
        for _ in range(50):
            try:
                with Claim(tmp_path / ".lock", "here"):
                    inside.append(1)
                    n_met.append(len(inside))
                    inside.pop()
            except ExtempoError:
                n_refused.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(n_met) == {1}
    assert len(n_met) + len(n_refused) == 200


# ---- what is no file


@posix
def test_a_pipe_or_device_is_told_from_a_file_without_waiting(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_RDWR):
        with pytest.raises(OSError, match=r"a named pipe, not a file|No such device"):
            open_regular(pipe, flags)
    with pytest.raises(OSError, match="a device, not a file"):
        open_regular("/dev/null")
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


@posix
def test_loading_a_pipe_is_refused_with_what_to_do_instead(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for mmap in (False, True):
        with pytest.raises(ExtempoError, match=r"a named pipe, not a file.*io\.BytesIO"):
            ex.load(pipe, mmap=mmap)
    with pytest.raises(ExtempoError, match="a device, not a file"):
        ex.load("/dev/zero")
    with pytest.raises(IsADirectoryError):
        ex.load(tmp_path)


# ---- a full disk

LIMITED = """
import resource, sys
import extempo as ex
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
"""


@posix
def test_a_full_disk_is_named_and_the_old_file_survives(tmp_path):
    path = tmp_path / "a.ex"
    ex.save({"w": ex.ones(3)}, path)
    code = LIMITED + "ex.save({'w': ex.zeros(100_000)}, sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"extempo.errors.DiskFullError: {path} could not be written: File too large" in done.stderr
    assert ex.load(path)["w"].tolist() == [1.0, 1.0, 1.0]
    assert os.listdir(tmp_path) == ["a.ex"]


@posix
def test_training_on_a_full_disk_names_the_checkpoint_and_goes_on_from_the_last_one(tmp_path):
    code = """
from extempo import nn, optim
from extempo.train import Trainer
model = nn.Linear(200, 200)
trainer = Trainer(model, nn.MSELoss(), optim.Adam(model.parameters()), log_dir=sys.argv[1], progress=False)
data = [(ex.ones(2, 200), ex.ones(2, 200))]
trainer.fit(data, epochs=1, resume=True)
"""
    command = [sys.executable, "-c"]
    begin = "import sys\nimport extempo as ex\n" + code
    subprocess.run([*command, begin, str(tmp_path)], check=True)
    before = (tmp_path / "checkpoint.ext").read_bytes()
    more = LIMITED + code.replace("epochs=1", "epochs=2")
    done = subprocess.run([*command, more, str(tmp_path)], capture_output=True, text=True, check=False)
    assert f"DiskFullError: {tmp_path}/checkpoint.ext could not be written" in done.stderr
    assert (tmp_path / "checkpoint.ext").read_bytes() == before
    assert not [name for name in os.listdir(tmp_path) if name.endswith((".tmp", ".lock"))]
    subprocess.run([*command, begin.replace("epochs=1", "epochs=2"), str(tmp_path)], check=True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_names_the_event_file(tmp_path):
    writer = EventWriter(tmp_path)
    writer._file.close()
    writer._file = os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb")
    writer.scalar("loss", 1.0, 1)
    with pytest.raises(DiskFullError, match=r"events\.out\.tfevents.* could not be written: No space left on device"):
        writer.flush()
    with pytest.raises(DiskFullError, match=r"events\.out\.tfevents.*make room"):
        writer.close()
    writer.close()


def test_text_goes_through_links_and_keeps_permissions(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    write_text(target, "old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    write_text(Path(os.devnull), "nothing")


def test_an_error_while_writing_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "a"
    write_text(path, "old")

    def write():
        with replacing(str(path)) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]
