"""Verdicts follow from figures alone."""

from __future__ import annotations

import pytest

from extempo.comparing.leaks import Leak
from extempo.comparing.verdicts import doubts, judge, learns_worse

from .columns import column


@pytest.mark.parametrize(
    ("seconds", "word"), [(0.5, "good"), (1.0, "good"), (1.14, "good"), (1.2, "watch"), (1.29, "watch"), (1.4, "bad")]
)
def test_the_verdict_is_dynamics_time_relative_to_statics(seconds, word):
    verdict, flags = judge([column("compile", seconds), column("static", 1.0)])
    assert verdict.word == word
    assert f"{seconds:.2f} times as long as static" in verdict.reason
    assert verdict.next
    assert flags == []


def test_the_faster_of_the_dynamic_modes_is_judged():
    verdict, _ = judge([column("eager", 3.0), column("compile", 1.1), column("static", 1.0)])
    assert verdict.word == "good"
    assert verdict.reason.startswith("compile")


def test_times_that_vary_across_a_limit_allow_no_verdict():
    noisy = [1.0, 1.6, 1.1, 1.5, 1.05, 1.7, 1.2]
    verdict, _ = judge([column("compile", noisy), column("static", 1.0)])
    assert verdict.word == "inconclusive"
    assert "more rounds" in verdict.next


def test_times_that_vary_within_one_verdict_do_not_matter():
    verdict, _ = judge([column("compile", [2.0, 3.5, 2.1, 4.0, 2.6, 3.0, 2.2]), column("static", 1.0)])
    assert verdict.word == "bad"


def test_one_round_that_was_disturbed_does_not_count():
    assert judge([column("compile", [1.0] * 6 + [9.0]), column("static", 1.0)])[0].word == "good"


def test_where_static_cannot_run_the_step_that_is_the_result():
    static = column("static", [], taken="0000", error="GraphError: a value is read")
    verdict, _ = judge([column("eager", 2.0), column("compile", 1.0), static])
    assert verdict.word == "dynamic only"
    assert "all 4 batches (4 structures, 1 length)" in verdict.reason
    assert "eager takes 2.00 times as long" in verdict.next


def test_a_static_mode_that_is_faster_on_fewer_inputs_is_overfitted_to_speed():
    verdict, _ = judge([column("compile", 1.5), column("static", 1.0, taken="1010")])
    assert verdict.word == "overfitted to speed"
    assert "static is 1.50 times as fast as compile but takes 2 of 4 batches, compile 4" in verdict.reason


def test_a_static_mode_that_takes_fewer_inputs_and_is_not_faster_leaves_a_good_verdict():
    verdict, _ = judge([column("compile", 1.02), column("static", 1.0, taken="1010")])
    assert verdict.word == "good"
    assert "on the 2 batches that both take" in verdict.reason


LEARNT = {"loss_at_start": 2.0, "loss_same_steps": 1.0, "loss_same_time": 1.5}


def test_a_variant_that_is_faster_but_learns_worse_is_overfitted_to_speed():
    slow = column("compile", 1.0, variant="a", **LEARNT)
    fast = column("compile", 0.5, variant="b", **LEARNT | {"loss_same_steps": 1.9, "loss_same_time": 1.9})
    verdict, _ = judge([slow, fast])
    assert verdict.word == "overfitted to speed"
    assert "b is 2.00 times as fast as a" in verdict.reason
    assert "its loss is 1.9, of a 1" in verdict.reason


def test_a_variant_that_learns_less_a_step_but_more_in_the_same_time_is_not():
    slow = column("compile", 1.0, variant="a", **LEARNT)
    fast = column("compile", 0.5, variant="b", **LEARNT | {"loss_same_steps": 1.2, "loss_same_time": 1.2})
    assert learns_worse(fast, slow) is None
    assert judge([slow, fast])[0].word == "good"


def test_a_worse_metric_counts_like_a_worse_loss():
    metrics = {"metric_same_steps": 0.9, "metric_same_time": 0.8}
    slow = column("compile", 1.0, variant="a", **LEARNT | metrics)
    fast = column("compile", 0.5, variant="b", **LEARNT | {"metric_same_steps": 0.5, "metric_same_time": 0.5})
    verdict, _ = judge([slow, fast])
    assert verdict.word == "overfitted to speed"
    assert "its metric is 0.5, of a 0.9" in verdict.reason


def test_a_variant_that_is_as_fast_and_learns_worse_is_bad():
    a = column("compile", 1.0, variant="a", **LEARNT)
    b = column("compile", 1.0, variant="b", **LEARNT | {"loss_same_steps": 1.9, "loss_same_time": 1.9})
    verdict, _ = judge([a, b])
    assert verdict.word == "bad"
    assert "learns worse" in verdict.reason


def test_a_loss_that_is_nan_is_worse_than_any_other():
    slow = column("compile", 1.0, variant="a", **LEARNT)
    fast = column("compile", 0.5, variant="b", **LEARNT | {"loss_same_steps": float("nan"), "loss_same_time": 9.0})
    assert learns_worse(fast, slow) is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parameter_shapes": [(2, 4)]}, "a has 6 parameters, b 8"),
        ({"parameter_shapes": [(3, 2)]}, "parameters of different shapes"),
        ({"batch_sizes": [4] * 4}, "batch sizes differ: a has 8, b 4"),
        ({"dtypes": ["float64"]}, "a computes in float32, b in float64"),
        ({"threads": [2] * 7}, "a has 1 thread, b 2"),
    ],
)
def test_different_work_is_refused(change, said):
    verdict, flags = judge([column("compile", 1.0, variant="a"), column("compile", 1.0, variant="b", **change)])
    assert verdict.word == "unfair"
    assert said in verdict.reason
    assert [flag.refuses for flag in flags] == [True]


