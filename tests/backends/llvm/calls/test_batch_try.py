"""Recording a call of a batch natively: results, values and lines are those that Python's way makes."""

import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("greenlet")

import numpy as np

import extempo as ex
from extempo.backends.selection import native

from .batch_calls import batched, recorded_by_python

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_cells_with_several_results_and_structures_around_them(monkeypatch):
    cell = ex.nn.LSTMCell(3, 4)

    def fn(x):
        h, c = cell(x)
        h, c = cell(x, (h, c))
        return h.sum() + c.sum()

    ex.manual_seed(0)
    samples = [ex.randn(3) for _ in range(5)]
    results, by_python = recorded_by_python(monkeypatch, fn, samples)
    assert by_python <= 2  # of ten: those of the first sample, where Python looks at what the cell reads
    for x, y in zip(samples, results, strict=True):
        assert float(y) == pytest.approx(float(fn(x)), rel=1e-4)


def test_gradients_reach_weights_and_tensors_from_outside(monkeypatch):
    linear, x = ex.nn.Linear(3, 2), [ex.ones(3, requires_grad=True) for _ in range(4)]

    def losses():
        results, by_python = recorded_by_python(monkeypatch, lambda t: linear(t).tanh().sum(), x)
        return sum(results), by_python

    total, by_python = losses()
    assert by_python <= 1  # the first call of the layer, where Python looks at what it reads
    total.backward()
    grads = [t.grad.numpy().copy() for t in (*x, linear.weight)]
    for t in (*x, linear.weight, linear.bias):
        t.grad = None
    sum(linear(t).tanh().sum() for t in x).backward()
    for found, t in zip(grads, (*x, linear.weight), strict=True):
        np.testing.assert_allclose(found, t.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_an_error_names_the_line_and_the_sample_of_a_call_that_native_code_recorded(monkeypatch):
    def fn(x):
        y = x * 2.0
        return ex.nn.functional.embedding(y.long(), ex.ones(3, 2)).sum()

    samples = [ex.ones(2) * k for k in range(4)]  # the last two name rows that are not there
    assert [float(r) for r in recorded_by_python(monkeypatch, fn, samples[:2])[0]] == [4.0, 4.0]
    with pytest.raises(ex.errors.IndexRangeError) as caught:
        [r.item() for r in batched(fn, samples)]
    assert any("test_batch_try.py" in note and "sample" in note for note in caught.value.__notes__)


def test_a_call_that_does_not_fit_has_changed_nothing(monkeypatch):
    def fn(pair):
        x, length = pair
        total = x[0]
        for k in range(1, length):
            total = total + x[k]
        return total

    rng = np.random.default_rng(0)
    samples = [(ex.tensor(rng.normal(size=6)), n) for n in (1, 6, 2, 5, 3)]
    results, _ = recorded_by_python(monkeypatch, fn, samples)
    for (x, n), y in zip(samples, results, strict=True):
        assert float(y) == pytest.approx(float(x[:n].sum()), rel=1e-6)
