"""Plans at sizes that were never planned: within a range they follow by arithmetic, with the bits of planning."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import extempo as ex
from extempo.backends.selection import native
from extempo.scheduling import size_ranges
from extempo.scheduling.request import Request, plan
from extempo.scheduling.size_ranges import SizeRange

from .loops import CASES, draw, inputs
from .taping import record, same_bits

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

F = ex.nn.functional


def mlp(x, w, b):
    return F.softmax((x @ w).tanh() + b, -1).sum(0) * x.sum()


class Sized:
    """What `fn` does with x of n rows, at any n."""

    def __init__(self, fn):
        self._fn = fn
        self._tapes = {}

    def tape(self, n):
        if n not in self._tapes:
            self._tapes[n] = record(self._fn, [draw(n, 24), draw(24, 40, seed=1), draw(40, seed=2)])
        return self._tapes[n]

    def request(self, n, _=None):
        tape, results = self.tape(n)
        return Request(tape.steps, 0, tape.leaves, frozenset(), tuple(map(tape.place, results)))

    def outcome(self, made, n):
        tape, _ = self.tape(n)
        return made.run([tape.arrays[-1 - ref] for ref in made.inputs], tape.numbers)


def plans_at(sized, sizes, may_bind=lambda: True):
    ranges = SizeRange(sized.request)
    made = {}
    for n in sizes:
        for _ in range(3):  # a first one asks LLVM, the range is planned at its second sighting
            found = ranges.plan(n, sized.request(n), may_bind)
            if found is not None:
                made[n] = found
    return ranges, made


def test_sizes_of_a_range_follow_from_three_of_them_with_the_same_bits():
    sized = Sized(mlp)
    sizes = range(33, 65, 3)
    ranges, made = plans_at(sized, sizes)
    assert ranges.n_bound >= 1
    assert len(made) > len(sizes) // 2
    for n, found in made.items():
        for got, want in zip(sized.outcome(found, n), sized.outcome(plan(sized.request(n)), n), strict=True):
            same_bits(got, want, f"{n} rows")


def test_no_range_is_planned_before_it_may_be():
    ranges, made = plans_at(Sized(mlp), range(33, 65, 3), may_bind=lambda: False)
    assert made == {}
    assert ranges.n_bound == 0


def test_a_range_that_would_waste_memory_is_cut(monkeypatch):
    monkeypatch.setattr(size_ranges, "MOST_WASTE", 0)
    ranges, _ = plans_at(Sized(lambda x, w, b: ((x @ w).tanh() @ w.T).exp()), range(33, 65))
    assert ranges.n_bound == 0


def test_what_the_size_decides_has_no_range():
    def deciding(x, w, b):
        y = (x @ w).tanh()
        return y.exp() if x.shape[0] % 2 else y.sum(0) + b

    ranges, _ = plans_at(Sized(deciding), range(33, 65))
    assert ranges.n_bound == 0


def test_loops_are_left_to_those_that_shorten_them():
    fn, shapes, shape, _ = CASES["an LSTM"]
    arguments = [draw(*s, seed=i) for i, s in enumerate(shapes)]

    def request(n, _=None):
        tape, (y,) = record(fn, [*arguments, *inputs(20, *shape)])
        return Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(y),))

    ranges = SizeRange(request)
    assert all(ranges.plan(40, request(40), lambda: True) is None for _ in range(3))
    assert ranges.n_bound == 0


def test_a_mean_divides_by_its_own_size():
    sized = Sized(lambda x, w, b: (x * x).mean(0))
    _, made = plans_at(sized, range(33, 65, 5))
    assert made
    for n, found in made.items():
        (got,) = sized.outcome(found, n)
        array = sized.tape(n)[0].arrays[0]
        np.testing.assert_allclose(got, (array * array).mean(0), rtol=1e-5)
