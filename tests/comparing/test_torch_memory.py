"""What the tensors of PyTorch take."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn

from .steps import QUICK, batches, step_of


@pytest.mark.conformance
@pytest.mark.usefixtures("fake_clock")
def test_the_tensors_of_pytorch_are_counted(capfd):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    model = nn.Linear(4, 2)
    theirs = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    wide = torch.ones(1, 50_000)

    def torch_step(x, y):
        loss = torch.nn.functional.cross_entropy(theirs(x), y) + 0 * (x[:1, :1] * wide).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    found = ex.compare(step_of(model), batches(), modes=("eager",), torch=torch_step, **QUICK)
    assert 2 * 50_000 * 4 <= found["torch"].peak_bytes < 20 * 50_000 * 4
    assert found["torch"].retained_bytes < 50_000
    assert found["torch"].memory_of == "tensors"
    assert "torch takes 1 times as long as eager" in " ".join(str(found).split())
    assert capfd.readouterr().err == ""
