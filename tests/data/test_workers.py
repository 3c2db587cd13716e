"""Workers that fail, die or are interrupted: a clear error, soon, and nobody left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import extempo as ex
from extempo.data import DataLoader, Dataset, IterableDataset

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(sys.platform != "linux", reason="classes of a test module reach workers by fork only"),
]


@pytest.fixture(autouse=True)
def _nobody_is_left_behind():
    before = set(multiprocessing.active_children())
    yield
    deadline = time.monotonic() + 10
    while left := set(multiprocessing.active_children()) - before:
        gc.collect()  # an exception that a test caught can keep an epoch alive
        assert time.monotonic() < deadline, left
        time.sleep(0.02)  # the thread that ends an epoch's workers may be about to take note of their end


class Does(Dataset):
    """Calls `action` at sample 5."""

    def __init__(self, action, size=20):
        self.action = action
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.action() if index == 5 else index


def raise_(error):
    raise error


class Needy(Exception):
    """Can be written by pickle, but not read."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


@pytest.mark.parametrize(
    "error", [ValueError("bad sample"), KeyError("bad sample"), ex.errors.ShapeError("bad sample")]
)
def test_an_exception_keeps_its_class_and_brings_the_workers_traceback(error):
    epoch = iter(DataLoader(Does(lambda: raise_(error)), batch_size=2, num_workers=2))
    assert [next(epoch).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(type(error)) as caught:
        next(epoch)
    assert type(caught.value) is type(error)
    text = str(caught.value)
    assert "bad sample" in text
    assert "raised in DataLoader worker 0" in text
    assert "\n" in text
    assert "in raise_" in text
    assert not multiprocessing.active_children()
    with pytest.raises(ex.errors.ExtempoError, match="start another one"):
        next(epoch)


def test_an_exception_with_its_own_text_keeps_its_attributes():
    error = FileNotFoundError(2, "No such file", "x.png")
    with pytest.raises(FileNotFoundError) as caught:
        list(DataLoader(Does(lambda: raise_(error)), num_workers=1))
    assert caught.value.filename == "x.png"
    assert "raised in DataLoader worker 0" in "".join(caught.value.__notes__)


def test_an_exception_that_cannot_travel_comes_as_its_class_or_as_text():
    class Local(Exception):
        pass

    # Needy cannot be found by its name from here either: test modules are not importable.
    for kind in (lambda: raise_(Needy(1, 2)), lambda: raise_(Local("local"))):
        with pytest.raises((Needy, ex.errors.ExtempoError), match="raised in DataLoader worker 0"):
            list(DataLoader(Does(kind), num_workers=1))


def test_what_cannot_be_pickled_is_an_error_not_a_hang():
    with pytest.raises(Exception, match="raised in DataLoader worker 0"):
        list(DataLoader(Does(lambda: lambda: 1), batch_size=None, num_workers=1))


def test_collate_worker_init_and_iter_errors_arrive_too():
    class Broken(IterableDataset):
        def __iter__(self):
            raise RuntimeError("broken iter")

    for loader, message in (
        (DataLoader(range(4), num_workers=1, collate_fn=lambda batch: raise_(RuntimeError("no batch"))), "no batch"),
        (DataLoader(range(4), num_workers=1, worker_init_fn=lambda w: raise_(RuntimeError("no init"))), "no init"),
        (DataLoader(Broken(), num_workers=1), "broken iter"),
    ):
        with pytest.raises(RuntimeError, match=message):
            list(loader)


def test_a_sampler_that_fails_ends_the_workers():
    def indices():
        yield from range(7)
        raise OSError("no more indices")

    with pytest.raises(OSError, match="no more indices"):
        list(DataLoader(range(100), sampler=indices(), num_workers=2))


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_killed_worker_is_reported_with_its_signal(name):
    started = time.monotonic()
    with pytest.raises(ex.errors.ExtempoError, match=rf"worker 1 \(pid \d+\) was killed by {name}"):
        list(DataLoader(Does(lambda: os.kill(os.getpid(), getattr(signal, name))), num_workers=2))
    assert time.monotonic() - started < 5


def test_a_worker_that_exits_is_reported_with_its_code():
    with pytest.raises(ex.errors.ExtempoError, match="exit code 3"):
        list(DataLoader(Does(lambda: os._exit(3)), num_workers=2))


def listen(worker):
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("action", [lambda: raise_(KeyboardInterrupt("stop")), interrupt])
def test_an_interrupt_in_a_worker_is_one_in_the_main_process(action):
    with pytest.raises(KeyboardInterrupt, match=r"raised in DataLoader worker \d \(pid \d+\)"):
        list(DataLoader(Does(action), batch_size=2, num_workers=2, worker_init_fn=listen))


def test_an_interrupt_of_a_worker_that_waits_for_work_is_named():
    loader = DataLoader(Does(lambda: 0), batch_size=10, num_workers=1, worker_init_fn=listen, persistent_workers=True)
    epoch = iter(loader)
    next(epoch), next(epoch)
    worker = epoch._pool.workers[0]
    os.kill(worker.process.pid, signal.SIGINT)
    worker.process.join(60)
    assert worker.process.exitcode == 130
    assert str(epoch._pool._death(0)).startswith(f"DataLoader: worker 0 (pid {worker.process.pid}) was interrupted")
    assert len(list(loader)) == 2, "another one takes its place"


def test_a_persistent_worker_that_died_between_epochs_is_replaced():
    loader = DataLoader(range(4), batch_size=2, num_workers=2, persistent_workers=True)
    assert len(list(loader)) == 2
    victim = multiprocessing.active_children()[0]
    victim.kill()
    victim.join()
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
    del loader


def test_a_timeout_is_an_error_and_ends_a_worker_that_hangs():
    started = time.monotonic()
    with pytest.raises(ex.errors.ExtempoError, match=r"within timeout=0\.3 seconds"):
        list(DataLoader(Does(lambda: time.sleep(60)), num_workers=1, timeout=0.3))
    assert time.monotonic() - started < 10


def test_an_epoch_that_is_dropped_ends_its_workers():
    epoch = iter(DataLoader(range(1000), num_workers=2))
    next(epoch)
    workers = [process.pid for process in multiprocessing.active_children()]
    assert len(workers) == 2
    del epoch
    assert wait_until_gone(workers, 10) == []


def test_persistent_workers_end_with_their_loader():
    loader = DataLoader(range(4), num_workers=2, persistent_workers=True)
    list(loader)
    workers = [process.pid for process in multiprocessing.active_children()]
    assert len(workers) == 2
    del loader
    assert wait_until_gone(workers, 10) == []


def test_workers_cannot_have_workers():
    with pytest.raises(ex.errors.ExtempoError, match="cannot have workers of its own"):
        list(DataLoader(Does(lambda: list(DataLoader(range(3), num_workers=1))), num_workers=1))


def test_what_spawn_cannot_pickle_says_so():
    with pytest.raises(Exception) as caught:  # noqa: PT011 # the class depends on the version of Python
        list(DataLoader(Does(lambda: 1), num_workers=1, multiprocessing_context="spawn"))
    assert any("must be picklable" in note for note in caught.value.__notes__)


def test_many_batches_that_are_kept_take_no_file_descriptors():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    loader = DataLoader([ex.zeros(2000)] * 200, batch_size=2, num_workers=2)
    epoch = iter(loader)
    kept = [next(epoch) for _ in range(10)]
    before = descriptors()
    kept += list(epoch)
    assert len(kept) == 100
    assert descriptors() <= before


def test_batches_that_grow_and_shrink_reuse_their_memory():
    sizes = [10, 2000, 500_000, 3000, 1_000_000, 10, 700_000] * 4
    loader = DataLoader([ex.full((size,), float(size)) for size in sizes], batch_size=None, num_workers=2)
    for size, sample in zip(sizes, loader, strict=True):
        assert sample.shape == (size,)
        assert (sample == size).all()


# ---- whole programs

PROGRAM = """
import os, signal, sys, time
import extempo as ex
from extempo.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 10_000
    def __getitem__(self, index):
        time.sleep({item})
        return ex.full((300,), float(index))

if __name__ == "__main__":
    loader = DataLoader(Slow(), batch_size=2, num_workers=2, multiprocessing_context={method!r}, {options})
    for number, batch in enumerate(loader):
        if number == 1:
            print(*[child.pid for child in __import__("multiprocessing").active_children()], flush=True)
        {body}
"""


def running(pid):
    """Whether the process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pids, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(map(running, pids)):
        time.sleep(0.02)
    return [pid for pid in pids if running(pid)]


@pytest.fixture
def started(tmp_path):
    """Starts PROGRAM and returns it with the ids of its workers."""
    programs = []

    def start(method="fork", item="0.01", body="pass", options=""):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(PROGRAM).format(method=method, item=item, body=body, options=options))
        program = subprocess.Popen(
            [sys.executable, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        programs.append(program)
        workers = [int(pid) for pid in program.stdout.readline().split()]
        assert len(workers) == 2
        return program, workers

    yield start
    for program in programs:
        program.kill()
        program.wait()
        program.stdout.close()
        program.stderr.close()


@pytest.mark.parametrize(
    ("method", "body", "terminal"),
    [("fork", "pass", True), ("fork", "time.sleep(0.05)", False), ("spawn", "pass", True)],
    ids=["waiting", "training", "spawn"],
)
def test_ctrl_c_ends_the_program_and_its_workers(started, method, body, terminal):
    program, workers = started(method, body=body)
    began = time.monotonic()
    if terminal:  # which sends it to every process of the program
        os.killpg(program.pid, signal.SIGINT)
    else:
        program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=20)
    assert time.monotonic() - began < 8
    assert program.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1
    assert wait_until_gone(workers, 2) == []


def test_ctrl_c_does_not_wait_for_a_sample_that_takes_forever(started):
    program, workers = started(item="0.01 if index < 4 else 60")
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=20)
    assert program.returncode == -signal.SIGINT
    assert wait_until_gone(workers, 2) == []


def test_a_program_that_simply_ends_leaves_no_workers(started):
    program, workers = started(body="\n        if number == 1: break", options="persistent_workers=True")
    _, errors = program.communicate(timeout=20)
    assert (program.returncode, errors) == (0, "")
    assert wait_until_gone(workers, 2) == []


def test_workers_of_a_program_that_is_killed_end_too(started):
    program, workers = started(item="0.01 if index < 4 else 60")
    program.kill()
    program.wait()
    assert wait_until_gone(workers, 3) == []


def test_a_script_without_a_main_guard_is_told_so(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "from extempo.data import DataLoader\n"
        "list(DataLoader(range(4), num_workers=1, multiprocessing_context='spawn'))\n"
    )
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "must guard its own code with `if __name__ == '__main__':`" in ended.stderr
