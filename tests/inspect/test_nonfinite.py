"""`first_nonfinite` names the op that is to blame, and its line."""

from __future__ import annotations

import inspect as python_inspect
import math

import extempo as ex
from extempo import nn
from extempo.inspect.nonfinite import first_nonfinite, is_finite


def line_of(fn, text):
    lines, first = python_inspect.getsourcelines(fn)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_the_op_and_the_line_are_named():
    def fn(x):
        y = x * 2
        z = (y - 2).sqrt()
        return z.sum()

    found = first_nonfinite(fn, ex.tensor([1.0, 0.5, 3.0]))
    assert found.op == "sqrt"
    assert found.made == "1 nan"
    assert found.inputs == "-1 .. 4"
    assert found.line.endswith(f"test_nonfinite.py:{line_of(fn, 'sqrt')}")
    assert str(found).startswith("sqrt (/")


def test_finite_results_and_what_was_given_are_nobodys_fault():
    assert first_nonfinite(lambda x: x.exp(), ex.ones(2)) is None
    assert first_nonfinite(lambda x: (x * 2).sum(), ex.tensor([math.nan])) is None
    assert first_nonfinite(lambda x: (x * 2).sum(), ex.tensor([math.inf])) is None


def test_infinities_of_masks_are_not_blamed():
    def fn(x, mask):
        weights = x.masked_fill(mask, -math.inf).softmax(-1)
        return (weights - 1).log().sum()

    found = first_nonfinite(fn, ex.zeros(2, 3), ex.tensor([[True, False, False], [False, False, True]]))
    assert found.op == "log"


def test_a_row_that_is_masked_wholly_is_found_in_the_softmax():
    def fn(x, mask):
        hidden = x.masked_fill(mask, -math.inf)
        weights = hidden.softmax(-1)
        return weights.sum()

    found = first_nonfinite(fn, ex.zeros(2, 2), ex.tensor([[True, True], [False, True]]))
    assert found.line.endswith(str(line_of(fn, "softmax")))
    assert "nan" in found.made


def test_an_overflow_is_found_where_it_began():
    def fn(x):
        large = x.exp()
        return (large * 2).sum()

    assert first_nonfinite(fn, ex.tensor([1000.0])).op == "exp"


def test_ragged_tensors_compiled_functions_batches_and_writes():
    ragged = ex.ragged([[1.0, 0.0], [2.0]])
    assert first_nonfinite(lambda x: x.log().mean(1).sum(), ragged).op == "log"
    assert first_nonfinite(ex.compile(lambda x: (x.log() * 2).sum()), ex.tensor([-1.0])).op == "log"
    assert first_nonfinite(lambda xs: ex.stack(ex.batch(lambda x: x.log())(xs)).sum(), [ex.tensor(-1.0)]).op == "log"

    def writes(x):
        y = x.clone()
        y[0] = (x[0] - 2).sqrt()
        return y.sum()

    assert first_nonfinite(writes, ex.ones(2)).op == "sqrt"


def test_the_module_is_named():
    class Log(nn.Module):
        def forward(self, x):
            return x.log()

    model = nn.Sequential(nn.Identity(), nn.Sequential(nn.ReLU(), Log()))
    found = first_nonfinite(lambda x: model(x).sum(), -ex.ones(2), model=model)
    assert found.module == "1.1"
    assert str(found).startswith("log (module 1.1, ")
    assert not any(module._call_hooks for module in model.modules()), "the hooks are gone"


def test_modules_keep_their_results_with_gradients_on():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    assert first_nonfinite(lambda x: model(x).sum(), ex.ones(1, 2)) is None
    assert is_finite(model[0].weight)
    assert is_finite(ex.tensor([1]))
    assert not is_finite(ex.tensor([1.0, math.inf]))
