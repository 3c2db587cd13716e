"""What is done around an update, natively: the answers of the Python that it stands for, and no wrong ones."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.routines.stepping import SAME_CONTENTS, SAME_OPTIONS, Stepping
from extempo.core.tensor import Tensor
from extempo.optim.change_detection import contents_of, options_of

BOTH = SAME_CONTENTS | SAME_OPTIONS


@pytest.fixture(scope="module")
def stepping():
    return Stepping(Tensor)


def optimizer_parts():
    params = [ex.ones(2, requires_grad=True), ex.ones(3, requires_grad=True)]
    groups = [{"params": params[:1], "lr": 0.1}, {"params": params[1:], "lr": 0.2, "name": "second"}]
    state = defaultdict(dict, {p: {"step": 1, "moment": ex.zeros(2)} for p in params})
    return params, groups, state


def test_the_same_objects_are_the_same_and_whatever_changes_is_noticed(stepping):
    params, groups, state = optimizer_parts()
    contents, options = contents_of(groups, state), options_of(groups)
    assert stepping.same(contents, options, groups, state) == BOTH
    groups[1]["lr"] = 0.3
    assert stepping.same(contents, options, groups, state) == SAME_CONTENTS
    options = options_of(groups)
    state[params[0]]["step"] = object()
    assert stepping.same(contents, options, groups, state) == SAME_OPTIONS
    contents = contents_of(groups, state)
    groups[0]["params"] = [params[1]]
    assert stepping.same(contents, options_of(groups), groups, state) == SAME_OPTIONS


def test_lists_that_are_shorter_or_longer_are_not_the_same(stepping):
    _, groups, state = optimizer_parts()
    contents, options = contents_of(groups, state), options_of(groups)
    for other in (contents[:-1], [*contents, None], []):
        assert stepping.same(other, options, groups, state) == SAME_OPTIONS
    for other in (options[:-1], [*options, None], []):
        assert stepping.same(contents, other, groups, state) == SAME_CONTENTS


def test_forms_that_are_not_known_are_a_change(stepping):
    _, groups, state = optimizer_parts()
    contents, options = contents_of(groups, state), options_of(groups)
    assert stepping.same(contents, options, tuple(groups), state) == 0
    assert stepping.same(contents, options, groups, []) == 0
    assert stepping.same(contents, options, [{"lr": 1}], state) == 0
    assert stepping.same(contents, options, groups, {"key": "no dict"}) & SAME_CONTENTS == 0


def test_gradients_are_the_arrays_that_leaves_have(stepping):
    params = [ex.ones(2, requires_grad=True), ex.ones(3, requires_grad=True)]
    arrays = [p._array for p in params]
    assert stepping.gradients(params, arrays) is None
    for p in params:
        (p * 2.0).sum().backward()
    found = stepping.gradients(params, arrays)
    assert [g is p.grad._array for g, p in zip(found, params, strict=True)] == [True, True]
    assert stepping.gradients(params, arrays[:1]) is None
    assert stepping.gradients(params, [arrays[0], np.ones(3, np.float32)]) is None
    assert stepping.gradients([params[0], "no tensor"], arrays) is None


def test_writes_are_counted_and_parameters_remember_where(stepping):
    p, other = ex.ones(2), ex.ones(2)
    before = p._version, other._version
    where = ("somewhere", 7)
    assert stepping.written([p, p], [other._memory], where) is None
    assert (p._version, other._version) == (before[0] + 2, before[1] + 1)
    assert p._memory.written_at is where
