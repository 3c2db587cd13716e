"""A program for the page to watch that says whatever a test wants, over the routes and messages of the real server."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import contextmanager

import extempo as ex
from extempo.inspect import draw
from extempo.inspect.drawing.html_writer import data_of
from extempo.studio_server.app import KINDS, PAGE, VIEWER

CSP = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
LAYERS = [
    {"kind": "Linear", "fields": [{"name": "out_features", "type": "int", "default": None, "min": 1, "max": 65536}]},
    {"kind": "Dropout", "fields": [{"name": "p", "type": "float", "default": 0.5, "min": 0, "max": 1}]},
    {"kind": "ReLU", "fields": []},
]


def state(status="running", step=0, **more):
    return {
        "type": "state", "status": status, "step": step, "epoch": 0, "lr": [0.02], "every": 8, "every_mode": "auto",
        "budget": 0.1, "share": 0.043, "watching": 1, "message": "captures one iteration in 8", "pending": [], **more,
    }  # fmt: skip


def structure():
    def row(path, kind, depth, can, **more):
        return {"path": path, "kind": kind, "container": False, "parameters": 40, "trainable": 40, "frozen": False,
                "depth": depth, "text": "", "can": can, **more}  # fmt: skip

    rows = [
        row("", "Classifier", 0, ["freeze"]),
        row("body", "Sequential", 1, ["insert", "freeze", "replace"], container=True, length=1),
        row("body.0", "Linear", 2, ["remove", "widen", "freeze", "replace"], text="4, 8", parent="body", position=0),
    ]
    return {"type": "structure", "model": "Classifier", "optimizer": "Adam", "modules": rows}


def hello(run=1):
    runs = [
        {"id": i + 1, "name": f"run {i + 1}", "status": "running", "n_steps": 0, "model": "Classifier"}
        for i in range(run)
    ]
    return {
        "type": "hello", "version": "0.0", "run": run, "runs": runs,
        "program": {"name": "train.py", "status": "running", "exit": None, "message": ""},
        "state": state(), "structure": structure(), "captures": [], "layers": LAYERS,
        "can": {"predict": True, "compare": True, "metrics": True, "pipeline": True, "lessons": False},
    }  # fmt: skip


def step(number, loss=None, **more):
    return {
        "step": number, "epoch": number // 100, "time": number / 100, "seconds": 0.005, "lr": [0.02],
        "loss": 1 / (1 + number) if loss is None else loss,
        "metrics": None, "phases": None, "memory": None, "gradients": None, "captured": None, **more,
    }  # fmt: skip


def capture(drawn, number=1, backward=True):
    """A drawing as the message of a captured iteration."""
    items = [item.number for item in drawn.diagram.items()]
    flows = [item.number for item in drawn.diagram.items() if item.grad]
    return {
        "type": "capture", "number": number, "run": 1, "step": number, "title": f"step {number}", "seconds": 0.01,
        "n_ops": sum(1 for _ in drawn.diagram.ops()), "left_out": 0,
        "graph": data_of(drawn.diagram, drawn._opened, drawn._unrolled),
        "order": items, "backward": flows[::-1] if backward else [], "gradient_of": {}, "diff": None, "error": None,
    }  # fmt: skip


def chain_of(n_ops):
    """A drawing of so many ops, none of them in a loop that could be rolled up."""
    x = ex.ones(3, requires_grad=True)
    functions = (ex.sin, ex.tanh, ex.cos, ex.exp, ex.sigmoid)

    def run(x):
        before = x
        for i in range(n_ops // 2):
            y = functions[i * i % 5](x)
            x, before = y + before, x
        return x

    return draw(run, x).unfold().unroll()


class FakeProgram:
    """Serves the page; `greeting` is what a page gets first, `answer(message)` gives what it gets for a request."""

    def __init__(self, greeting=None, answer=None):
        self.greeting = greeting or [hello()]
        self.answer = answer or (lambda message: [])
        self.received: list[dict] = []
        self.lessons = {"available": False, "why": "There are no lessons."}
        self._sockets: set = set()
        self._loop = None

    def app(self):
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route, WebSocketRoute

        async def file(request):
            name = request.path_params.get("path") or "index.html"
            path = VIEWER if name == "viewer.js" else PAGE / name
            return Response(
                path.read_bytes(), headers={"content-type": KINDS[path.suffix], "content-security-policy": CSP}
            )

        async def lessons(request):
            return JSONResponse(self.lessons)

        async def talk(websocket):
            await websocket.accept()
            self._loop = asyncio.get_running_loop()
            for message in self.greeting:
                await websocket.send_text(json.dumps(message))
            self._sockets.add(websocket)
            try:
                async for text in websocket.iter_text():
                    message = json.loads(text)
                    self.received.append(message)
                    for found in self.answer(message):
                        await websocket.send_text(json.dumps({"id": message["id"], **found}))
            finally:
                self._sockets.discard(websocket)

        return Starlette(
            routes=[
                Route("/api/lessons", lessons),
                WebSocketRoute("/ws", talk),
                Route("/", file),
                Route("/{path:path}", file),
            ]
        )

    def send(self, *messages):
        """To all pages; returns when they are on their way."""

        async def all_of_them():
            for message in messages:
                text = json.dumps(message)
                for websocket in list(self._sockets):
                    await websocket.send_text(text)

        asyncio.run_coroutine_threadsafe(all_of_them(), self._loop).result(30)

    @contextmanager
    def running(self, port=0):
        """The address of the page while it runs."""
        import uvicorn

        listening = socket.create_server(("127.0.0.1", port))
        port = listening.getsockname()[1]
        server = uvicorn.Server(
            uvicorn.Config(self.app(), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/?token=x"
        finally:
            server.should_exit = True
            thread.join(30)
            listening.close()
