"""Clients that begin and never end: their connections close, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import socket

import pytest

from extempo.serving.settings import Limits

from .client import serving

pytestmark = pytest.mark.alone  # others would have to be as quick as the server asks of its clients

LIMITS = Limits(body_timeout=0.2)


def talk(port, data):
    """What a server says to a client that sends this, and then nothing more; b"" if it closes without a word."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(data)
        said = b""
        while part := client.recv(65536):
            said += part
        return said


def test_headers_that_never_end_keep_no_connection(scaling):
    with serving(m=scaling, _limits=LIMITS) as (_, client):
        assert talk(client.port, b"") == b""
        assert talk(client.port, b"POST /predict HTTP/1.1\r\nHost: localhost\r\n") == b""
        assert client.get("/health").status_code == 200


def test_a_second_request_has_no_more_time_than_the_first(scaling):
    with serving(m=scaling, _limits=LIMITS) as (_, client):
        said = talk(client.port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea")
        assert said.count(b"HTTP/1.1 200") == 1


def test_a_body_that_never_ends_is_408(scaling):
    with serving(m=scaling, _limits=LIMITS) as (_, client):
        said = talk(client.port, b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert said.startswith(b"HTTP/1.1 408")
        assert b"within 0.2 s" in said
        assert client.get("/health").status_code == 200


def test_a_request_in_time_is_not_ended_while_it_runs(doubling):
    """Longer than the patience with headers, and within the time of a request."""
    limits = Limits(body_timeout=0.1, timeout=1.0)
    with serving(m=doubling, _limits=limits) as (_, client):
        answer = client.post("/predict", {"inputs": {"x": [-1, -1, -1]}})
        assert answer.status_code == 504
        assert "longer than 1 s" in answer.text


class Sink:
    """A transport that notes what it is told."""

    def __init__(self):
        self.sent = []

    def write(self, data):
        self.sent.append(data)

    def close(self):
        self.sent.append("closed")

    def is_closing(self):
        return "closed" in self.sent


def test_what_is_written_in_one_turn_is_sent_as_one():
    from extempo.serving.slow_clients import JoinedWrites

    async def answer():
        sink = Sink()
        joined = JoinedWrites(sink, asyncio.get_running_loop())
        joined.write(b"head")
        joined.write(b"")
        joined.write(b"body")
        assert sink.sent == []
        await asyncio.sleep(0)
        joined.write(b"small")
        joined.write(bytes(1 << 17))
        joined.write(b"last")
        joined.close()
        await asyncio.sleep(0)
        return sink.sent, joined.is_closing()

    sent, is_closing = asyncio.run(answer())
    assert sent == [b"headbody", b"small", bytes(1 << 17), b"last", "closed"]
    assert is_closing
