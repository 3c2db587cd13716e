"""NumPy's kernels alone, as where llvmlite is missing: fresh processes in which no native code can be made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import extempo as ex

pytestmark = pytest.mark.alone

TESTS = Path(__file__).resolve().parent

# An import of llvmlite, by whomever, is an ImportError in such a process.
WITHOUT_LLVMLITE = "import sys; sys.modules['llvmlite'] = None\n"

EVERY_THIRD_OP = """
import extempo as ex
from extempo.core.op import REGISTRY
from extempo.testing import check_op

checked = sum(check_op(op) > 0 for _, op in sorted(REGISTRY.items())[::3])
print(ex.backends.stats()["backend"], checked)
"""

TRAINING = """
import extempo as ex
from extempo import nn, optim

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.near = nn.Conv1d(8, 8, 3, padding=1)
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.norm = nn.LayerNorm(6)
        self.out = nn.Linear(6, 4)

    def forward(self, words):
        x = nn.functional.gelu(self.near(self.embed(words).transpose(1, 2))).transpose(1, 2)
        return self.out(self.norm(self.lstm(x)[0]))

ex.manual_seed(0)
model = Tagger()
optimizer = optim.Adam(model.parameters(), lr=0.02)
for length in range(3, 23):  # a new length every step
    words = ex.randint(0, 11, (5, length))
    loss = nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten() % 4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def python(*arguments: str, backend: str = "numpy") -> str:
    """What a fresh interpreter prints with these kernels."""
    # Options of this run, such as -n, are for plugins that a pytest started from here does not load.
    environment = os.environ | {"EXTEMPO_BACKEND": backend, "PYTEST_ADDOPTS": ""}
    ran = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_quickest_tests_pass_on_numpy_kernels():
    run = "import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(TESTS / "test_tiny.py"))
    assert "passed" in python("-c", WITHOUT_LLVMLITE + run, *options)


def test_all_aspects_of_every_third_op_agree_on_numpy_kernels():
    backend, n_checked = python("-c", WITHOUT_LLVMLITE + EVERY_THIRD_OP).split()
    assert backend == "numpy"
    assert int(n_checked) > 50


def test_a_network_learns_alike_on_numpy_kernels_and_on_native_ones():
    if ex.backends.stats()["backend"] == "numpy":
        pytest.skip("the native backend is off")
    plain, native = (
        np.array(python("-c", TRAINING, backend=backend).split(), dtype=float) for backend in ("numpy", "native")
    )
    assert plain[-5:].mean() < 0.8 * plain[:5].mean()
    np.testing.assert_allclose(native, plain, rtol=2e-4)  # rounding, grown over 20 steps


PROGRAMS = """
import io
import extempo as ex
from extempo import nn
from extempo.func.tree import leaves

def reading(x):
    return ex.scan(lambda h, row: ((h + row).tanh(), h * row), ex.zeros(3), x)

def shown(program, *args):
    file = io.BytesIO()
    program.save(file)
    file.seek(0)
    program = ex.load_program(file)
    for _ in range(3):  # on native kernels the second call makes a plan
        print(*[f"{float(t.sum()):.4f}" for t in leaves(program(*args))])

ex.manual_seed(0)
shown(ex.program(nn.Linear(3, 4).eval(), ex.ones(2, 3), dynamic={"input": {0: "n"}}), ex.ones(5, 3))
shown(ex.program(reading, ex.ones(2, 3), dynamic={"x": {0: "n"}}), ex.linspace(0, 1, 12).reshape(4, 3))
shown(ex.program(lambda x: x.softmax(1).exp().sum(1), ex.ragged([[1.0], [2.0, 3.0]])), ex.ragged([[1.0, 2.0], [3.0]]))
"""


def test_programs_are_saved_loaded_and_run_on_numpy_kernels():
    plain = python("-c", WITHOUT_LLVMLITE + PROGRAMS)
    assert len(plain.split("\n")) == 10
    if ex.backends.stats()["backend"] == "native":
        assert python("-c", PROGRAMS, backend="native") == plain
