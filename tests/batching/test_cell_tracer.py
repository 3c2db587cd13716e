"""What the body of a cell may do while it is traced, and what is refused with its line."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import GraphError, ShapeError

from .cell_calls import assert_agrees, call


class Keeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None
        self.register_buffer("count", ex.zeros(()))
        self.temperature = nn.Parameter(ex.ones(()))


KEEPER = Keeper()


def reads_a_value(x):
    return x * 2 if x.sum().item() > 0 else x


def branches(x):
    if x[0] > 0:
        return x * 2
    return x


def prints(x):
    print(x * 2)
    return x + 1


def leaves_for_numpy(x):
    return x + ex.tensor(np.sin(x.numpy()))


def reads_a_parameter(x):
    return x * float(KEEPER.temperature)


def reads_a_buffer(x):
    return x * KEEPER.count.tolist()


def writes_to_an_argument(x):
    x += 1
    return x


def writes_to_a_buffer(x):
    KEEPER.count += 1
    return x * 2


def sets_an_attribute(x):
    KEEPER.last = x * 2
    return x


def deletes_an_attribute(x):
    del KEEPER.last
    return x


def swallows(x):
    try:
        return x * x.sum().item()
    except Exception:
        return x


@pytest.mark.parametrize(
    ("fn", "text", "line"),
    [
        (reads_a_value, "a value|value of a tensor is read", 1),
        (branches, "value of a tensor is read", 1),
        (prints, "value of a tensor is read", 1),
        (leaves_for_numpy, "value of a tensor is read", 1),
        (reads_a_parameter, "value of a tensor is read", 1),
        (reads_a_buffer, "value of a tensor is read", 1),
        (writes_to_an_argument, "writes to a tensor that the cell has not made", 1),
        (writes_to_a_buffer, "writes to a tensor that the cell has not made", 1),
        (sets_an_attribute, "Keeper.last is set", 1),
        (deletes_an_attribute, "Keeper.last is set|Keeper.last", 1),
        (swallows, "value of a tensor is read", 2),
    ],
)
def test_an_impure_cell_is_refused_with_the_line_that_is(fn, text, line):
    cell = ex.cell(fn)
    cell(ex.ones(2))  # plain functions elsewhere
    KEEPER.last = None
    where = f"test_cell_tracer.py:{fn.__code__.co_firstlineno + line};"
    for _ in range(2):
        with pytest.raises(GraphError, match=text) as error:
            call(cell, ex.ones(2))
        assert where in str(error.value)
        assert fn.__name__ in str(error.value)
        assert "or leave ex.cell out" in str(error.value)


def test_constants_made_inside_may_be_read():
    @ex.cell
    def function(x):
        return x * ex.arange(4).sum().item() + ex.tensor([1.0, 2.0]).tolist()[1]

    # The sum is an op, recorded like any other, so its value is not there; that of a constant is.
    with pytest.raises(GraphError, match="value of a tensor is read"):
        call(function, ex.ones(2))

    @ex.cell
    def constant(x):
        return x * ex.tensor([1.0, 2.0]).tolist()[1]

    assert_agrees(constant, ex.ones(2))


def test_watching_leaves_nothing_behind():
    originals = {name: vars(ex.Tensor)[name] for name in ("item", "_values")}
    with pytest.raises(GraphError):
        call(ex.cell(reads_a_value), ex.ones(2))
    assert {name: vars(ex.Tensor)[name] for name in originals} == originals


def test_errors_of_the_body_are_its_own():
    with pytest.raises(ShapeError, match="in_features=3"):
        call(nn.Linear(3, 2), ex.ones(4))
    with pytest.raises(ZeroDivisionError):
        call(ex.cell(lambda x: x * (1 / 0)), ex.ones(2))
    assert ex.ones(2).sum().item() == 2.0  # the mode is what it was
