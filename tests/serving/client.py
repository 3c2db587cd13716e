"""A service on a port of this machine, in a thread of this process, and a client of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time

from extempo.serving.app import Service
from extempo.serving.server import bound_socket, make_server
from extempo.serving.settings import Limits


class Answer:
    """What came back."""

    def __init__(self, response):
        self.status_code = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.content = response.read()

    @property
    def text(self):
        return self.content.decode()

    def json(self):
        return json.loads(self.content)


class Client:
    """A connection for each request, so that any thread may ask."""

    def __init__(self, port):
        self.port = port

    def get(self, path, headers=None):
        return self._ask("GET", path, None, headers)

    def post(self, path, json_body=None, content=None, headers=None):
        headers = dict(headers or {})
        if json_body is not None:
            content = json.dumps(json_body).encode()
            headers.setdefault("Content-Type", "application/json")
        return self._ask("POST", path, content, headers)

    def _ask(self, method, path, body, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()


@contextlib.contextmanager
def listening(service):
    """The service on a free port, from when its models have been tried to its clean end."""
    socket = bound_socket("127.0.0.1", 0)
    server = make_server(service)
    thread = threading.Thread(target=server.run, args=([socket],))
    port = socket.getsockname()[1]
    thread.start()
    try:
        wait_until(lambda: service.models.is_ready and server.started)
        yield Client(port)
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


@contextlib.contextmanager
def serving(_token=None, _hosts=None, _log=lambda text: None, _limits=None, **models):
    """A service of these programs, by name, and a client."""
    service = Service(_limits or Limits(), _token, _hosts, _log)
    for name, program in models.items():
        service.models.add(name, 1, program)
    with listening(service) as client:
        yield service, client


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.002)


def message_of(answer):
    return answer.json()["error"]["message"]
