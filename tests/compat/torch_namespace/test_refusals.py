"""Names of PyTorch's that are not there say what they are and what to use."""

from __future__ import annotations

import subprocess
import sys

from extempo.compat.torch_namespace.refusals import reason_for


def test_a_name_has_the_reason_of_its_family_and_place():
    assert "torch.linalg.solve" in reason_for("torch", "solve")
    assert "nn.LSTM" in reason_for("torch", "lstm")
    assert reason_for("torch.nn", "lstm") == ""
    assert reason_for("torch", "lsmt") == ""


def test_imports_and_attributes_refuse_alike():
    program = """
import extempo.as_torch
import torch
from extempo.errors import UnsupportedError
from torch import lobpcg
assert lobpcg is torch.lobpcg
for use in (lambda: torch.lobpcg(torch.eye(3)), lambda: lobpcg(torch.eye(3)), lambda: torch.eye(3).volatile):
    try:
        use()
    except UnsupportedError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    first, second, third = done.stdout.splitlines()
    assert first == second
    assert first.startswith("torch.lobpcg: use torch.linalg.eigh, which has all eigenvalues")
    assert third.startswith("Tensor.volatile: write `with ex.no_grad():`")
