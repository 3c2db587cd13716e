"""ex.batch in a function whose structure is fixed: recorded as a plain loop."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import GraphError


def test_a_static_function_reads_weights_and_words_anew():
    embed = nn.Embedding(10, 4)
    summed = ex.batch(lambda words: ex.stack([embed(word) for word in words]).sum())
    fixed = ex.compile(lambda samples: ex.stack(summed(samples)).sum(), static=True)
    for samples in ([[1, 2], [3]], [[1, 2], [4]], [[7, 7], [0]]):
        assert fixed(samples).item() == pytest.approx(ex.stack(summed(samples)).sum().item(), rel=1e-5)
        with ex.no_grad():
            embed.weight += 1
    with pytest.raises(GraphError, match="list of 2"):
        fixed([[1, 2], [4, 5]])


def test_a_static_training_step():
    linear = nn.Linear(3, 2)
    optimizer = ex.optim.SGD(linear.parameters(), lr=0.1)

    def step(samples):
        loss = ex.stack(ex.batch(lambda x: linear(x).square().sum())(samples)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    fixed = ex.compile(step, static=True)
    samples = ex.randn(4, 3)
    losses = [fixed(samples).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 5
