"""Routes: the files of the page, a few answers in JSON, and the WebSocket that everything else goes over.

A socket has two tasks: one takes commands in, the other one takes what waits for this page out of its outbox. A page
that does not read stops the second one only, and is sent away after a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..inspect import drawing
from .commands import LONGEST, RefusedCommand, id_of, parse_command
from .lessons import lessons_message
from .messages import to_json
from .outboxes import Outbox

if TYPE_CHECKING:
    from .session import Session

PAGE = Path(__file__).with_name("page")
VIEWER = Path(drawing.__file__).with_name("viewer.js")
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
MOST_PAGES = 8
MOST_A_SECOND = 50  # messages of a page, on average
BURST = 200  # that it may send at once
BETWEEN_LOOKS = 0.05  # seconds between two looks into an outbox
PATIENCE = 30.0  # seconds that a page may take to read what was sent
_TRY_LATER, _TOO_MANY, _TOO_LARGE = 1013, 1008, 1009  # codes with which a socket is closed


def make_app(session: Session) -> Starlette:
    """The application of a session, without the checks before it."""

    async def file(request: Any) -> Response:
        name = request.path_params.get("path") or "index.html"
        path = VIEWER if name == "viewer.js" else (PAGE / name).resolve()
        is_inside = path == VIEWER or PAGE.resolve() in path.parents
        if not is_inside or path.suffix not in KINDS or not path.is_file():
            return PlainTextResponse("there is no such page\n", 404)
        return Response(path.read_bytes(), headers={"content-type": KINDS[path.suffix]})

    async def state(request: Any) -> Response:
        return _json(session.hello())

    async def run_csv(request: Any) -> Response:
        text = session.csv(request.path_params["number"])
        if text is None:
            return JSONResponse({"error": "there is no such run"}, 404)
        name = f'attachment; filename="run-{request.path_params["number"]}.csv"'
        return Response(text, headers={"content-type": "text/csv; charset=utf-8", "content-disposition": name})

    async def capture(request: Any) -> Response:
        text = session.captures.text(request.path_params["number"])
        if text is None:
            return JSONResponse({"error": "this capture is kept no more"}, 404)
        return Response(text, headers={"content-type": "application/json"})

    async def lessons(request: Any) -> Response:
        return _json(lessons_message())

    async def socket(websocket: WebSocket) -> None:
        await _talk(session, websocket)

    return Starlette(
        routes=[
            Route("/api/state", state),
            Route("/api/run/{number:int}.csv", run_csv),
            Route("/api/capture/{number:int}", capture),
            Route("/api/lessons", lessons),
            WebSocketRoute("/ws", socket),
            Route("/", file),
            Route("/{path:path}", file),
        ]
    )


def _json(message: Any) -> Response:
    return Response(to_json(message), headers={"content-type": "application/json"})


async def _talk(session: Session, websocket: WebSocket) -> None:
    """Until the page goes, or is sent away."""
    await websocket.accept()
    if session.outboxes.n_pages >= MOST_PAGES:
        await websocket.close(_TRY_LATER)
        return
    outbox = session.outboxes.add()
    sending: asyncio.Task[None] | None = None
    try:
        for text in session.greeting():
            await asyncio.wait_for(websocket.send_text(text), PATIENCE)
        sending = asyncio.create_task(_send(websocket, outbox))
        await _listen(session, websocket, outbox, sending)
    except (WebSocketDisconnect, TimeoutError, RuntimeError):
        pass  # it is gone, or does not read
    finally:
        session.outboxes.remove(outbox)
        if sending is not None:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await sending


async def _send(websocket: WebSocket, outbox: Outbox) -> None:
    while True:
        for text in outbox.take():
            await asyncio.wait_for(websocket.send_text(text), PATIENCE)
        await asyncio.sleep(BETWEEN_LOOKS)


async def _listen(session: Session, websocket: WebSocket, outbox: Outbox, sending: asyncio.Task[None]) -> None:
    allowance, last = float(BURST), time.monotonic()
    while not sending.done():
        message = asyncio.ensure_future(websocket.receive())
        done, _ = await asyncio.wait({message, sending}, return_when=asyncio.FIRST_COMPLETED)
        if message not in done:
            message.cancel()
            return
        received = message.result()
        if received["type"] != "websocket.receive":
            return
        now = time.monotonic()
        allowance, last = min(float(BURST), allowance + (now - last) * MOST_A_SECOND) - 1.0, now
        if allowance < 0:
            await websocket.close(_TOO_MANY)
            return
        text = received.get("text")
        if text is None:
            await websocket.close(_TOO_LARGE if len(received.get("bytes") or b"") > LONGEST else _TOO_MANY)
            return
        _take(session, text, outbox)


def _take(session: Session, text: str, outbox: Outbox) -> None:
    """Do what a message asks for, or say why not."""
    try:
        session.ask(parse_command(text), outbox)
    except RefusedCommand as refused:
        outbox.answer({"type": "answer", "id": id_of(text), "ok": False, "error": str(refused)})