def test_modes_whose_results_do_not_agree_are_refused():
    static = column("static", 1.0)
    static.losses = [[1.0, 0.5, 1.0, 1.0]] * 7
    verdict, _ = judge([column("compile", 1.0), static])
    assert verdict.word == "unfair"
    assert "at step 2 the loss is 1 in compile, 0.5 in static" in verdict.reason


def test_a_mode_that_is_faster_with_other_results_and_learns_worse_is_overfitted_to_speed():
    static = column("static", 0.5, **LEARNT | {"loss_same_steps": 1.9, "loss_same_time": 1.9})
    static.losses = [[1.0, 0.5, 1.0, 1.0]] * 7
    assert judge([column("compile", 1.0, **LEARNT), static])[0].word == "overfitted to speed"


def test_rounding_is_no_disagreement():
    static = column("static", 1.0)
    static.losses = [[1.0 + 1e-6, 1.01, 1.0, 1.0]] * 7
    assert list(doubts([column("compile", 1.0), static])) == []


def test_variants_may_have_other_losses_but_that_is_said():
    b = column("compile", 1.0, variant="b")
    b.losses = [[3.0] * 4] * 7
    verdict, flags = judge([column("compile", 1.0, variant="a"), b])
    assert verdict.word == "good"
    assert [flag.refuses for flag in flags] == [False]


def test_losses_after_the_first_batch_that_one_did_not_see_are_not_compared():
    static = column("static", 1.0, taken="1011")
    static.losses = [[1.0, None, 9.0, 9.0]] * 7
    assert list(doubts([column("compile", 1.0), static])) == []


def test_a_step_that_does_not_repeat_is_named():
    f = column("eager", 1.0)
    f.losses[3] = [2.0] * 4
    (flag,) = doubts([f])
    assert "state=[...]" in flag.text


@pytest.mark.parametrize(
    ("stats", "said"),
    [
        ({"aside": True, "why": "its calls hardly repeat"}, "ex.batch"),
        ({"closed": {"a hook": 3, "a write": 9}}, "9 times early: a write"),
        ({"unplannable": {"too long": 2}}, "no plan: too long"),
        ({}, "static=True fits"),
    ],
)
def test_the_advice_follows_from_what_was_counted(stats, said):
    verdict, _ = judge([column("compile", 2.0, compile_stats=stats), column("static", 1.0)])
    assert said in verdict.next


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.9, "use b"), (1.0, "either: they take about the same time"), (1.2, "use a"), (2.0, "use a")],
)
def test_of_two_steps_the_faster_is_advised(seconds, said):
    verdict, _ = judge([column("compile", 1.0, variant="a"), column("compile", seconds, variant="b")])
    assert verdict.next == said


def test_where_losses_are_not_the_same_figure_a_metric_is_asked_for():
    a, b = column("compile", 1.0, variant="a"), column("compile", 0.5, variant="b")
    b.losses = [[3.0] * 4] * 7
    assert "metric()" in judge([a, b])[0].next
    a.metric_same_steps = b.metric_same_steps = 0.5
    assert judge([a, b])[0].next == "use b"


def test_dynamic_modes_that_are_faster_than_static_are_told_so():
    assert "are faster here" in judge([column("compile", 0.5), column("static", 1.0)])[0].next
    assert "next to nothing" in judge([column("compile", 1.0), column("static", 1.0)])[0].next


def test_a_leak_is_the_next_thing_to_look_after():
    leak = Leak(1.0, 1.0, 4.0, "float32 () made by mean", "train.py:7", "losses")
    verdict, _ = judge([column("compile", 1.0, leak=leak), column("static", 1.0)])
    assert verdict.word == "good"
    assert verdict.next.startswith("stop the leak in compile first")
    assert str(leak) == (
        "each step leaves 1 tensor and 1 graph node behind (4 bytes): float32 () made by mean, at train.py:7; held by "
        "losses"
    )


@pytest.mark.parametrize("what", ["weights", "batches"])
def test_what_a_second_step_does_not_begin_with_is_said_and_refuses_nothing(what):
    verdict, flags = judge([column("compile", 1.0, variant="a"), column("compile", 1.0, variant="b", own=[what])])
    assert verdict.word == "good"
    (flag,) = flags
    assert flag.text.startswith(f"b begins with other {what} than a")


def test_a_step_that_changes_no_parameter_is_named_once():
    _, flags = judge([column("eager", 1.0, trains=False), column("compile", 1.0, trains=False)])
    assert [flag.text for flag in flags] == ["step does not train: it changes no parameter"]


def test_a_loss_that_is_nan_is_named_once_with_its_step():
    columns = [column("eager", 1.0, trains=False), column("compile", 1.0, trains=False)]
    for f in columns:
        f.losses = [[1.0, float("nan"), float("nan"), float("nan")]] * 7
    _, flags = judge(columns)
    assert [flag.text for flag in flags] == ["the loss of step is nan at step 2: what it learns says nothing"]


def test_recordings_that_end_early_now_and_then_are_no_reason():
    stats = {"calls": 100, "closed": {"a node was asked for": 3}}
    verdict, _ = judge([column("compile", 2.0, compile_stats=stats), column("static", 1.0)])
    assert "early" not in verdict.next


def test_a_single_column_has_nothing_to_be_compared_with():
    assert judge([column("eager", 1.0)])[0].word == "inconclusive"


def test_beside_pytorch_alone_our_column_is_judged_against_it():
    verdict, _ = judge([column("compile", 1.0), column("torch", 2.0, variant="torch")])
    assert verdict.reason.startswith("compile takes 0.50 times as long as torch")
