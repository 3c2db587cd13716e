"""The server as a process: it ends cleanly, reloads on SIGHUP, and stands what hostile clients send."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import extempo as ex
from extempo.errors import ArgumentError, UnsupportedError
from extempo.serving.server import bound_socket, hosts_for, make_service

from .client import Client, wait_until

ROOT = Path(ex.__file__).parents[1]


class Process:
    """`extempo serve` with these arguments, on a free port."""

    def __init__(self, *args, **environment):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        command = [sys.executable, "-m", "extempo", "serve", *args, "--port", "0"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self.lines = []
        while True:
            line = self.process.stdout.readline()
            assert line, "".join(self.lines)
            self.lines.append(line)
            if found := re.search(r"Serving on http://[\d.]+:(\d+)", line):
                break
        self.client = Client(int(found[1]))

        def read():
            self.lines.extend(self.process.stdout)

        self._reader = threading.Thread(target=read)
        self._reader.start()
        wait_until(lambda: self._ready())

    def _ready(self):
        try:
            return self.client.get("/ready").status_code == 200
        except ConnectionError:
            return False

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join()
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self.process.stdout.close()


@pytest.fixture
def file(tmp_path, scaling):
    scaling.save(str(tmp_path / "scaling.extempo"))
    return tmp_path / "scaling.extempo"


def ask(client):
    return client.post("/predict", {"inputs": {"x": [[1, 2, 3]]}})


def test_a_server_reloads_on_sighup_and_ends_cleanly_on_sigterm(file):
    with Process(f"m={file}") as server:
        assert ask(server.client).json() == {"outputs": {"output": [[2.0, 4.0, 6.0]]}}
        ex.program(lambda x: x * 3, ex.ones(2, 3), dynamic={"x": {0: "n"}}).save(str(file))
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: ask(server.client).json() == {"outputs": {"output": [[3.0, 6.0, 9.0]]}})
        file.write_bytes(b"no program")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("stays as it was" in line for line in server.lines))
        assert ask(server.client).status_code == 200
        assert server.end() == 0
        assert any("m:1  program(x: f32[n, 3])" in line for line in server.lines)


def test_what_was_accepted_is_answered_before_a_server_ends(file):
    with Process(str(file), "--max-wait", "1s") as server:
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(ask(server.client))) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: 'extempo_queue_samples{model="scaling"} 4' in server.client.get("/metrics").text)
        assert server.end(signal.SIGINT) == 0
        for thread in threads:
            thread.join()
        assert [answer.status_code for answer in answers] == [200] * 4


def test_a_token_comes_from_the_environment(file):
    with Process(str(file), EXTEMPO_TOKEN="12345678") as server:
        assert ask(server.client).status_code == 401
        answer = server.client.post(
            "/predict", {"inputs": {"x": [[1, 2, 3]]}}, headers={"Authorization": "Bearer 12345678"}
        )
        assert answer.status_code == 200


def test_files_that_are_no_programs_and_ports_that_are_taken_are_errors(tmp_path):
    with pytest.raises(ArgumentError, match="no file"):
        make_service([str(tmp_path / "none.extempo")])
    (tmp_path / "bad.extempo").write_bytes(b"bad")
    with pytest.raises(ex.errors.ExtempoError):
        make_service([str(tmp_path / "bad.extempo")])
    with bound_socket("127.0.0.1", 0) as taken, pytest.raises(ArgumentError, match="cannot listen"):
        bound_socket("127.0.0.1", taken.getsockname()[1])


def test_without_starlette_the_extra_is_named(file, monkeypatch):
    monkeypatch.delitem(sys.modules, "extempo.serving.app", raising=False)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'extempo\[serve\]'"):
        make_service([str(file)])


def test_answers_do_not_wait_for_more_to_send():
    """Headers and body are sent one after the other, and the system would hold the second back for 40 ms."""
    import asyncio

    async def scenario():
        kinds = []
        told = asyncio.Event()

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport):
                made = transport.get_extra_info("socket")
                kinds.append(made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()
                told.set()

        listening = bound_socket("127.0.0.1", 0)
        server = await asyncio.get_running_loop().create_server(Protocol, sock=listening)
        _, writer = await asyncio.open_connection("127.0.0.1", listening.getsockname()[1])
        await told.wait()
        writer.close()
        server.close()
        return kinds

    assert asyncio.run(scenario()) == [1]


def test_loopback_servers_answer_to_their_own_names_alone():
    assert hosts_for("127.0.0.1") == hosts_for("localhost") == ("localhost", "127.0.0.1", "::1")
    assert hosts_for("0.0.0.0") is None


# ---- what hostile clients send

sys.path.insert(0, str(ROOT.parent / "benchmarks"))
try:
    from hostile_requests import REQUESTS, send
finally:
    sys.path.pop(0)


def _resident(client):
    (line,) = re.findall(r"^process_resident_memory_bytes (\S+)$", client.get("/metrics").text, re.M)
    return float(line)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of the process from /proc")
def test_hostile_requests_leave_a_server_as_it_was(file):
    with Process(str(file), "--max-body", "2MB", "--body-timeout", "2s") as server:
        port = server.client.port
        statuses = set()
        for data in REQUESTS * 4:
            statuses.add(send(port, data))
        before = _resident(server.client)
        for data in REQUESTS * 16:
            statuses.add(send(port, data))
            assert server.process.poll() is None
        assert ask(server.client).status_code == 200
        assert _resident(server.client) - before < 30e6
        assert statuses <= {b"", b"400", b"404", b"405", b"413", b"415", b"421", b"422", b"200"}
        assert b"500" not in statuses
        assert server.end() == 0
        assert "Traceback" not in "".join(server.lines)
