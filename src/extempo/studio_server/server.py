"""The server's thread: a socket on the loopback, uvicorn behind it, and an address with a random token.

starlette, uvicorn and websockets are imported here, inside functions, and in `app` alone.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, ExtempoError, UnsupportedError
from ..serving.server import bound_socket
from .commands import LONGEST
from .gate import PageGate

if TYPE_CHECKING:
    from .session import Session

HOST = "127.0.0.1"
STARTING = 30.0  # seconds until it must answer


class StudioServer:
    """A server for one session, in a thread of its own that ends with the process."""

    def __init__(self, session: Session, port: int = 0) -> None:
        uvicorn, app = _imported(session)
        self.token = secrets.token_urlsafe(24)
        self._socket: socket.socket = _bound(port)
        self.port: int = self._socket.getsockname()[1]
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it tells of every request that is none
        config = uvicorn.Config(
            PageGate(app, self.token),
            ws="auto",
            ws_max_size=LONGEST,
            ws_ping_interval=20.0,
            ws_ping_timeout=60.0,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=2,
            limit_concurrency=200,
        )
        self._server: Any = uvicorn.Server(config)
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="extempo studio", daemon=True)
        self._thread.start()
        self._wait_until_it_answers()

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[self._socket]))
        except BaseException as error:
            self._failed = error

    def _wait_until_it_answers(self) -> None:
        pause = threading.Event()
        for _ in range(int(STARTING / 0.01)):
            if self._server.started:
                return
            if self._failed is not None or not self._thread.is_alive():
                break
            pause.wait(0.01)
        self.close()
        raise ExtempoError(f"studio: the server did not start: {self._failed or 'it took too long'}")

    def close(self) -> None:
        """End it; pages lose their connection."""
        self._server.should_exit = True
        self._thread.join(10.0)
        self._socket.close()


def _bound(port: int) -> socket.socket:
    try:
        return bound_socket(HOST, port)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("serve:", "studio:", 1) + "; port 0 is any that is free") from None


def _imported(session: Session) -> tuple[Any, Any]:
    try:
        import uvicorn
        import websockets  # noqa: F401 - uvicorn imports it when the first page comes

        from .app import make_app
    except ImportError as error:
        raise UnsupportedError(
            f"studio: needs starlette, uvicorn and websockets, and there is no {error.name}; "
            "pip install 'extempo[studio]'"
        ) from None
    return uvicorn, make_app(session)
