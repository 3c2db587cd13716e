"""What waits for a page is bounded: of pictures the newest, of steps the last ones, of answers all."""

from __future__ import annotations

import json

from extempo.studio_server.outboxes import MOST_STEPS, MOST_WAITING, Outboxes


def made():
    changes = []
    outboxes = Outboxes(lambda: changes.append(outboxes.n_pages if changes else 1))
    return outboxes, outboxes.add()


def test_of_pictures_only_the_newest_waits():
    outboxes, box = made()
    for number in range(100):
        outboxes.post({"type": "capture", "number": number})
    assert [json.loads(text)["number"] for text in box.take()] == [99]
    assert box.take() == []


def test_answers_and_epochs_all_come_in_order():
    outboxes, box = made()
    for number in range(5):
        outboxes.post({"type": "epoch", "epoch": number})
    assert [json.loads(text)["epoch"] for text in box.take()] == [0, 1, 2, 3, 4]


def test_a_slow_page_misses_steps_and_is_told_how_many():
    outboxes, box = made()
    for step in range(MOST_STEPS + 50):
        outboxes.post_step(1, {"step": step})
    (message,) = map(json.loads, box.take())
    assert message["skipped"] == 50
    assert len(message["records"]) == MOST_STEPS
    assert message["records"][-1]["step"] == MOST_STEPS + 49


def test_nothing_waits_without_bound():
    outboxes, box = made()
    for _ in range(10 * MOST_WAITING):
        outboxes.post({"type": "answer", "id": ""})
    assert len(box.take()) == MOST_WAITING


def test_steps_of_two_runs_come_apart():
    outboxes, box = made()
    outboxes.post_step(1, {"step": 5})
    outboxes.post_step(2, {"step": 1})
    assert [json.loads(text)["run"] for text in box.take()] == [1, 2]


def test_a_page_that_went_gets_nothing_and_is_not_counted():
    outboxes, box = made()
    other = outboxes.add()
    outboxes.remove(box)
    outboxes.post({"type": "epoch"})
    assert outboxes.n_pages == 1
    assert box.take() == []
    assert len(other.take()) == 1
