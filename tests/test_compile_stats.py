"""What `ex.compile.stats()`, the log and misspelt requests say, in words."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from math import inf

import pytest

import extempo as ex
from extempo import nn
from extempo.accounting import Account
from extempo.backends.choice import native
from extempo.compile_stats import Stats

needs_native_code = pytest.mark.skipif(native() is None, reason="without native code compiled functions run eagerly")

PLAIN = {
    "name": "f",
    "static": False,
    "calls": 9,
    "eager_calls": 2,
    "waiting_calls": 0,
    "aside": False,
    "why": None,
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


def words(native=True, switched_off=False, **function):
    """The text of the statistics of one function."""
    caches = {"shape rules": (5, 100, 7), "plans": (1, 4000, 0)}
    totals = {"runs": 6, "plans": 1, "replays": 1, "planning_seconds": 0.1, "compile_seconds": 0.2}
    functions = [PLAIN | function]
    return str(Stats(totals, native=native, switched_off=switched_off, functions=functions, caches=caches))


def test_statistics_of_an_ordinary_function_are_two_lines_about_it():
    assert words().splitlines() == [
        "6 runs of 1 plan, 1 op by op; planning took 0.10 s, LLVM 0.20 s",
        "  f: 9 calls (2 eager), 6 runs of 1 plan, 1 op by op",
        "    ops: 21 recorded, 3 of them for the first time; 2 fused into others in its plans",
        "  kept: 1 of at most 4,000 plans, 0 evicted; 5 entries of 1 other bounded caches, 7 evicted",
    ]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ({"static": True}, "f (static): 9 calls"),
        ({"waiting_calls": 1}, "(2 eager, 1 of these while LLVM made kernels)"),
        ({"aside": True, "why": "it never repeats"}, "; runs eagerly now: it never repeats"),
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


def test_it_is_said_why_nothing_is_planned_at_all():
    assert "native backend" in words(native=False)
    assert "EXTEMPO_EAGER" in words(switched_off=True)
    assert "native backend" not in words()
    assert "EXTEMPO_EAGER" not in words()


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


def stats_of(name):
    (found,) = [f for f in ex.compile.stats()["functions"] if f["name"].endswith(name)]
    return found


@needs_native_code
def test_ops_whose_result_nobody_reads_count_as_recorded(monkeypatch):
    monkeypatch.setattr(Account, "eager_next", lambda self: False)
    monkeypatch.setattr(Account, "planning_per_step", lambda self: inf)
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
        getattr(ex, name)


def test_a_module_has_no_compile_and_says_what_to_write():
    with pytest.raises(AttributeError, match=r"model = ex\.compile\(model\)"):
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
