"""Who may come in: known hosts, a token, pages of our own, and no more requests at a time than were allowed.

It stands before the routes as an ASGI application, counts every answer, and ends requests whose client neither sends
nor reads.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from .metrics import Metrics
from .refusals import BadRequest
from .settings import Limits

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OPEN = ("/", "/health", "/ready")  # without a token, and however many requests there are
_ROUTES = (*_OPEN, "/predict", "/models", "/metrics", "/openapi.json", "/reload")


class Gate:
    """The application behind its limits."""

    def __init__(
        self, app: Application, limits: Limits, metrics: Metrics, token: str | None, hosts: tuple[str, ...] | None
    ) -> None:
        """`hosts`: the names by which the server may be called; None: any. A browser can be led to call others."""
        self._app = app
        self._limits = limits
        self._metrics = metrics
        self._token = None if token is None else token.encode()
        self._hosts = hosts
        self.n_requests = 0  # that are being worked on
        self.is_closing = False

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500
        has_begun = False

        async def counted(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
            await send(message)

        limits = self._limits
        self.n_requests += 1
        try:
            self._check(scope)
            async with asyncio.timeout(limits.timeout + 2 * limits.body_timeout):
                await self._app(scope, receive, counted)
        except BadRequest as refused:
            await refuse(refused, counted)
        except TimeoutError:
            if not has_begun:
                await refuse(BadRequest(504, "it took too long"), counted)
        finally:
            self.n_requests -= 1
            route = _route(scope["path"])
            self._metrics.requests.add(route, str(status))
            self._metrics.seconds.observe(time.perf_counter() - began, route)

    def _check(self, scope: MutableMapping[str, Any]) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts is not None and name_of(host) not in self._hosts:
            raise BadRequest(421, f"this server is called {' or '.join(self._hosts)}, not {host[:100]!r}")
        origin = headers.get(b"origin")
        is_own = origin is None or urlsplit(origin.decode("latin-1")).netloc == host
        if not is_own and scope["method"] not in ("GET", "HEAD"):
            raise BadRequest(403, "pages of other servers may not use this one")
        if scope["path"] in _OPEN:
            return
        if self._token is not None and not _matches(headers.get(b"authorization", b""), self._token):
            raise BadRequest(
                401,
                "expected the header 'Authorization: Bearer TOKEN' with the server's token",
                {"WWW-Authenticate": "Bearer"},
            )
        if self.n_requests > self._limits.max_requests:
            raise BadRequest(
                503,
                f"{self._limits.max_requests} requests are being worked on, the most at a time",
                {"Retry-After": "1"},
            )


def _matches(header: bytes, token: bytes) -> bool:
    """In a time that does not tell how much of a wrong token is right."""
    kind, _, given = header.partition(b" ")
    return kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)


def name_of(host: str) -> str:
    """`localhost` of `localhost:8000`, `::1` of `[::1]:8000`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _route(path: str) -> str:
    """The route of a path, one of few."""
    first = "/" + path.strip("/").split("/", 1)[0]
    return first if first in _ROUTES else "other"


async def refuse(refused: BadRequest, send: Send) -> None:
    """Answer a request that is not let in."""
    body = json.dumps({"error": {"status": refused.status, "message": refused.message}}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    headers.update({name.lower(): value for name, value in refused.headers.items()})
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
