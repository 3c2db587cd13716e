"""A page without a browser: a WebSocket that collects what it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

DEADLINE = 60.0  # seconds: generous, so that a busy machine fails nothing


class FakePage:
    """A page: `send` commands, `until` something was told."""

    def __init__(self, address: str, **options: Any) -> None:
        from websockets.sync.client import connect

        self._connection = connect(address.replace("http://", "ws://").replace("/?", "/ws?"), max_size=None, **options)
        self._socket = self._connection.__enter__()
        self.messages: list[dict[str, Any]] = []

    def __enter__(self) -> FakePage:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.__exit__(None, None, None)

    def send(self, **command: Any) -> None:
        self._socket.send(json.dumps(command))

    def send_text(self, text: str) -> None:
        self._socket.send(text)

    def receive(self) -> dict[str, Any]:
        message = json.loads(self._socket.recv(timeout=DEADLINE))
        self.messages.append(message)
        return message

    def until(self, kind: str, fits: Callable[[dict[str, Any]], bool] = lambda message: True) -> dict[str, Any]:
        """The next message of a kind that fits."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            message = self.receive()
            if message["type"] == kind and fits(message):
                return message
        raise AssertionError(f"no {kind} came")

    def answer(self, **command: Any) -> dict[str, Any]:
        """The answer to a command."""
        self.send(**command)
        return self.until("answer", lambda message: message["id"] == command["id"])


class Training:
    """A loop in the main thread that goes on until a visitor, in a thread of its own, is done; raises its errors."""

    def __init__(self, visit: Callable[[], None]) -> None:
        self._error: BaseException | None = None
        self._visit = visit
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._visit()
        except BaseException as error:
            self._error = error

    def loop(self, step: Callable[[], None]) -> int:
        """Steps, and how many."""
        self._thread.start()
        n_steps, end = 0, time.monotonic() + 2 * DEADLINE
        while self._thread.is_alive() and time.monotonic() < end:
            step()
            n_steps += 1
        self._thread.join(DEADLINE)
        if self._error is not None:
            raise self._error
        assert not self._thread.is_alive(), "the visitor did not come to an end"
        return n_steps
