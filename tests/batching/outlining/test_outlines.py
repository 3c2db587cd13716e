"""Functions with regions do what the functions do, and record one call for each region."""

from __future__ import annotations

import sys
import traceback
import warnings

import numpy as np
import pytest

import extempo as ex
from batching import impure_modules
from batching.agreement import close, gradients_of, leaves, rows
from batching.outlining import impure_functions, models
from extempo.batching.outlining import outlines

TREES = [((0, 1), 2), (3, (1, (2, 4))), 4, ((3, 3), (4, 1)), (2, 4), (1, ((0, 5), (6, (7, 8)))), ((9, 9), (9, (1, 2)))]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Nothing is known of functions from tests before, and few samples are a batch, too."""
    monkeypatch.setenv("EXTEMPO_POLICY", "always")
    for table in (outlines._KNOWN, outlines._OUTLINES, outlines._MET, outlines._TAUGHT):
        table.clear()


def outline_of(fn):
    code = getattr(fn, "__func__", fn).__code__
    return next((outline for key, (_, outline) in outlines._OUTLINES.items() if key[0] is code), None)


def runs(fn, debug, n_calls=5):
    ex.manual_seed(0)
    impure_functions.reset()
    outputs = []
    for _ in range(n_calls):
        outputs += ex.batch(fn, debug=debug)(TREES)
        gradients = gradients_of(outputs[-len(TREES) :], [impure_functions.WEIGHT])
    return outputs, gradients, impure_functions.effects()


@pytest.mark.parametrize("fn", impure_functions.FUNCTIONS, ids=lambda fn: fn.__qualname__)
def test_an_impure_function_does_in_a_batch_what_it_does_in_a_loop(fn):
    expected, expected_gradients, expected_effects = runs(fn, debug=True)
    got, gradients, effects = runs(fn, debug=False)
    if fn is impure_functions.reads_values:  # samples take turns where values are read
        effects, expected_effects = sorted(map(repr, effects)), sorted(map(repr, expected_effects))
    assert effects == expected_effects
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        close(a.detach().numpy(), b.detach().numpy(), fn.__qualname__)
    for a, b in zip(gradients, expected_gradients, strict=True):
        close(a, b, fn.__qualname__)


def effects_of(cls, debug):
    """Outputs of all calls of a module, and what it has done."""
    ex.manual_seed(0)
    module = cls()
    batched = ex.batch(lambda x: module(x), debug=debug)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outputs = [batched(rows(6, 4)) for _ in range(5)] + [ex.batch(module, debug=debug)(rows(6, 4))]
    return outputs, (module.effects(), len(caught))


@pytest.mark.parametrize("cls", impure_modules.IMPURE, ids=lambda cls: cls.__name__)
def test_an_impure_module_does_in_a_batch_what_it_does_in_a_loop(cls):
    expected, expected_effects = effects_of(cls, debug=True)
    got, effects = effects_of(cls, debug=False)
    assert effects == expected_effects
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        close(a.detach().numpy(), b.detach().numpy(), cls.__name__)


def test_a_result_that_is_a_tuple_says_what_is_no_result():
    def fn(x):
        state = (ex.tanh(x) * 2, ex.zeros(4), x)
        for _ in range(2):
            state = (ex.tanh(state[0]) + state[1], state[1], x)
        return state

    batched = ex.batch(fn)
    for _ in range(4):
        got = batched(rows(5, 4))
    for a, b in zip(leaves(got), leaves([fn(x) for x in rows(5, 4)]), strict=True):
        close(a.numpy(), b.numpy(), "state")


@pytest.mark.parametrize("style", models.STYLES, ids=lambda style: style.__name__)
def test_a_tree_in_any_style_is_a_call_for_each_leaf_and_each_node(style):
    fn, convert = style()
    batched = ex.batch(fn)
    samples = [convert(tree) for tree in TREES]
    for _ in range(6):
        got = batched(samples)
        gradients = gradients_of(got, models.PARAMETERS)
    expected = [models.plain(tree) for tree in TREES]
    for a, b in zip(got, expected, strict=True):
        close(a.detach().numpy(), b.detach().numpy(), style.__name__)
    for a, b in zip(gradients, gradients_of(expected, models.PARAMETERS), strict=True):
        close(a, b, style.__name__)
    n_leaves = sum(len(models.leaves_of(tree)) for tree in TREES)
    assert batched.stats()["nodes"] == 2 * n_leaves - len(TREES)


def test_a_function_is_itself_at_first_and_outside_of_batches():
    fn, _ = models.tuples()
    batched = ex.batch(fn)
    batched(TREES)
    assert outline_of(fn) is None
    batched(TREES)
    assert outline_of(fn) is not None
    code = fn.__code__
    fn(TREES[0])
    assert fn.__code__ is code


def test_an_error_names_the_line_and_the_function_that_it_is_in():
    batched = ex.batch(models.fails)
    for _ in range(3):
        batched(TREES, ok=True)
    assert outline_of(models.fails) is not None
    found = []
    for call in (lambda: models.fails(TREES[0], ok=False), lambda: batched(TREES, ok=False)):
        with pytest.raises(ex.errors.ShapeError) as caught:
            call()
        frames = traceback.extract_tb(caught.value.__traceback__)
        found.append([(f.name, f.lineno, f.line) for f in frames if f.filename == models.__file__])
    assert found[0] == found[1]
    assert found[0][-1][2] == "x = h + ex.zeros(5)"


def test_a_variable_that_is_not_set_is_an_error_in_its_function():
    batched = ex.batch(models.may_not_set)
    for _ in range(3):
        batched(TREES, missing=False)
    with pytest.raises(UnboundLocalError, match="b") as caught:
        batched(TREES, missing=True)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "may_not_set"


def test_a_tracer_sees_every_line():
    fn, _ = models.tuples()
    batched = ex.batch(fn)
    for _ in range(3):
        batched(TREES)
    lines = set()

    def tracer(frame, event, argument):
        if frame.f_code.co_filename == models.__file__:
            lines.add(frame.f_lineno)
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        batched(TREES)
    finally:
        sys.settrace(before)
    first = fn.__code__.co_firstlineno
    assert {line - first for line in lines if line >= first} >= set(models.LINES_OF_TUPLES)


def test_the_report_names_lines_and_functions():
    fn, _ = models.tuples()
    batched = ex.batch(fn)
    for _ in range(3):
        batched(TREES)
    names = {line.name for line in batched.explain().lines}
    first = fn.__code__.co_firstlineno
    assert f"lines {first + 4} to {first + 6} of tuples_visit" in names


def test_a_function_whose_source_is_gone_stays_as_it_is():
    names = {"ex": ex, "W": models.W}
    exec("def visit(t):\n    return ex.tanh(W[t]) * 2 if isinstance(t, int) else visit(t[0]) + visit(t[1])", names)
    batched = ex.batch(names["visit"])
    for _ in range(3):
        got = batched(TREES)
    close(got[0].detach().numpy(), names["visit"](TREES[0]).detach().numpy(), "visit")


def test_source_that_is_not_that_of_the_code_is_not_used(tmp_path):
    path = tmp_path / "changing.py"
    path.write_text("def visit(t, f):\n    a = f(t)\n    b = f(a) * 2\n    return a + b\n")
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.write_text("def visit(t, f):\n    a = f(t)\n    b = f(a) * 3\n    return a + b\n")
    assert outlines._definition(names["visit"].__code__) is None


def test_new_defaults_and_new_code_are_used():
    def visit(t, factor=2.0):
        if isinstance(t, int):
            return ex.tanh(models.W[t]) * factor
        return ex.sigmoid(visit(t[0])) + ex.tanh(visit(t[1])) * factor

    def other(t, factor=2.0):
        return models.W[0] * factor

    batched = ex.batch(visit)
    for _ in range(3):
        batched(TREES)
    visit.__defaults__ = (3.0,)
    close(batched(TREES)[0].detach().numpy(), visit(TREES[0]).detach().numpy(), "defaults")

    def changed(t, factor=2.0):
        return models.W[1] * factor + len(visit.__name__)

    visit.__code__ = changed.__code__
    close(batched(TREES)[0].detach().numpy(), (models.W[1] * 3.0 + 5).detach().numpy(), "code")
    assert other(0).shape == (models.N,)


def test_modes_have_regions_of_their_own():
    module = models.WithDropout()
    batched = ex.batch(module)
    for _ in range(3):
        batched(TREES)
    module.eval()
    for _ in range(5):
        got = batched(TREES)
    close(got[0].detach().numpy(), module(TREES[0]).detach().numpy(), "eval")
    assert any("of WithDropout.visit" in line.name for line in batched.explain().lines)


def test_outlines_go_with_their_module():
    module = models.WithDropout().eval()
    batched = ex.batch(module.visit)
    for _ in range(4):
        batched(TREES)
    assert outlines._OUTLINES
    del module, batched
    assert not [key for key in outlines._OUTLINES if "WithDropout" in key[0].co_qualname]


def test_deep_trees_need_no_more_of_the_stack_than_a_loop():
    fn, _ = models.tuples()
    batched = ex.batch(fn)
    for _ in range(3):
        batched(TREES)
    deep: object = 0
    for _ in range(600):
        deep = (deep, 1)
    assert np.isfinite(batched([deep, deep])[0].detach().numpy()).all()
