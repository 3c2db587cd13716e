"""Which calls of a batch native code knows: the same structure of arguments, equal types, the same objects."""

import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("greenlet")

import extempo as ex
from extempo.backends.selection import native

from .batch_calls import batched, recorded_by_python

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def draw(n, *shape):
    ex.manual_seed(n)
    return [ex.randn(*shape) for _ in range(n)]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x * 2.0 + 1.0).sum(),
        lambda x: ex.where(x > 0.0, x, -x).softmax(0).sum(),
        lambda x: ex.cat([x, x * 0.5], dim=0).reshape(2, -1).sum(1).max(),
    ],
)
def test_a_call_like_one_before_is_known(monkeypatch, fn):
    samples = draw(6, 4)
    results, by_python = recorded_by_python(monkeypatch, fn, samples)
    assert by_python == 0
    for x, y in zip(samples, results, strict=True):
        assert float(y) == pytest.approx(float(fn(x)), rel=1e-5)


def test_numbers_may_differ_where_they_are_operands_and_not_where_they_choose_elements(monkeypatch):
    results, by_python = recorded_by_python(
        monkeypatch, lambda pair: pair[0] * pair[1], [(ex.ones(2), float(k)) for k in range(5)]
    )
    assert [r.tolist() for r in results] == [[k, k] for k in range(5)]
    assert by_python == 0


def test_an_attribute_of_another_class_is_another_call(monkeypatch):
    def fn(x):
        return x.sum(0) + x.sum(False)

    results, _ = recorded_by_python(monkeypatch, fn, draw(3, 2, 3))
    for r in results:
        assert r.shape == (3,)


def test_another_type_or_weight_is_not_taken_for_the_one_before(monkeypatch):
    weights = [ex.ones(3, requires_grad=True), ex.full((3,), 2.0, requires_grad=True)]
    samples = [(weights[k % 2], ex.ones(2 + k % 2, 3)) for k in range(6)]
    results, by_python = recorded_by_python(monkeypatch, lambda pair: (pair[1] * pair[0]).sum(), samples)
    assert [float(r) for r in results] == [float(6 if k % 2 == 0 else 18) for k in range(6)]
    assert by_python == 0


def test_a_cell_whose_constant_was_changed_is_recorded_anew(monkeypatch):
    class Scaled(ex.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = 2.0

        def forward(self, x):
            return x * self.factor

    module = Scaled()
    samples = draw(4, 3)
    for factor in (2.0, 2.0, 5.0, 2.0):
        module.factor = factor
        for x, y in zip(samples, batched(module, samples), strict=True):
            assert y.tolist() == (x * factor).tolist()


def test_a_number_of_another_class_is_another_call(monkeypatch):
    samples = [(ex.tensor([1, 2]), number) for number in (3, 0.5, 3, True, 0.5)]
    results, by_python = recorded_by_python(monkeypatch, lambda pair: pair[0] * pair[1], samples)
    assert [(r.dtype, r.tolist()) for r in results] == [
        (ex.int64, [3, 6]),
        (ex.float32, [0.5, 1.0]),
        (ex.int64, [3, 6]),
        (ex.int64, [1, 2]),
        (ex.float32, [0.5, 1.0]),
    ]
    assert by_python == 0
