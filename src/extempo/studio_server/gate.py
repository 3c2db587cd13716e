"""Who may come in: requests by the name of this machine, from pages of our own, with the token where it counts.

It stands before the routes as an ASGI application and puts the same headers on every answer. A browser can be led to
send requests here by any page that it shows, by a name that somebody else lets point here: hence `Host` and `Origin`.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..serving.gate import LOOPBACK, Application, Message, Receive, Send, name_of, refuse
from ..serving.refusals import BadRequest

POLICY = (
    "default-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_GUARDED = ("/api/", "/ws")  # what needs the token; the files of the page hold nothing that is secret
_REFUSED = 4403  # a WebSocket's code, before it is accepted


class PageGate:
    """The application behind its checks."""

    def __init__(self, app: Application, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(k, v) for k, v in message.get("headers", ()) if k.decode("latin-1").lower() not in HEADERS]
                message["headers"] = [*kept, *((k.encode(), v.encode()) for k, v in HEADERS.items())]
            await send(message)

        try:
            self._check(scope)
        except BadRequest as refused:
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": _REFUSED})
            else:
                await refuse(refused, with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _check(self, scope: Any) -> None:
        host = _only(scope["headers"], b"host")
        if host is None or name_of(host) not in LOOPBACK:
            raise BadRequest(421, f"this server is called {' or '.join(LOOPBACK)}, not {(host or '')[:100]!r}")
        origin = _only(scope["headers"], b"origin")
        if origin is not None and not _is_own(origin, host):
            raise BadRequest(403, "pages of other servers may not use this one")
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            raise BadRequest(
                405, "there is nothing to send here: commands go over the WebSocket", {"Allow": "GET, HEAD"}
            )
        if scope["path"].startswith(_GUARDED) and not self._has_token(scope["query_string"]):
            raise BadRequest(403, "the token is missing or wrong: use the address that the program has printed")

    def _has_token(self, query: bytes) -> bool:
        """Compared in a time that does not tell how much of a wrong one is right."""
        try:
            given = parse_qs(query.decode("latin-1"), max_num_fields=20).get("token", [""])
        except ValueError:  # more fields than any of our pages has
            return False
        return len(given) == 1 and hmac.compare_digest(given[0].encode(), self._token)


def _only(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The one header of a name; several are as good as a foreign one."""
    found = [value.decode("latin-1") for key, value in headers if key == name]
    return None if not found else found[0] if len(found) == 1 else "\0"


def _is_own(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.netloc.lower() == host.lower()
