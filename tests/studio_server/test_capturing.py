"""A captured iteration has the graph in the order of its lines, and gradients in the order of backward."""

from __future__ import annotations

import contextlib
import json
import sys

import pytest

import extempo as ex
from extempo import nn
from extempo.nn import functional as F
from extempo.studio_server import capturing
from extempo.studio_server.capturing import (
    IterationCapture,
    KeptCapture,
    KeptCaptures,
    capture_message,
    diagram_of_failure,
    error_message,
)

ABOUT = {"run": 1, "step": 1, "title": "step 1", "seconds": 0.1}


class Reader(nn.Module):
    """As many steps as words."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 3)
        self.cell = nn.GRUCell(3, 4)
        self.score = nn.Linear(4, 2)

    def forward(self, words):
        state = ex.zeros(4)
        for word in words:
            state = self.cell(self.embed(word), state)
        return self.score(state)


def captured(model, step):
    capture = IterationCapture({"": model})
    capture.start()
    try:
        step()
    finally:
        capture.stop()
    return capture


def kept_of(capture, number=1, previous=None):
    kept = KeptCapture(number, capture.finished(), capture)
    return kept, capture_message(kept, ABOUT, previous, capture)


def iteration(model, words):
    def step():
        F.cross_entropy(model(words), ex.tensor(1)).backward()

    return step


def test_nodes_come_in_the_order_in_which_lines_ran_and_backward_in_its_own():
    w = ex.tensor([2.0, 3.0], requires_grad=True)
    model = nn.Linear(1, 1)

    def step():
        y = w * 3
        z = y.exp()
        z.sum().backward()

    capture = captured(model, step)
    kept, message = kept_of(capture)
    titles = [message["graph"]["elements"][n]["op"] for n in message["order"]]
    assert titles == ["mul", "exp", "sum"]
    assert [message["graph"]["elements"][n]["op"] for n in message["backward"]] == ["sum", "exp", "mul"]
    exp = next(n for n in message["order"] if message["graph"]["elements"][n]["op"] == "exp")
    node = kept.node(exp)
    assert node["value"]["heat"]["values"][0] == pytest.approx([403.43, 8103.1], rel=1e-3)
    assert node["gradient"]["heat"]["values"] == [[1.0, 1.0]]
    assert node["where"].startswith(__file__)
    assert any("z = y.exp()" in line for _, line in node["code"])


def test_a_longer_sample_changes_the_picture_and_the_difference_says_so():
    model = Reader()
    first, _ = kept_of(captured(model, iteration(model, [1, 2, 3])))
    _, message = kept_of(captured(model, iteration(model, [1, 2, 3, 4, 5, 6, 7])), 2, first)
    assert "added" in message["diff"]["text"]
    assert message["diff"]["previous"] == 1
    assert "added" in message["diff"]["status"].values()
    loops = [e["t"] for e in message["graph"]["elements"] if e.get("per")]
    assert any("x 7" in title for title in loops)


def test_the_same_iteration_again_differs_in_nothing():
    model = Reader()
    first, _ = kept_of(captured(model, iteration(model, [1, 2])))
    _, message = kept_of(captured(model, iteration(model, [1, 2])), 2, first)
    assert message["diff"]["text"] == "no difference"
    assert message["diff"]["status"] == {}


def test_looking_changes_no_bit_of_what_is_learnt():
    def weights(look):
        ex.manual_seed(3)
        model = Reader()
        optimizer = ex.optim.Adam(model.parameters())
        for words in ([1, 2], [3], [4, 5, 6]):
            step = iteration(model, words)
            captured(model, step) if look else step()
            optimizer.step()
            optimizer.zero_grad()
        return [p.tolist() for p in model.parameters()]

    assert weights(True) == weights(False)


def test_nothing_is_left_behind():
    model = Reader()
    captured(model, iteration(model, [1]))
    assert all(not module._call_hooks for module in model.modules())
    from extempo.core.context import CONTEXT
    from extempo.inspect.observing import _OBSERVING

    assert _OBSERVING.watchers == ()
    assert CONTEXT.get().interceptor is None


def test_each_call_of_the_model_is_a_group_and_its_inputs_are_remembered():
    model = Reader()

    def step():
        ex.batch(lambda words: model(words).sum())([[1, 2], [3]])

    capture = captured(model, step)
    assert [args for args, _ in capture.samples] == [([1, 2],), ([3],)]
    groups = [g for g in capture.finished().groups() if g.detail == "Reader"]
    assert len(groups) == 2


def test_ops_after_the_first_two_thousand_are_counted_only(monkeypatch):
    monkeypatch.setattr(capturing, "MOST_ITEMS", 20)
    x = ex.ones(2, requires_grad=True)

    def step():
        y = x
        for _ in range(50):
            y = y + 1

    capture = captured(nn.Linear(1, 1), step)
    _, message = kept_of(capture)
    assert message["n_ops"] == 20
    assert message["left_out"] == 30


def test_what_runs_in_other_threads_is_left_out():
    import threading

    def step():
        other = threading.Thread(target=lambda: ex.ones(3) * 2)
        other.start()
        other.join()
        ex.ones(2).exp()

    _, message = kept_of(captured(nn.Linear(1, 1), step))
    assert [message["graph"]["elements"][n]["op"] for n in message["order"]][-1] == "exp"
    assert message["n_ops"] <= 2


def test_an_error_shows_the_way_to_the_op_that_failed():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 2))
    capture = IterationCapture({"": model})
    capture.start()
    try:
        model(ex.ones(2, 3))
    except Exception as raised:
        error = raised
    finally:
        capture.stop()
    kept = KeptCapture(1, diagram_of_failure(error, capture), capture)
    message = error_message(error, kept, capture_message(kept, ABOUT, None, capture), "Traceback")
    failing = [e for e in message["capture"]["graph"]["elements"] if e.get("k") == "error"]
    assert len(failing) == 1
    assert failing[0]["op"] == "linear"
    assert type(error).__name__ in message["message"]
    assert message["where"].startswith(__file__)
    assert message["capture"]["n_ops"] == 2


def test_an_error_that_was_not_captured_still_shows_what_led_to_it():
    x = ex.ones(2, 3, requires_grad=True)
    y = x * 2
    try:
        y @ ex.ones(2, 3)
    except Exception as raised:
        error = raised
    diagram = diagram_of_failure(error, None)
    assert [item.op for item in diagram.ops()] == ["mul", "matmul"]


def test_an_error_that_the_program_handled_is_no_error():
    def step():
        with contextlib.suppress(ex.errors.ShapeError):
            ex.ones(2, 3) @ ex.ones(2, 3)
        ex.ones(2).exp()

    _, message = kept_of(captured(nn.Linear(1, 1), step))
    assert message["error"] is None
    assert not any(e.get("k") == "error" for e in message["graph"]["elements"])


def test_memory_of_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(capturing, "_KEPT_BYTES", 100)
    kept = KeptCaptures()
    model = Reader()
    for number in range(1, 40):
        kept.add(kept_of(captured(model, iteration(model, [1, 2])), number)[0])
    assert kept.numbers() == list(range(20, 40))
    assert kept.text(19) is None
    assert json.loads(kept.text(39))["number"] == 39
    has_values = [n for n in kept.numbers() if kept._kept[n].values]
    assert has_values == [39]
    assert kept.node(20, 4)["value"] is None
    assert kept.node(3, 4)["gone"]
    assert kept.node(39, 10**6)["gone"]


@pytest.mark.skipif(sys.gettrace() is not None, reason="tracing takes longer than what is measured")
def test_two_thousand_nodes_make_a_message_of_bounded_size():
    x = ex.ones(2, requires_grad=True)

    def step():
        y = x
        for i in range(1990):
            y = y * 1.5 if i % 3 else y.exp().log()
        y.sum().backward()

    _, message = kept_of(captured(nn.Linear(1, 1), step))
    assert message["n_ops"] <= 2000
    assert len(json.dumps(message)) < 3_000_000
