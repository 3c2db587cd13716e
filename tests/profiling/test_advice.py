"""What a profile suggests."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import data
from extempo.profiling.advice import advice_of
from extempo.profiling.shares import Share


@pytest.mark.skipif(ex.backends.stats()["backend"] == "numpy", reason="there are no plans to suggest")
def test_many_small_ops_suggest_ex_compile(always_planned):
    a, b = ex.ones(8, requires_grad=True), ex.ones(8)

    def chain():
        y = a
        for _ in range(100):
            y = ex.tanh(y + b)
        y.sum().backward()

    for _ in range(5):
        chain()
    with ex.profile() as prof:
        for _ in range(20):
            chain()
    assert any("ex.compile saves about" in one for one in prof.advice), prof.advice
    compiled = ex.compile(chain)
    for _ in range(10):
        compiled()
    with ex.profile() as prof:
        for _ in range(20):
            compiled()
    assert not any("ex.compile saves about" in one for one in prof.advice), prof.advice


def test_loading_that_takes_long_suggests_workers():
    class Slow(data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            sum(range(200_000))
            return ex.ones(2)

    with ex.profile() as prof:
        for _ in data.DataLoader(Slow(), batch_size=2):
            pass
    assert any("num_workers=2" in one for one in prof.advice), str(prof)


def test_planning_and_python_are_named():
    def share(phase):
        return Share(100, 0, None, None, "", "", phase, False)

    assert any("planning takes 50%" in one for one in advice_of([share("planning"), share("native run")], 200))
    assert any("Python itself takes 100%" in one for one in advice_of([share("Python")], 100))
