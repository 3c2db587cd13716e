"""x[t] recorded natively: what Python would have noted, and nothing where it cannot be."""

import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("greenlet")

import extempo as ex
from extempo.backends.selection import native
from extempo.batching.run import BatchExecutor

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def noted_by_python(monkeypatch, fn, samples):
    """The results, and how many parts Python noted."""
    counts = []
    part_of = BatchExecutor.part_of

    def counting(self, *args):
        counts.append(1)
        return part_of(self, *args)

    monkeypatch.setattr(BatchExecutor, "part_of", counting)
    return ex.batch(fn)(samples), len(counts)


def test_rows_of_one_type_are_noted_by_python_once(monkeypatch):
    def fn(x):
        y = x * 2.0
        return [y[t].tolist() for t in range(3)]

    ex.batch(fn)([ex.ones(3, 5)])
    made, by_python = noted_by_python(monkeypatch, fn, [ex.ones(3, 5), ex.zeros(3, 5)])
    assert made == [[[2.0] * 5] * 3, [[0.0] * 5] * 3]
    assert by_python == 0


def test_rows_of_rows_and_from_the_end():
    def fn(x):
        y = x * 1.0
        return y[1][-1], y[-1][0]

    for _ in range(2):
        ((a, b),) = ex.batch(fn)([ex.arange(6.0).reshape(2, 3)])
        assert (a.item(), b.item()) == (5.0, 3.0)


def test_an_index_out_of_range_is_an_error():
    for _ in range(2):
        with pytest.raises(ex.errors.IndexRangeError, match="index 2"):
            ex.batch(lambda x: (x * 1.0)[2])([ex.ones(2, 3)])


def test_gradients_of_rows_are_tracked_only_where_they_are_recorded():
    weight = ex.ones(3, requires_grad=True)

    def fn(x):
        y = x * weight
        with ex.no_grad():
            off = y[0]
        return y[1].requires_grad, off.requires_grad, (x * 2.0)[0].requires_grad

    for _ in range(2):
        assert ex.batch(fn)([ex.ones(2, 3)]) == [(True, False, False)]
