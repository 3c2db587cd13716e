"""Routes and sockets, over a real connection: what they give, and what hostile and slow pages get."""

from __future__ import annotations

import http.client
import json
import socket
import threading

import pytest

import extempo as ex
from extempo import nn
from extempo.studio_server import app as apps

from .helpers import DEADLINE, FakePage, Training

pytest.importorskip("websockets", reason="the studio needs websockets")


@pytest.fixture
def address(fresh_studio):
    with ex.studio(show=False) as watched:
        yield watched.address


def get(address, path, headers=None, token=True):
    """(status, headers, body)"""
    place, _, token_text = address.removeprefix("http://").partition("/?")
    connection = http.client.HTTPConnection(place, timeout=DEADLINE)
    try:
        connection.request("GET", f"{path}?{token_text}" if token else path, headers=headers or {})
        response = connection.getresponse()
        return response.status, dict(response.headers), response.read()
    finally:
        connection.close()


class Loop:
    """A small training."""

    def __init__(self):
        self.model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.optimizer = ex.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self):
        loss = self.model(ex.ones(5, 3)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def test_files_of_the_page_are_there_without_a_token(address):
    status, headers, body = get(address, "/", token=False)
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert b"<html" in body
    status, headers, body = get(address, "/viewer.js", token=False)
    assert status == 200
    assert b"layOut" in body


@pytest.mark.parametrize(
    "path",
    [
        *("/../app.py", "/..%2fapp.py", "/%2e%2e/%2e%2e/cli/main.py", "/app.py", "/page/index.html", "//etc/passwd"),
        *("/api/nothing", "/viewer.js/../../x"),
    ],
)
def test_nothing_else_is_served(address, path):
    assert get(address, path)[0] == 404


def test_the_page_is_small_enough():
    files = [path for path in apps.PAGE.rglob("*") if path.suffix in apps.KINDS]
    assert sum(path.stat().st_size for path in (*files, apps.VIEWER)) < 300_000


def test_the_page_loads_nothing_from_elsewhere_and_has_nothing_inline():
    text = (apps.PAGE / "index.html").read_text()
    assert "http://" not in text
    assert "https://" not in text
    assert "<style" not in text
    assert " onclick=" not in text


def test_state_and_lessons_are_told_as_json(address):
    status, _, body = get(address, "/api/state")
    assert status == 200
    assert json.loads(body)["type"] == "hello"
    assert "available" in json.loads(get(address, "/api/lessons")[2])
    assert get(address, "/api/state", token=False)[0] == 403


def test_a_run_can_be_taken_home_as_csv_and_a_capture_as_json(fresh_studio):
    loop = Loop()
    found = {}

    def visit():
        with FakePage(watched.address) as page:
            page.send(type="every", id="e", every=1)
            number = page.until("capture")["number"]
            page.until("steps")
            found["csv"] = get(watched.address, "/api/run/1.csv")
            found["capture"] = get(watched.address, f"/api/capture/{number}")
            found["none"] = get(watched.address, "/api/run/99.csv")[0], get(watched.address, "/api/capture/0")[0]

    with ex.studio(loop.model, show=False) as watched:
        Training(visit).loop(loop.step)
    status, headers, body = found["csv"]
    assert status == 200
    assert headers["content-disposition"].startswith("attachment")
    assert body.splitlines()[0].startswith(b"step,epoch,time,seconds,loss")
    assert json.loads(found["capture"][2])["type"] == "capture"
    assert found["none"] == (404, 404)


def test_a_page_sees_captures_and_steps_of_a_loop_and_inserts_a_layer(fresh_studio):
    loop = Loop()
    seen = []

    def visit():
        with FakePage(watched.address) as page:
            assert page.receive()["type"] == "hello"
            before = page.until("capture")["n_ops"]
            answer = page.answer(type="insert", id="c1", container="", position=1, layer={"kind": "Linear"})
            seen.append(answer)
            seen.append(page.until("capture", lambda m: m["n_ops"] == before + 1))
            seen.append(page.until("steps"))

    with ex.studio(loop.model, show=False) as watched:
        assert Training(visit).loop(loop.step) > 3
    assert seen[0]["ok"]
    assert len(loop.model) == 4
    assert {id(p) for g in loop.optimizer.param_groups for p in g["params"]} == {id(p) for p in loop.model.parameters()}
    assert all(r["loss"] is not None for r in seen[2]["records"])


def test_two_pages_see_the_same_and_one_may_go(fresh_studio):
    loop = Loop()

    def visit():
        with FakePage(watched.address) as first:
            with FakePage(watched.address) as second:
                first.until("capture")
                second.until("capture")
                first.send(type="lr", id="c1", lr=0.5)
                assert second.until("mark")["mark"]["text"].startswith("learning rate 0.5")
            first.until("state", lambda m: m["watching"] == 1)
            first.until("steps")

    with ex.studio(loop.model, show=False) as watched:
        Training(visit).loop(loop.step)


@pytest.mark.parametrize("text", ["", "null", "{", '{"type": "nonsense", "id": "x"}', "[" * 1000])
def test_what_is_no_command_is_answered_and_the_page_stays(address, text):
    with FakePage(address) as page:
        page.send_text(text)
        assert page.until("answer")["ok"] is False
        page.send(type="node", id="n", capture=1, node=1)
        assert page.until("node")["gone"]


def closing_code(page, send):
    """Send, and the code with which the socket is closed then."""
    from websockets.exceptions import ConnectionClosed

    try:
        for _ in range(300):  # more than a burst
            send()
        while True:
            page._socket.recv(timeout=DEADLINE)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else None


def test_a_message_that_is_too_large_closes_the_socket(address):
    with FakePage(address) as page:
        assert closing_code(page, lambda: page.send_text("x" * 100_000)) in (1009, None)
    with FakePage(address) as page:
        assert page.receive()["type"] == "hello"


def test_binary_messages_and_floods_close_the_socket(address):
    with FakePage(address) as page:
        assert closing_code(page, lambda: page._socket.send(b"\0\1")) == 1008
    with FakePage(address) as page:
        assert closing_code(page, lambda: page.send_text("{}")) == 1008


def test_more_pages_than_there_is_room_for_are_sent_away(address, monkeypatch):
    monkeypatch.setattr(apps, "MOST_PAGES", 1)
    with FakePage(address) as page:
        page.receive()
        with FakePage(address) as other:
            assert closing_code(other, lambda: None) == 1013
        page.send_text("{}")
        assert page.until("answer")


def test_a_socket_without_the_token_or_from_another_page_is_refused(address):
    from websockets.exceptions import InvalidStatus

    with pytest.raises(InvalidStatus) as refused:
        FakePage(address[:-3] + "xyz")
    assert refused.value.response.status_code == 403
    with pytest.raises(InvalidStatus):
        FakePage(address, origin="http://evil.example")


def test_a_page_that_does_not_read_does_not_hold_up_training(fresh_studio):
    """It connects and never reads: its buffers fill, and steps go on."""
    loop = Loop()
    place = {}

    def visit():
        host, _, rest = watched.address.removeprefix("http://").partition("/?")
        name, port = host.split(":")
        mute = socket.create_connection((name, int(port)), timeout=DEADLINE)
        mute.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        mute.sendall(
            f"GET /ws?{rest} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        with FakePage(watched.address) as page:
            page.send(type="every", id="e", every=1)
            first = page.until("capture")["step"]
            place["first"], place["last"] = first, page.until("capture", lambda m: m["step"] > first + 200)["step"]
        mute.close()

    with ex.studio(loop.model, show=False) as watched:
        Training(visit).loop(loop.step)
    assert place["last"] > place["first"] + 200


@pytest.mark.slow
def test_ten_thousand_watched_steps_leave_memory_bounded(fresh_studio):
    from extempo.inspect.memory import resident_bytes
    from extempo.studio_server import api
    from extempo.studio_server.run_history import MOST_RECORDS

    loop = Loop()
    done = threading.Event()
    grown = []

    def visit():
        with FakePage(watched.address) as page:
            while not done.is_set():
                page.receive()
                del page.messages[:]

    with ex.studio(loop.model, show=False, every=10) as watched:
        watched._watch.pacing.beside = lambda seconds: None
        watched._watch.pacing.between_notes = 0.0
        visitor = threading.Thread(target=visit, daemon=True)
        visitor.start()
        while not api.process_studio()[0].outboxes.n_pages:
            pass
        for _ in range(5):
            for _ in range(2000):
                loop.step()
            grown.append(resident_bytes())
        session, _ = api.process_studio()
        assert len(session.run.records) <= MOST_RECORDS + 1
        assert session.run.records[-1]["step"] == 10_000
        assert len(session.captures.numbers()) <= 20
        done.set()
        for _ in range(50):
            loop.step()
    visitor.join(DEADLINE)
    assert grown[-1] - grown[1] < 60 << 20  # the last 6,000 steps
