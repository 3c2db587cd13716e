"""uvicorn's HTTP protocol with a limit on how long headers may take: a client that never ends them keeps no connection.

A body that comes slowly is the application's to end; here it is about what comes before there is a request.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def patient_protocol(seconds: float) -> type[H11Protocol]:
    """The protocol whose connections close if headers are not there after so many seconds."""

    class PatientProtocol(H11Protocol):
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in its base
            super().connection_made(transport)
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
