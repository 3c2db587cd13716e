"""Requests and answers: three forms of bodies, refusals that say what was expected, samples that harm no others."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest

import extempo as ex
from extempo.serving.app import Service
from extempo.serving.bodies import ARROW, NPZ
from extempo.serving.settings import Limits

from .client import message_of, serving, wait_until


def ask(client, tokens, **options):
    return client.post("/predict", {"inputs": {"tokens": tokens}}, **options)


def expected(program, tokens):
    return program(ex.tensor(tokens)).numpy()


def test_one_sample_as_json(tagger):
    with serving(m=tagger) as (_, client):
        answer = ask(client, [1, 2, 3])
        assert answer.status_code == 200
        assert np.allclose(answer.json()["outputs"]["output"], expected(tagger, [1, 2, 3]), atol=1e-6)
        assert answer.headers["x-model"] == "m:1"


def test_one_sample_as_an_archive_and_one_answered_as_one(tagger):
    file = io.BytesIO()
    np.savez(file, tokens=np.array([4, 5]))
    with serving(m=tagger) as (_, client):
        answer = client.post("/predict", content=file.getvalue(), headers={"Content-Type": NPZ})
        assert answer.headers["content-type"] == NPZ
        assert np.allclose(np.load(io.BytesIO(answer.content))["output"], expected(tagger, [4, 5]), atol=1e-6)
        assert np.load(io.BytesIO(ask(client, [4, 5], headers={"Accept": NPZ}).content))["output"].shape == (3,)
        assert (
            "outputs"
            in client.post(
                "/predict",
                content=file.getvalue(),
                headers={"Content-Type": NPZ, "Accept": "text/html, application/json"},
            ).json()
        )


def test_rows_of_an_arrow_stream_are_samples(tagger):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"tokens": [[1, 2, 3], [99], [4]]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with serving(m=tagger) as (_, client):
        answer = client.post("/predict", content=sink.getvalue().to_pybytes(), headers={"Content-Type": ARROW})
        rows = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert np.allclose(rows[0]["output"], expected(tagger, [1, 2, 3]), atol=1e-6)
    assert rows[1]["output"] is None
    assert "99" in rows[1]["error"]
    assert np.allclose(rows[2]["output"], expected(tagger, [4]), atol=1e-6)


def test_requests_of_different_length_run_together(tagger):
    limits = Limits(max_wait=0.5, max_batch=4)
    with serving(m=tagger, _limits=limits) as (service, client):
        before = service.metrics.batches.count("m")
        answers = {}

        def one(n):
            answers[n] = ask(client, list(range(n)))

        threads = [threading.Thread(target=one, args=(n,)) for n in (1, 3, 5, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(lambda: service.metrics.batches.count("m") > before)  # a batch is counted after its answers
        assert service.metrics.batches.count("m") == before + 1
        for n, answer in answers.items():
            assert np.allclose(answer.json()["outputs"]["output"], expected(tagger, list(range(n))), atol=1e-6)


def test_bad_samples_of_a_list_harm_no_others(tagger):
    instances = [{"tokens": t} for t in ([1, 2], [1, 99], [], [[1]], [1.5], "x", [3])]
    with serving(m=tagger) as (service, client):
        found = client.post("/predict", {"instances": instances}).json()["predictions"]
        assert [i for i, one in enumerate(found) if "outputs" in one] == [0, 6]
        assert np.allclose(found[0]["outputs"]["output"], expected(tagger, [1, 2]), atol=1e-6)
        assert {one["error"]["status"] for one in found if "error" in one} == {422}
        assert service.metrics.samples.value("m", "refused") == 5


@pytest.mark.parametrize(
    ("tokens", "message"),
    [([1, 99], "99"), ([], "from 1 to 50"), ([[1]], "i64\\[n\\]"), ([0.5], "i64\\[n\\]"), (None, "i64\\[n\\]")],
)
def test_a_sample_that_does_not_fit_is_told_what_was_expected(tagger, tokens, message):
    with serving(m=tagger) as (_, client):
        answer = ask(client, tokens)
        assert answer.status_code == 422
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(message_of(answer))


def test_values_decide_how_long_a_sample_runs(doubling):
    with serving(m=doubling) as (_, client):
        answer = client.post("/predict", {"instances": [{"x": [1, 1, 1]}, {"x": [50, 50, 50]}]})
        counts = [one["outputs"]["output.n"] for one in answer.json()["predictions"]]
        assert counts == [6, 0]


@pytest.mark.alone
def test_a_sample_that_never_ends_is_ended_and_others_are_answered(doubling):
    with serving(m=doubling, _limits=Limits(timeout=0.3)) as (_, client):
        endless, good = client.post("/predict", {"instances": [{"x": [-1, -1, -1]}, {"x": [1, 1, 1]}]}).json()[
            "predictions"
        ]
        assert endless["error"]["status"] == 504
        assert good["outputs"]["output.n"] == 6


def test_bodies_that_are_too_large_are_refused(tagger):
    with serving(m=tagger, _limits=Limits(max_body=1000)) as (_, client):
        assert client.post("/predict", content=b"x" * 1001).status_code == 413

        def parts():
            for _ in range(3):
                yield b"x" * 500

        answer = client.post("/predict", content=parts())
        assert answer.status_code == 413
        assert "1000 bytes" in message_of(answer)


def test_unknown_types_paths_and_methods_are_refused_in_json(tagger):
    with serving(m=tagger) as (_, client):
        answer = client.post("/predict", content=b"a", headers={"Content-Type": "text/csv"})
        assert answer.status_code == 415
        assert "application/json" in message_of(answer)
        assert "/predict" in message_of(client.get("/nowhere"))
        answer = client.get("/predict")
        assert answer.status_code == 405
        assert "GET is not possible here, POST is" in answer.text
        assert answer.headers["allow"] == "POST"


def test_a_full_queue_is_429_with_a_time_to_come_back(tagger):
    with serving(m=tagger, _limits=Limits(max_queue=4)) as (service, client):
        lane = service.models.find().lane
        lane.runner.step = threading.Event().wait  # it is stuck
        lane.runner.running = ["someone"]
        lane.waiting.extend([None] * 4)
        answer = ask(client, [1])
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        lane.waiting.clear()
        lane.runner.running = []


def test_mistakes_of_the_program_are_500_and_logged(scaling, monkeypatch):
    log = []
    with serving(m=scaling, _log=log.append) as (service, client):
        monkeypatch.setattr(service.models.find().lane.runner, "_function", lambda tensors: 1 / 0)
        answer = client.post("/predict", {"inputs": {"x": [[1, 2, 3]]}})
        assert answer.status_code == 500
        assert "division" not in answer.text
        assert "ZeroDivisionError" in log[0]


def test_too_little_memory_is_413(scaling, monkeypatch):
    def hungry(tensors):
        raise MemoryError

    with serving(m=scaling) as (service, client):
        monkeypatch.setattr(service.models.find().lane.runner, "_function", hungry)
        assert client.post("/predict", {"inputs": {"x": [[1, 2, 3]]}}).status_code == 413


def test_health_readiness_models_and_metrics(tagger):
    with serving(m=tagger) as (service, client):
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/ready").json() == {"status": "ready"}
        (model,) = client.get("/models").json()["models"]
        assert model["inputs"] == {"tokens": "i64[n]"}
        assert model["sizes"] == {"n": [1, 50]}
        ask(client, [1])
        text = client.get("/metrics").text
        assert 'extempo_requests_total{route="/predict",status="200"} 1' in text
        assert 'extempo_queue_samples{model="m"} 0' in text
        service.gate.is_closing = True
        assert client.get("/ready").status_code == 503


def test_a_server_is_not_ready_before_its_models_were_tried(tagger):
    service = Service()
    service.models.add("m", 1, tagger)
    assert not service.models.is_ready


def test_what_was_accepted_is_finished_at_the_end(tagger):
    limits = Limits(max_wait=0.7, max_batch=8)
    answers = []
    with serving(m=tagger, _limits=limits) as (service, client):
        thread = threading.Thread(target=lambda: answers.append(ask(client, [1, 2])))
        thread.start()
        wait_until(lambda: service.engine.numbers()["m"] == (1, 0))
        service.engine.close()
        thread.join()
    assert answers[0].status_code == 200


def test_large_bodies_are_read_beside_the_others(scaling):
    x = np.ones((20_000, 3), np.float32)
    with serving(m=scaling) as (_, client):
        answer = client.post("/predict", {"inputs": {"x": x.tolist()}})
        assert np.array_equal(answer.json()["outputs"]["output"], 2 * x)


def test_the_page_comes_with_its_policy(tagger):
    with serving(m=tagger) as (_, client):
        answer = client.get("/")
        assert answer.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
