"""The pool of blocks, and that native code neither leaks nor drops references."""

import gc
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")


import extempo as ex
from extempo.backends.llvm.calls.memory import HELD_LIMIT
from extempo.backends.selection import native
from extempo.nn import functional as F

from ..apart import run_apart

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def in_use():
    gc.collect()
    return ex.backends.stats()["memory"]["bytes_in_use"]


def test_results_are_aligned_and_go_back_to_the_pool():
    x = ex.randn(3, 5)
    before = in_use()
    y = x * x
    assert y.numpy().ctypes.data % 64 == 0
    assert in_use() > before
    del y
    assert in_use() == before


def test_memory_seen_by_numpy_is_not_reused():
    x = ex.full((1000,), 3.0)
    seen = (x * x).numpy()
    for _ in range(5):
        x * 7.0
    assert (seen == 9.0).all()


def test_a_view_keeps_its_base():
    part = (ex.ones(100) * 2.0)[10:20]
    for _ in range(5):
        ex.ones(100) * 5.0
    assert (part.numpy() == 2.0).all()


def test_blocks_of_one_size_are_reused():
    x = ex.randn(777)
    (x + x).sum()
    before = ex.backends.stats()["memory"]["blocks_allocated"]
    for _ in range(50):
        (x + x).sum()
    assert ex.backends.stats()["memory"]["blocks_allocated"] - before <= 2


def test_a_large_block_takes_the_place_of_older_ones():
    """Else the largest, such as the memory of a plan, would be had from the system anew each time."""
    native().memory.clear()
    kept = [ex.zeros(6 << 20) for _ in range(4)]  # together nearly all that may be free
    del kept
    for _ in range(2):
        ex.zeros(20 << 20)
    memory = ex.backends.stats()["memory"]
    for _ in range(20):
        ex.zeros(20 << 20)
    assert ex.backends.stats()["memory"]["blocks_allocated"] == memory["blocks_allocated"]
    assert memory["free_bytes"] <= HELD_LIMIT
    native().memory.clear()


def test_the_pool_is_bounded():
    kept = [ex.zeros(1 << 20) for _ in range(100)]
    del kept
    gc.collect()
    assert ex.backends.stats()["memory"]["free_bytes"] <= 1 << 27
    native().memory.clear()
    assert ex.backends.stats()["memory"]["free_bytes"] == 0


@pytest.mark.parametrize("n", [0, 1, 3, 16, 17, 1000, 100_003])
def test_new_memory_is_aligned(n):
    assert ex.empty(n).data_ptr() % 64 == 0


def everything(w, x, labels):
    h = F.linear(x, w).tanh() * 2.0 + x.sum(1, keepdim=True)
    parts = h.chunk(2, 1)
    h = ex.cat([parts[1], -parts[0]], 1).transpose(0, 1).reshape(4, -1)
    assert bool((h >= -1e9).all())
    return F.cross_entropy(h, labels)


def test_training_steps_leave_no_reference_behind():
    w = ex.randn(8, 6, requires_grad=True)
    x = ex.randn(4, 6)
    labels = ex.tensor([0, 1, 2, 3])
    watched = [w, x, labels, w._storage, x._storage, w._type, type(w), type(w._node), w._node, x._array, w._array]
    watched += [np.dtype(np.float32), ex.float32, type(x._storage), ex.Tensor._own_node]

    def step():
        everything(w, x, labels).backward()
        w.grad = None
        with ex.no_grad():
            everything(w, x, labels)

    for _ in range(20):
        step()
    gc.collect()
    before, used = [sys.getrefcount(o) for o in watched], in_use()
    for _ in range(50):
        step()
    gc.collect()
    assert [sys.getrefcount(o) for o in watched] == before
    assert in_use() == used


def test_errors_in_the_middle_leave_no_reference_behind():
    x, y = ex.randn(3, 4, requires_grad=True), ex.randn(5)
    watched = [x, y, x._array, y._array, x._type, y._type, x._node]

    def fail():
        for wrong in (lambda: x + y, lambda: x @ y, lambda: F.cross_entropy(x, ex.tensor([0, 1, 99]))):
            with pytest.raises(Exception, match=r"."):
                wrong()

    for _ in range(5):
        fail()
    gc.collect()
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(30):
        fail()
    gc.collect()
    assert [sys.getrefcount(o) for o in watched] == before


linux = pytest.mark.skipif(sys.platform != "linux", reason="limits address space as Linux does")
LITTLE_MEMORY = """
import resource
import extempo as ex
MB = 1 << 20
ex.sort(ex.arange(9.0))[0] + ex.ones(3, 3).T.reshape(9)  # what is loaded at first use is loaded
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 300 * MB,) * 2)

def fill_and_free():
    blocks = [ex.ones(20 * MB // 4 + 1000 * i) for i in range(5)]
    del blocks
    assert ex.backends.stats()["memory"]["free_bytes"] > 80 * MB
"""


def with_little_memory(program):
    """What a program prints that may have 300 MB more than it begins with."""
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_MEMORY + program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@linux
def test_memory_that_is_kept_is_given_back_before_there_is_none():
    printed = with_little_memory("""
fill_and_free()
print(ex.empty(230 * MB // 4).numel() * 4 // MB)
fill_and_free()
print(ex.arange(13 * MB // 4).sort()[0].numel() > 0)  # by NumPy's kernels
print(ex.empty(55 * MB // 4, 2).T.reshape(-1).numel() > 0)
""")
    assert printed == ["230", "True", "True", ""]


@linux
def test_what_is_said_when_there_is_no_memory_left():
    printed = with_little_memory("""
kept = ex.ones(64 * MB // 4)
for fn in (lambda: ex.empty(400 * MB // 4), lambda: kept.expand(6, 64 * MB // 4).argsort(0)):
    try:
        fn()
    except MemoryError as error:
        print(error)
print((kept + 1).sum().item() == 2 * kept.numel())
""")
    assert printed[0].startswith(f"no memory for {400 << 20:,} bytes; tensors have 67,")
    assert printed[1].startswith("argsort: Unable to allocate")
    assert "; tensors have 67," in printed[1]
    assert printed[2:] == ["True", ""]


def test_a_tensor_beyond_all_memory_is_a_memory_error_that_says_how_much():
    text = run_apart(
        """
        one = ex.ones(1)
        for power in (45, 46, 47, 50, 59):  # more bytes than there are addresses
            for make in (lambda: one.expand(2**power) + 1.0, lambda: ex.empty(2**power)):
                try:
                    make()
                except MemoryError as error:
                    assert f"{4 * 2**power:,} bytes" in str(error), error
                else:
                    raise AssertionError(power)
        x, refused = ex.ones(2**24), False
        try:
            x.unsqueeze(1) + x
        except MemoryError:
            refused = True
        del x
        print(refused, ex.backends.stats()["memory"]["bytes_in_use"] < 2**20)
        """
    )
    assert text == "True True"
