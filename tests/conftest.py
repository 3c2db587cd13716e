"""Which tests run in how many processes, and the fixtures that all of them may use.

Kernels that tests compile are kept apart from the user's own, and shared by the processes of one run.
"""

import gc
import getpass
import os
import signal
import tempfile
from pathlib import Path

import pytest

from . import selections

# Plans are made at once and not when LLVM finds the time, so that tests can count them.
os.environ.setdefault("EXTEMPO_COMPILE_WAIT", "1")
os.environ.setdefault("EXTEMPO_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"extempo-tests-{getpass.getuser()}"))
# A shell starts what runs in the background with Ctrl-C ignored; tests interrupt themselves.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the number of processes
def pytest_cmdline_main(config):
    option = config.option
    if hasattr(config, "workerinput"):
        return
    if option.markexpr == selections.QUICK and selections.are_named_one_by_one(config.args):
        option.markexpr = ""
    is_watched = option.usepdb or option.capture == "no" or option.collectonly
    if getattr(option, "numprocesses", 0) is None and not is_watched:  # xdist is there and -n was not given
        option.numprocesses = selections.n_processes(config.args, option.markexpr, selections.n_usable_cores()) or None
    if getattr(option, "numprocesses", None):
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # with more, the processes fight over the cores
            os.environ.setdefault(name, "1")


def pytest_report_header(config):
    if config.option.markexpr == selections.QUICK and config.args == config.getini("testpaths"):
        return [
            "about 5 minutes on two cores, without what is slow or must run alone;",
            "pytest -m tiny: 20 seconds; pytest -m '': everything, in one process, half an hour",
        ]
    return []


def pytest_ignore_collect(collection_path, config):
    """Of `pytest -m tiny`, most of the time would go into collecting the rest."""
    if config.option.markexpr == "tiny" and collection_path.suffix == ".py":
        name = collection_path.relative_to(config.rootpath).as_posix()
        return True if all(entry.partition("::")[0] != name for entry in selections.TINY) else None
    return None


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config, items):
    config.stash[selections.N_COLLECTED] = len(items)
    selections.mark(items)


@pytest.fixture(autouse=True)
def no_callbacks_of_the_collector(request):
    """Libraries of other tests register some; CPython forgets an interrupt that arrives in one, and a test waits on."""
    if request.node.get_closest_marker("alone") is None:
        yield
        return
    registered = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = registered


@pytest.fixture
def no_kernels_on_disk(tmp_path, monkeypatch):
    """Begin with an empty directory of kernels; returns the cache on it."""
    disk = pytest.importorskip("extempo.backends.llvm.ir.disk")
    cache = disk.DiskCache(tmp_path / "kernels")
    monkeypatch.setitem(disk._DEFAULT, "cache", cache)
    return cache


@pytest.fixture
def always_planned():
    """Functions that are compiled meanwhile are traced in every call and planned when something is met again."""
    policy = pytest.importorskip("extempo.tracing.policy")
    before = policy.choose(policy.AlwaysPlan)
    yield
    policy.choose(before)


@pytest.fixture
def never_planned():
    """Functions that are compiled meanwhile are traced in every call and run op by op."""
    policy = pytest.importorskip("extempo.tracing.policy")
    before = policy.choose(policy.NeverPlan)
    yield
    policy.choose(before)


class FakeClock:
    """Goes on by `tick` whenever it is looked at, and by whatever a test adds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tick = 1.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


@pytest.fixture
def fake_clock(monkeypatch):
    """A clock for comparisons: no test looks at the real one."""
    clock = FakeClock()
    monkeypatch.setattr("extempo.comparing.measuring.clock", clock)
    return clock


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the collector need not look at it again, which took half of many tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def modules_are_seen():
    """What was collected is frozen, and the collector does not know who refers to what is."""
    gc.unfreeze()
    yield
    gc.freeze()
