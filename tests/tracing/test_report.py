"""What `ex.compile.stats()`, the log and misspelt requests say, in words."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import pytest

import extempo as ex
from extempo import nn
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.trace_tree import TraceNode
from extempo.tracing.compiled_function import CompiledFunction
from extempo.tracing.policy import CountingPolicy
from extempo.tracing.report import CompiledFunctions, Stats
from extempo.tracing.segment import PLANS, Counters, Segment

needs_native_code = pytest.mark.skipif(native() is None, reason="without native code compiled functions run eagerly")

PLAIN = {
    "name": "f",
    "static": False,
    "calls": 9,
    "eager_calls": 2,
    "waiting_calls": 0,
    "aside": False,
    "why": None,
    "rests": 0,
    "waits_for_kernels": False,
    "runs": 6,
    "plans": 1,
    "replays": 1,
    "steps_recorded": 21,
    "new_steps": 3,
    "fused": 2,
    "failed_runs": 0,
    "steps_evicted": 0,
    "steps_known": 3,
    "closed": {},
    "unplannable": {},
}


NOTHING = {"functions": 0, "static": 0, "calls": 0, "plans": 0, "runs": 0, "replays": 0}


def words(native=True, switched_off=False, resized=0, begun=0, gone=NOTHING, **function):
    """The text of the statistics of one function."""
    caches = {"shape rules": (5, 100, 7), "plans": (1 + begun, 4000, 0)}
    totals = {"runs": 6, "plans": 3, "resized": resized, "replays": 1, "planning_seconds": 0.1, "compile_seconds": 0.2}
    where = {"native": native, "switched_off": switched_off}
    return str(Stats(totals, **where, plans_begun=begun, functions=[PLAIN | function], gone=gone, caches=caches))


def test_statistics_of_an_ordinary_function_are_two_lines_about_it():
    assert words().splitlines() == [
        "6 runs of plans, 1 op by op; planning took 0.10 s, LLVM 0.20 s",
        "  f: 9 calls (2 eager), 1 plan made, 6 runs of plans, 1 op by op",
        "    ops: 21 recorded, 3 of them for the first time; 2 fused into others in its plans",
        "  plans: 3 made, 1 kept (at most 4,000), 0 evicted",
        "  1 other cache, all bounded: 5 entries, 7 evicted",
    ]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ({"static": True}, "f (static): 9 calls, 1 plan made"),
        ({"waiting_calls": 1}, "(2 eager, 1 of these while LLVM made kernels)"),
        ({"aside": True, "why": "it never repeats"}, "eagerly now: it never repeats; it is tried again at the next"),
        ({"aside": True, "rests": 1}, "it is tried again after 1 more call at the earliest"),
        ({"aside": True, "rests": 12}, "it is tried again after 12 more calls at the earliest"),
        ({"aside": True, "waits_for_kernels": True}, "it is tried again when LLVM has made its kernels"),
        ({"resized": 1234}, "; 1,234 more followed from those of other sizes"),
        ({"begun": 2}, "1 kept (at most 4,000), 0 evicted, 2 more begun"),
        ({"failed_runs": 1}, "1 plan failed and ran again op by op"),
        ({"steps_evicted": 4321}, "4,321 recorded ops evicted"),
        ({"closed": {"a hook": 1}}, "recording ended early 1 time: a hook"),
        ({"unplannable": {"too long": 3}}, "no plan 3 times: too long"),
        ({"calls": 0, "steps_recorded": 0}, "f: no calls"),
    ],
)
def test_what_is_out_of_the_ordinary_is_said(function, expected):
    assert expected in words(**function)
    assert expected not in words()


def test_ops_of_a_static_function_count_where_they_were_recorded_and_not_where_they_ran_again():
    text = words(static=True, steps_recorded=3000, new_steps=20)
    assert "    ops: 20 recorded in its first calls; 2 fused into others in its plans" in text.splitlines()
    assert "3,000" not in text


@pytest.mark.parametrize(
    ("static", "calls"), [(0, "2,000 calls"), (1, "2,000 calls (those of static ones are not known)")]
)
def test_functions_that_no_longer_exist_have_a_line(static, calls):
    gone = {"functions": 3, "static": static, "calls": 2000, "plans": 4, "runs": 1990, "replays": 10}
    expected = f"  functions that no longer exist: {calls}, 4 plans made, 1,990 runs of plans, 10 op by op"
    assert expected in words(gone=gone).splitlines()


def test_it_is_said_why_nothing_is_planned_at_all():
    assert "native backend" in words(native=False)
    assert "EXTEMPO_EAGER" in words(switched_off=True)
    assert "native backend" not in words()
    assert "EXTEMPO_EAGER" not in words()


@pytest.mark.alone
@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [("EXTEMPO_EAGER", "1", "EXTEMPO_EAGER is set"), ("EXTEMPO_BACKEND", "numpy", "plans need the native backend")],
)
def test_a_process_without_plans_says_so(variable, value, expected):
    code = (
        "import extempo as ex\n"
        "f = ex.compile(lambda x: x * 2)\n"
        "for _ in range(4): f(ex.ones(2))\n"
        "print(ex.compile.stats())\n"
    )
    env = {**os.environ, "EXTEMPO_EAGER": "", "EXTEMPO_BACKEND": "", variable: value}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


@pytest.mark.alone
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("foo", "EXTEMPO_LOG=foo is unknown; known are compile, plans\n"),
        ("plans, foo, bar", "EXTEMPO_LOG=foo,bar is unknown; known are compile, plans\n"),
        ("compile,plans", ""),
        ("", ""),
    ],
)
def test_a_log_that_does_not_exist_is_named_once(value, expected):
    env = {**os.environ, "EXTEMPO_EAGER": "", "EXTEMPO_LOG": value}
    code = "import extempo as ex; ex.compile(lambda x: x)(ex.ones(1))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, expected)


def stats_of(name):
    (found,) = [f for f in ex.compile.stats()["functions"] if f["name"].endswith(name)]
    return found


@needs_native_code
def test_ops_whose_result_nobody_reads_count_as_recorded():
    w = ex.ones(2, requires_grad=True)

    @ex.compile
    def left(x):
        return (x * w).exp()

    for _ in range(3):
        left(ex.ones(2))
    assert (stats_of("left")["steps_recorded"], stats_of("left")["new_steps"]) == (6, 2)
    left(ex.ones(2)).sum().backward()  # which goes on with the tape, and ends it
    assert (stats_of("left")["steps_recorded"], stats_of("left")["new_steps"]) == (9, 3)


@pytest.mark.parametrize("made", [nn.Linear, dict])
def test_a_class_is_not_compiled_and_the_message_says_what_is(made):
    with pytest.raises(ex.errors.DtypeError, match=rf"ex\.compile\({made.__name__}\(\.\.\.\)\)"):
        ex.compile(made)


@pytest.mark.parametrize("name", ["compiler", "_dynamo"])
def test_names_around_pytorchs_compiler_lead_to_ours(name):
    with pytest.raises(AttributeError, match=r"@ex\.eager.*ex\.compile\.clear\(\)"):
        getattr(ex, name).reset()


def test_a_module_has_no_compile_and_says_what_to_write():
    with pytest.raises(ex.errors.UnsupportedError, match=r"model = ex\.compile\(model\)"):
        nn.Linear(2, 2).compile()


def test_a_function_that_is_forgotten_is_gone_at_once():
    @ex.compile
    def forgotten(x):
        return (x * 2.0).sum()

    for _ in range(6):
        forgotten(ex.ones(3)).item()
    gc.disable()
    try:
        assert any("forgotten" in f["name"] for f in ex.compile.stats()["functions"])
        del forgotten
        assert not any("forgotten" in f["name"] for f in ex.compile.stats()["functions"])
    finally:
        gc.enable()


@needs_native_code
def test_what_a_function_did_that_no_longer_exists_stays_in_the_totals():
    gc.collect()
    before = ex.compile.stats()

    def leave_nothing(static):
        made = ex.compile(lambda x: (x * 2.0).exp().sum(), static=static)
        for _ in range(6):
            made(ex.ones(3)).item()

    leave_nothing(static=False)
    leave_nothing(static=True)
    gc.collect()
    after = ex.compile.stats()
    assert len(after["functions"]) == len(before["functions"])
    assert after["plans"] == before["plans"] + 2
    assert after["runs"] > before["runs"]
    assert {name: after["gone"][name] - before["gone"][name] for name in ("functions", "static", "calls")} == {
        "functions": 2,
        "static": 1,
        "calls": 6,
    }
    assert ex.compile.stats()["gone"] == after["gone"]  # they are counted once
    assert "functions that no longer exist: " in str(after)


def test_nothing_is_kept_of_functions_that_no_longer_exist_but_their_totals():
    functions, ended = CompiledFunctions(), []

    class WeaklyKnown(Counters):
        pass

    class Function:
        def __init__(self):
            self.counters = WeaklyKnown("f", print, CountingPolicy())
            self.counters.new_steps = 2
            ended.append(weakref.ref(self.counters))

    for _ in range(100):
        functions.add(Function())
        assert sum(ref() is not None for ref in ended) <= 1
    assert (functions.gone()["functions"], functions.gone()["new_steps"]) == (100, 200)
    assert [ref() for ref in ended] == [None] * 100
    assert list(functions) == []


def compiled_function(calls, eager_calls, new_steps, steps):
    """What such a function says of itself."""
    made = CompiledFunction(lambda: None, "f")
    made.policy.calls, made.traced_calls = calls, calls - eager_calls
    made.counters.new_steps, made.counters.steps = new_steps, steps
    return made


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((200, 196, 90, 100), "only 4 of its 200 calls were recorded, too few to know whether they repeat"),
        ((200, 100, 90, 100), "its calls hardly repeat: most of what 100 of its 200 calls recorded was new"),
        ((200, 196, 10, 100), "recording and planning 4 of its 200 calls has taken longer than it saved so far"),
        ((200, 100, 10, 100), "recording and planning 100 of its 200 calls has taken longer than it saved so far"),
    ],
)
def test_that_calls_hardly_repeat_is_said_only_where_enough_were_recorded_to_know(counts, expected):
    assert compiled_function(*counts)._why().startswith(expected)


@needs_native_code
def test_plans_that_are_begun_do_not_count_as_kept(monkeypatch):
    flush = Segment((), [], [], TraceNode(), None, frozenset())
    before = ex.compile.stats()
    monkeypatch.setattr(PLANS, "limit", len(PLANS) + 10)
    PLANS.add(flush)
    after = ex.compile.stats()
    assert after["plans_begun"] == before["plans_begun"] + 1
    assert after["caches"]["plans"][0] == before["caches"]["plans"][0] + 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("index_get", "x[index] or index_select"),
        ("taps", "interpolate or adaptive_avg_pool"),
        ("special_entr", "special.entr"),
        ("argmax", "argmax"),
    ],
)
def test_an_op_is_called_by_the_function_that_makes_it(name, expected):
    assert REGISTRY[name].public_name == expected


@needs_native_code
def test_after_an_error_results_of_earlier_lines_can_be_read_and_later_ones_raise_it_again():
    table, w = ex.ones(3, 4), ex.ones(1, requires_grad=True)

    @ex.compile
    def several(i):
        return i * w, table[i] * w, i.exp() * w

    first, second, third = several(ex.tensor([0, 7]))
    with pytest.raises(ex.errors.IndexRangeError):
        first.tolist()
    assert first.tolist() == [0.0, 7.0]
    for result in (second, third, second):
        with pytest.raises(ex.errors.IndexRangeError):
            result.tolist()
