"""Only this machine's names, only pages of our own, only with the token."""

from __future__ import annotations

import asyncio
import http.client

import pytest

import extempo as ex
from extempo.studio_server.gate import HEADERS, POLICY, PageGate


def answer(headers, path="/api/state", query="token=secret", kind="http", method="GET"):
    """The status that a request gets, and its headers; 200 if it came through."""
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"max-age=9")]})

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in headers],
    }
    asyncio.run(PageGate(app, "secret")(scope, receive, send))
    first = sent[0]
    return first.get("status", first.get("code")), dict(first.get("headers", ()))


HOST = ("Host", "127.0.0.1:8000")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:80", "LOCALHOST:99", "localhost:65535"])
def test_this_machine_may_be_called_by_its_names_at_any_port(host):
    assert answer([("Host", host)])[0] == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "10.0.0.1", "\u00e9"]
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_other_names_are_refused(host, kind):
    assert answer([("Host", host)], kind=kind, path="/ws")[0] in (421, 4403)


def test_a_request_without_a_host_or_with_two_is_refused():
    assert answer([])[0] == 421
    assert answer([HOST, ("Host", "evil.example")])[0] == 421


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:8001", "http://127.0.0.1:8000.evil.example",
     "http://[", "file://", "http://user@evil.example", ""],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_pages_of_others_are_refused(origin, kind):
    assert answer([HOST, ("Origin", origin)], kind=kind, path="/ws")[0] in (403, 4403)


def test_our_own_page_is_let_in():
    assert answer([HOST, ("Origin", "http://127.0.0.1:8000")])[0] == 200


@pytest.mark.parametrize(
    "query", ["", "token=", "token=secre", "token=secret2", "token=secret&token=x", "Token=secret"]
)
@pytest.mark.parametrize("path", ["/api/state", "/ws", "/api/run/1.csv"])
def test_without_the_right_token_nothing_is_told(query, path):
    assert answer([HOST], path=path, query=query)[0] == 403


def test_too_many_fields_in_a_query_are_no_crash():
    assert answer([HOST], query="a=1&" * 100 + "token=secret")[0] == 403


def test_files_need_no_token_and_nothing_can_be_posted():
    assert answer([HOST], path="/", query="")[0] == 200
    assert answer([HOST], path="/", method="POST")[0] == 405


@pytest.mark.parametrize("headers", [[HOST], [("Host", "evil.example")]])
def test_every_answer_has_the_policy(headers):
    _, found = answer(headers)
    for name, value in HEADERS.items():
        assert found[name.encode()] == value.encode()


def test_the_policy_lets_nothing_in_from_elsewhere_and_nothing_inline():
    assert POLICY.startswith("default-src 'self'")
    assert "unsafe" not in POLICY
    assert "http" not in POLICY


def test_a_real_server_refuses_a_foreign_host(fresh_studio):
    with ex.studio(show=False) as watched:
        port = int(watched.address.split(":")[2].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/", headers={"Host": "evil.example"})
        response = connection.getresponse()
        assert response.status == 421
        assert response.headers["content-security-policy"] == POLICY
        assert "server" not in response.headers
        assert "set-cookie" not in response.headers
        connection.close()
