"""uvicorn's HTTP protocol with a limit on how long headers may take: a client that never ends them keeps no connection.

A body that comes slowly is the application's to end; here it is about what comes before there is a request. What is
written goes out together: uvicorn writes the headers of an answer and its body apart, and sending is what takes the
most time of a short request.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_MUCH = 1 << 16  # bytes that are sent at once


class JoinedWrites:
    """A transport that sends what is written in one turn of the event loop as one; for the rest the one that it has."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []

    def write(self, data: bytes) -> None:
        if len(data) >= _MUCH:
            self._send()
            self._transport.write(data)
        elif data:
            if not self._written:
                self._loop.call_soon(self._send)
            self._written.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._written:
            joined = b"".join(self._written)
            self._written.clear()
            self._transport.write(joined)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def patient_protocol(seconds: float) -> type[H11Protocol]:
    """The protocol whose connections close if headers are not there after so many seconds."""

    class PatientProtocol(H11Protocol):
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in its base
            super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type] # it acts as one
            self._arm()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE:
                self._arm()
            else:
                self._disarm()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def _arm(self) -> None:
            if self.timer is None:
                self.timer = self.loop.call_later(seconds, self._expire)

        def _disarm(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

        def _expire(self) -> None:
            self.timer = None
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self.transport.close()

    return PatientProtocol
