"""Tokens, hosts, pages of others, and how many requests there may be."""

from __future__ import annotations

import asyncio

import pytest

from extempo.serving.gate import LOOPBACK, Gate, _route, name_of
from extempo.serving.metrics import Metrics
from extempo.serving.settings import Limits

from .client import message_of, serving

BODY = {"inputs": {"x": [[1, 2, 3]]}}


def test_a_token_is_asked_for_where_something_can_be_done(scaling):
    with serving(_token="a secret of ours".replace(" ", "-"), m=scaling) as (_, client):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic a-secret-of-ours"}):
            answer = client.post("/predict", BODY, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert client.get("/metrics", headers=headers).status_code == 401
        good = {"Authorization": "Bearer a-secret-of-ours"}
        assert client.post("/predict", BODY, headers=good).status_code == 200
        assert client.get("/openapi.json", headers=good).json()["security"] == [{"token": []}]
        for path in ("/", "/health", "/ready"):
            assert client.get(path).status_code == 200


def test_tokens_are_compared_in_constant_time(scaling, monkeypatch):
    import hmac

    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    with serving(_token="12345678", m=scaling) as (_, client):
        client.post("/predict", BODY, headers={"Authorization": "Bearer 1234"})
    assert compared == [(b"1234", b"12345678")]


def test_other_hosts_and_pages_of_others_are_turned_away(scaling):
    with serving(_hosts=LOOPBACK, m=scaling) as (_, client):
        assert client.post("/predict", BODY, headers={"Host": "localhost:8000"}).status_code == 200
        assert client.post("/predict", BODY, headers={"Host": "[::1]:8000"}).status_code == 200
        answer = client.post("/predict", BODY, headers={"Host": "evil.example"})
        assert answer.status_code == 421
        assert "localhost" in message_of(answer)
        assert client.post("/predict", BODY, headers={"Origin": "http://evil.example"}).status_code == 403
        assert client.post("/predict", BODY, headers={"Origin": f"http://127.0.0.1:{client.port}"}).status_code == 200


def test_more_requests_than_allowed_are_refused_and_counted():
    async def scenario():
        release = asyncio.Event()

        async def slow(scope, receive, send):
            await release.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        metrics = Metrics()
        gate = Gate(slow, Limits(max_requests=2), metrics, None, None)
        statuses = []

        async def send(message):
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        def request(path):
            return gate({"type": "http", "path": path, "method": "POST", "headers": []}, None, send)

        tasks = [asyncio.create_task(request("/predict")) for _ in range(2)]
        await asyncio.sleep(0)
        await request("/predict")
        assert statuses == [503]
        release.set()
        await asyncio.gather(*tasks)
        assert statuses == [503, 200, 200]
        assert metrics.requests.value("/predict", "503") == 1
        assert metrics.requests.value("/predict", "200") == 2
        assert gate.n_requests == 0

    asyncio.run(scenario())


def test_a_request_that_goes_on_for_ever_is_ended():
    async def scenario():
        async def stuck(scope, receive, send):
            await asyncio.Event().wait()

        gate = Gate(stuck, Limits(timeout=0.01, body_timeout=0.01), Metrics(), None, None)
        statuses = []

        async def send(message):
            statuses.append(message.get("status"))

        await gate({"type": "http", "path": "/predict", "method": "POST", "headers": []}, None, send)
        assert statuses == [504, None]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("host", "name"), [("localhost:80", "localhost"), ("[::1]:80", "::1"), ("A.example", "a.example"), ("", "")]
)
def test_thename_of_a_host(host, name):
    assert name_of(host) == name


def test_paths_are_counted_under_few_names():
    assert [_route(p) for p in ("/", "/predict/a/1", "/x/y", "//", "/ready")] == [
        "/",
        "/predict",
        "other",
        "/",
        "/ready",
    ]
