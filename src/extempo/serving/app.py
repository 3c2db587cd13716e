"""Routes and answers: the models of a server as a starlette application.

POST /predict, /predict/NAME, /predict/NAME/VERSION      run a model
POST /reload, /reload/NAME                               read files anew
GET  /models, /openapi.json, /metrics, /health, /ready   what is there, and how it does
GET  /                                                   a page to try it
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..core.storage import Array
from ..errors import (
    ArgumentError,
    DtypeError,
    ExportError,
    IndexRangeError,
    NumericalError,
    ShapeError,
    UnsupportedError,
)
from .bodies import JSON, SYNONYMS, Result, read_body, write_body
from .description import document
from .engine import Engine
from .gate import Gate
from .metrics import Metrics, resident_bytes
from .models import Model, Models
from .page import PAGE, POLICY
from .refusals import BadRequest
from .settings import Limits

# What a program says of inputs that it cannot take; everything else that it raises is a mistake of its own, or of ours.
_OF_INPUTS = (
    *(ShapeError, DtypeError, ArgumentError, IndexRangeError),
    *(NumericalError, ExportError, UnsupportedError),
)
_OF_FORMS = "application/x-www-form-urlencoded"
_LARGE = 1 << 18  # bytes of a body from which on it is read in a thread, so that others are answered meanwhile


class Service:
    """Models, their engine, and the application that asks them."""

    def __init__(
        self,
        limits: Limits | None = None,
        token: str | None = None,
        hosts: tuple[str, ...] | None = None,
        log: Callable[[str], None] = print,
    ) -> None:
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.engine = Engine(self.limits, self.metrics, log)
        self.models = Models(self.engine, self.metrics)
        self._log = log
        self._has_token = token is not None
        self.metrics.gauge("extempo_queue_samples", "Samples that wait.", lambda: self._numbers(0), ["model"])
        self.metrics.gauge("extempo_running_samples", "Samples that run.", lambda: self._numbers(1), ["model"])
        self.metrics.gauge("process_resident_memory_bytes", "Memory of the server.", resident_bytes)
        self.metrics.gauge("process_cpu_seconds", "CPU time of the server.", lambda: {(): time.process_time()})
        routes = [  # in the order in which they are looked through
            Route("/predict", self._predict, methods=["POST"]),
            Route("/predict/{name}", self._predict, methods=["POST"]),
            Route("/predict/{name}/{version}", self._predict, methods=["POST"]),
            Route("/", self._page, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/ready", self._ready, methods=["GET"]),
            Route("/metrics", self._metrics_text, methods=["GET"]),
            Route("/models", self._models, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
            Route("/reload", self._reload, methods=["POST"]),
            Route("/reload/{name}", self._reload, methods=["POST"]),
        ]
        handlers: Any = {BadRequest: _answer, HTTPException: _answer_http, ClientDisconnect: _answer_nobody}
        app = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        app.router.redirect_slashes = False
        self.gate = Gate(app, self.limits, self.metrics, token, hosts)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """From the first request to the last: the engine begins, models are tried; at the end what waits is done."""
        self.engine.start()
        trial = asyncio.get_running_loop().run_in_executor(None, self.models.try_all)
        try:
            yield
        finally:
            self.gate.is_closing = True
            await run_in_threadpool(self.engine.close)
            await trial

    def _numbers(self, which: int) -> dict[tuple[str, ...], float]:
        return {(name,): float(pair[which]) for name, pair in self.engine.numbers().items()}

    # ---- what is there

    async def _page(self, request: Request) -> Response:
        headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
        return Response(PAGE, media_type="text/html", headers={**headers, "X-Content-Type-Options": "nosniff"})

    async def _health(self, request: Request) -> Response:
        alive = self.engine.is_alive
        return JSONResponse({"status": "ok" if alive else "the engine has stopped"}, 200 if alive else 500)

    async def _ready(self, request: Request) -> Response:
        ready = self.models.is_ready and not self.gate.is_closing
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    async def _metrics_text(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"models": [model.described() for model in self.models.all()]})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(document(self.models.all(), self._has_token))

    async def _reload(self, request: Request) -> Response:
        new = await run_in_threadpool(self.models.reload, request.path_params.get("name"))
        return JSONResponse({"models": [model.described() for model in new]})

    # ---- a prediction

    async def _predict(self, request: Request) -> Response:
        model = self._model(request)
        media = _media(request.headers.get("content-type", ""))
        wanted = _accepted(request.headers.get("accept", ""), media)
        body = await self._body(request)
        args = (media, body, model.inputs, self.limits.max_body, self.limits.max_queue)
        samples = await run_in_threadpool(read_body, *args) if len(body) > _LARGE else read_body(*args)
        results = await self._results(model, samples.of)
        if not samples.listed and isinstance(results[0], BadRequest):
            raise results[0]
        large = sum(a.nbytes for r in results if not isinstance(r, BadRequest) for a in r.values()) > _LARGE
        given = (wanted, results, samples.listed)
        made = await run_in_threadpool(write_body, *given) if large else write_body(*given)
        return Response(made, media_type=wanted, headers={"X-Model": f"{model.name}:{model.version}"})

    def _model(self, request: Request) -> Model:
        version = request.path_params.get("version")
        if version is not None and not (version.isascii() and version.isdigit() and len(version) <= 9):
            raise BadRequest(404, f"a version is a whole number, got {version[:40]!r}")
        return self.models.find(request.path_params.get("name"), None if version is None else int(version))

    async def _body(self, request: Request) -> bytes:
        most = self.limits.max_body
        length = request.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > most:
            raise BadRequest(413, f"a body may have {most} bytes, this one has {length[:20]}")
        parts: list[bytes] = []
        n_bytes = 0
        try:
            async with asyncio.timeout(self.limits.body_timeout):
                async for part in request.stream():
                    n_bytes += len(part)
                    if n_bytes > most:
                        raise BadRequest(413, f"a body may have {most} bytes, this one has more")
                    parts.append(part)
        except TimeoutError:
            raise BadRequest(408, f"the body did not come within {self.limits.body_timeout:g} s") from None
        return b"".join(parts)

    async def _results(self, model: Model, samples: Sequence[Any]) -> list[Result]:
        """What becomes of each sample; a bad one is a refusal of its own."""
        results: list[Any] = list(samples)
        places: list[int] = []
        tensors = []
        for i, sample in enumerate(samples):
            if not isinstance(sample, BadRequest):
                try:
                    tensors.append(model.tensors(sample))
                    places.append(i)
                except BadRequest as refused:
                    results[i] = refused
        if tensors:
            tickets = self.engine.submit(model.lane, tensors)
            futures = [asyncio.wrap_future(ticket.future) for ticket in tickets]
            made = await asyncio.gather(*futures, return_exceptions=True)
            for i, one in zip(places, made, strict=True):
                results[i] = self._refusal(model, one) if isinstance(one, BaseException) else _named(model, one)
        for result in results:
            self.metrics.samples.add(model.name, "refused" if isinstance(result, BadRequest) else "done")
        return results

    def _refusal(self, model: Model, error: BaseException) -> BadRequest:
        if isinstance(error, BadRequest):
            return error
        if isinstance(error, _OF_INPUTS):
            return BadRequest(422, str(error))
        if isinstance(error, MemoryError):
            return BadRequest(413, "there is not enough memory to run the model on inputs of these sizes")
        if isinstance(error, asyncio.CancelledError):
            return BadRequest(503, "the server is shutting down")
        self._log(f"serve: {model.name}: " + "".join(traceback.format_exception(error)))
        return BadRequest(500, "the model failed; the server's log says how")


def _named(model: Model, results: list[Array]) -> dict[str, Array]:
    return dict(zip(model.outputs, results, strict=True))


def _media(text: str) -> str:
    media = text.partition(";")[0].strip().lower() or JSON
    found = SYNONYMS.get(media)
    if found is None:
        known = ", ".join(dict.fromkeys(SYNONYMS.values()))
        hint = "; curl says so unless it is told -H 'Content-Type: application/json'" if media == _OF_FORMS else ""
        raise BadRequest(415, f"expected a body of type {known}, got {media[:100]!r}{hint}")
    return found


def _accepted(text: str, media: str) -> str:
    """The first form that a client accepts and we have; by default that of the body."""
    for part in text.split(","):
        found = SYNONYMS.get(part.partition(";")[0].strip().lower())
        if found is not None:
            return found
    return media


async def _answer(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    headers = dict(error.headers)
    if error.status in (408, 413):
        headers["Connection"] = "close"  # the rest of the body is not read
    return JSONResponse({"error": {"status": error.status, "message": error.message}}, error.status, headers)


async def _answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = {
        404: "there is nothing here; POST to /predict, or GET /openapi.json for what there is",
        405: f"{request.method[:20]} is not possible here, {(error.headers or {}).get('Allow', 'POST')} is",
    }.get(error.status_code, error.detail)
    message = {"error": {"status": error.status_code, "message": text}}
    return Response(json.dumps(message), error.status_code, dict(error.headers or {}), "application/json")


async def _answer_nobody(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # the client is gone; this is for the metrics
