"""Models by name and version, and files that are read anew while requests come."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ArgumentError
from extempo.serving.models import example, parse_model, parse_models, runner_of
from extempo.serving.refusals import BadRequest
from extempo.serving.runners import OneByOne, OpenRunner
from extempo.serving.settings import Limits

from .client import message_of, serving, wait_until


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.extempo", ("a", 1, "a.extempo")),
        ("dir/my model.extempo", ("my_model", 1, "dir/my model.extempo")),
        ("n=a.extempo", ("n", 1, "a.extempo")),
        ("n:3=a=b.extempo", ("n", 3, "a=b.extempo")),
    ],
)
def test_models_are_named_on_the_command_line(text, expected):
    name, version, path = parse_model(text)
    assert (name, version, str(path)) == expected


def test_names_that_are_none_are_refused(scaling):
    with pytest.raises(ArgumentError, match="whole number"):
        parse_model("n:x=a.extempo")
    with pytest.raises(ArgumentError, match="at least one"):
        parse_models([])
    with serving(m=scaling) as (service, _):
        with pytest.raises(ArgumentError, match="letters"):
            service.models.add("a/b", 1, scaling)
        with pytest.raises(ArgumentError, match="two models m:1"):
            service.models.add("m", 1, scaling)


def test_versions_are_found_and_the_highest_is_the_default(scaling):
    other = ex.program(lambda x: x * 3, ex.ones(2, 3), dynamic={"x": {0: "n"}})
    with serving(m=scaling) as (service, client):
        service.models.add("m", 2, other)
        body = {"inputs": {"x": [[1, 1, 1]]}}
        for path, factor in (("/predict", 3), ("/predict/m", 3), ("/predict/m/1", 2), ("/predict/m/2", 3)):
            answer = client.post(path, body)
            assert answer.json()["outputs"]["output"] == [[factor] * 3]
        assert answer.headers["x-model"] == "m:2"
        assert "it has 1, 2" in message_of(client.post("/predict/m/7", body))
        assert "there are m" in message_of(client.post("/predict/nobody", body))
        assert client.post("/predict/m/x", body).status_code == 404


def test_samples_that_do_not_fit_are_refused_before_they_wait(tagger):
    with serving(m=tagger) as (service, _):
        model = service.models.find()
        with pytest.raises(BadRequest, match="from 1 to 50"):
            model.tensors({"tokens": np.zeros(51, np.int64)})


def test_an_example_has_small_sizes_that_are_allowed(tagger, scaling):
    assert example(tagger)["tokens"].shape == (3,)
    assert example(scaling)["x"].shape == (3, 3)


def test_batches_of_one_run_one_by_one_if_they_come_to_an_end(tagger, doubling):
    assert isinstance(runner_of(tagger, Limits(max_batch=1)), OneByOne)
    assert isinstance(runner_of(doubling, Limits(max_batch=1)), OpenRunner)
    assert isinstance(runner_of(tagger, Limits()), OpenRunner)


def test_a_reload_loses_no_request(tmp_path, scaling):
    path = tmp_path / "m.extempo"
    scaling.save(str(path))
    other = ex.program(lambda x: x * 3, ex.ones(2, 3), dynamic={"x": {0: "n"}})
    with serving() as (service, client):
        service.models.add("m", 1, path)
        stop = threading.Event()
        answers = []

        def ask():
            while not stop.is_set():
                answers.append(client.post("/predict", {"inputs": {"x": [[1, 1, 1]]}}))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(answers) > 5)
        other.save(str(path))
        assert client.post("/reload").status_code == 200
        seen = len(answers)
        wait_until(lambda: len(answers) > seen + 10)
        stop.set()
        for thread in threads:
            thread.join()
        assert {answer.status_code for answer in answers} == {200}
        assert answers[0].json()["outputs"]["output"][0][0] == 2
        assert answers[-1].json()["outputs"]["output"][0][0] == 3
        assert list(service.engine.numbers()) == ["m"]


def test_a_file_that_cannot_be_read_leaves_the_model_as_it_was(tmp_path, scaling):
    path = tmp_path / "m.extempo"
    scaling.save(str(path))
    with serving() as (service, client):
        service.models.add("m", 1, path)
        path.write_bytes(b"no program")
        answer = client.post("/reload/m")
        assert answer.status_code == 409
        assert "stays as it was" in message_of(answer)
        assert client.post("/predict", {"inputs": {"x": [[1, 1, 1]]}}).status_code == 200
        assert client.post("/reload/nobody").status_code == 404
        path.unlink()
        assert client.post("/reload").status_code == 409
