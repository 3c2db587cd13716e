"""What somebody's code raises while native code compares, hashes or converts is raised, unless it is an answer."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

import extempo as ex
from extempo.batching.rows import RowTable
from extempo.dispatch.dispatcher import apply
from extempo.nn import functional as F
from extempo.ops.softmaxes import Softmax

ROOT = Path(ex.__file__).parent


class Raising:
    """A dimension of 1, of which everything that Python may ask raises what it is told to."""

    def __init__(self, error=None):
        self.error = error

    def _told(self):
        if self.error is not None:
            raise self.error

    def __hash__(self):
        self._told()
        return 1

    def __eq__(self, other):
        self._told()
        return int(other) == 1

    def __index__(self):
        self._told()
        return 1

    __int__ = __index__


ERRORS = [KeyboardInterrupt(), SystemExit(), MemoryError(), TimeoutError("of a signal handler")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "call",
    [
        lambda x, dim: F.softmax(x, dim),
        lambda x, dim: x.sum(dim),
        lambda x, dim: x.transpose(0, dim),
        lambda x, dim: x.select(0, dim),
        lambda x, dim: F.one_hot(x.argmax(1), dim),
    ],
    ids=["softmax", "sum", "transpose", "select", "one_hot"],
)
def test_what_an_argument_raises_is_raised(call, error):
    x = ex.tensor([[1.0, 2.0], [3.0, 5.0]])
    for _ in range(4):  # met, watched, then known to native code
        with pytest.raises(type(error)):
            call(x, Raising(error))
        with contextlib.suppress(ex.errors.ExtempoError):
            call(x, 1)


class Once(int):
    """A number that raises when it is first hashed or compared, as an interrupt does that comes just then."""

    def __new__(cls, value):
        made = super().__new__(cls, value)
        made.error = KeyboardInterrupt()
        return made

    def _told(self):
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def __hash__(self):
        self._told()
        return int(self)

    def __eq__(self, other):
        self._told()
        return int(self) == int(other)


def test_an_interrupt_while_an_attribute_is_hashed_is_not_lost():
    if ex.backends.stats()["backend"] == "numpy":
        pytest.skip("nothing is hashed")
    x = ex.ones(2, 2)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            F.softmax(x, Once(1))
        F.softmax(x, 1)


def test_an_interrupt_while_the_attributes_of_a_recorded_op_are_compared_is_not_lost():
    if ex.backends.stats()["backend"] == "numpy":
        pytest.skip("records with native kernels only")
    given = [1]

    @ex.compile
    def run(x):
        return apply(Softmax, (x,), {"dim": given[0]})

    x = ex.ones(2, 2)
    for _ in range(8):
        run(x)
    given[0] = Once(1)
    with pytest.raises(KeyboardInterrupt):
        run(x)
    given[0] = 1
    assert run(x).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_what_cannot_be_hashed_goes_the_long_way():
    class Unhashable(int):
        __hash__ = None

    assert F.softmax(ex.ones(2, 2), Unhashable(1)).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_exceptions_are_forgotten_in_one_place_only_and_by_their_class():
    """`Python.forget` names the exceptions that are answers; clearing any would lose interrupts."""
    users = [path for path in ROOT.rglob("*.py") if "PyErr_Clear" in path.read_text()]
    assert [path.name for path in users] == ["cpython.py"]
    assert users[0].read_text().count("PyErr_Clear") == 1


def test_an_interrupt_while_numbers_of_rows_are_converted_is_not_lost():
    if ex.backends.stats()["backend"] == "numpy":
        pytest.skip("NumPy refuses such numbers")

    class Odd:
        def __index__(self):
            raise KeyboardInterrupt

    table = RowTable()
    table.add(0, np.ones((3, 2)))
    with pytest.raises(KeyboardInterrupt):
        table.gather([0, Odd()], (2,), np.dtype(np.float64))
    assert table.gather([0, 2], (2,), np.dtype(np.float64)).tolist() == [[1, 1], [1, 1]]


def test_an_interrupt_while_a_cell_is_compared_is_not_lost():
    """Attributes that a cell reads may be properties."""

    class Scale:
        error = None

        @property
        def factor(self):
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            return 2.0

    scale = Scale()

    @ex.cell
    def scaled(x):
        return x * scale.factor

    run, x = ex.batch(scaled), ex.ones(2)
    for _ in range(4):
        assert run([x, x])[1].tolist() == [2, 2]
        scale.error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            run([x, x])
        assert scale.error is None
