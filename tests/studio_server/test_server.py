"""The server's thread: loopback only, a random token, an end, and an error that says what to install."""

from __future__ import annotations

import builtins
import http.client
import socket

import pytest

from extempo.errors import ArgumentError, UnsupportedError
from extempo.studio_server.server import StudioServer
from extempo.studio_server.session import Session

pytest.importorskip("uvicorn", reason="the studio needs uvicorn")
pytest.importorskip("websockets", reason="the studio needs websockets")


def test_every_server_has_a_token_of_its_own_on_the_loopback_alone():
    servers = [StudioServer(Session()), StudioServer(Session())]
    try:
        assert servers[0].token != servers[1].token
        assert len(servers[0].token) >= 32
        assert all(server.address.startswith("http://127.0.0.1:") for server in servers)
        assert servers[0]._socket.getsockname()[0] == "127.0.0.1"
    finally:
        for server in servers:
            server.close()


def test_it_ends_and_frees_its_port():
    server = StudioServer(Session())
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/")
    assert connection.getresponse().status == 200
    connection.close()
    server.close()
    with pytest.raises(OSError, match=r"."):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)


def test_a_port_that_is_taken_is_named():
    server = StudioServer(Session())
    try:
        with pytest.raises(ArgumentError, match=f"studio: .*{server.port}"):
            StudioServer(Session(), server.port)
    finally:
        server.close()


@pytest.mark.parametrize("missing", ["uvicorn", "websockets", "starlette"])
def test_what_is_missing_is_named_with_what_to_install(monkeypatch, missing):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return real(name, *args, **kwargs)

    import sys

    for name in [name for name in sys.modules if name == "extempo.studio_server.app"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UnsupportedError, match=rf"there is no {missing}.*pip install 'extempo\[studio\]'"):
        StudioServer(Session())
