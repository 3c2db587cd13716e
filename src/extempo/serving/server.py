"""`extempo serve`: a socket, the service behind it, and signals.

SIGTERM and Ctrl-C end a server cleanly: it takes nothing new, finishes what it has accepted, and goes; the second time
at once. SIGHUP reloads the models. starlette and uvicorn are imported here, inside functions, and in `app` alone.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, UnsupportedError
from .gate import LOOPBACK
from .models import parse_models
from .refusals import BadRequest
from .settings import Limits

if TYPE_CHECKING:
    from .app import Service

BACKLOG = 1024  # connections that the system holds until they are looked at


def make_service(
    models: Sequence[str],
    limits: Limits | None = None,
    token: str | None = None,
    hosts: tuple[str, ...] | None = None,
    log: Callable[[str], None] = print,
) -> Service:
    """A service with these models, each `FILE`, `NAME=FILE` or `NAME:VERSION=FILE`."""
    try:
        from .app import Service
    except ImportError as error:
        raise UnsupportedError(
            f"serve: needs starlette and uvicorn, and there is no {error.name}; pip install 'extempo[serve]'"
        ) from None
    found = parse_models(models)
    service = Service(limits, token, hosts, log)
    for name, version, path in found:
        if not path.is_file():
            raise ArgumentError(f"serve: there is no file {path}")
        service.models.add(name, version, path)
    return service


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its protocol's name: only on such sockets asyncio sends short answers at once, others hold them back for 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(BACKLOG)  # so that who reads the address can connect
    except (OSError, OverflowError) as error:
        made.close()
        raise ArgumentError(f"serve: cannot listen on {host} port {port}: {error}") from None
    made.setblocking(False)
    return made


def hosts_for(host: str) -> tuple[str, ...] | None:
    """The names by which a server that listens there is called; None: any."""
    return LOOPBACK if is_loopback(host) else None


def is_loopback(host: str) -> bool:
    return host in LOOPBACK or host.startswith("127.")


def make_server(service: Service) -> Any:
    """uvicorn's server of a service."""
    import uvicorn

    from .slow_clients import patient_protocol

    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # it warns of every request that is none
    limits = service.limits
    config = uvicorn.Config(
        service.gate,
        http=patient_protocol(limits.body_timeout),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # who asks makes no difference here
        backlog=BACKLOG,
        server_header=False,
        timeout_keep_alive=max(1, round(limits.body_timeout)),
        timeout_graceful_shutdown=max(1, round(limits.timeout + limits.body_timeout)),
        limit_concurrency=4 * limits.max_requests,  # connections, those that wait for their next request included
    )
    return uvicorn.Server(config)


def serve(
    models: Sequence[str],
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: Limits | None = None,
    token: str | None = None,
    log: Callable[[str], None] = print,
) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    service = make_service(models, limits, token, hosts_for(host), log)
    listening = bound_socket(host, port)
    server = make_server(service)
    if threading.current_thread() is threading.main_thread():
        _listen_to_signals(service, log)
    shown = f"[{host}]" if ":" in host else host
    for model in service.models.all():
        log(f"{model.name}:{model.version}  {model.program!r}")
    if not is_loopback(host) and token is None:
        log(f"Everybody who reaches {host} can use these models: set a token, or listen on 127.0.0.1.")
    log(f"Serving on http://{shown}:{listening.getsockname()[1]}  (Ctrl-C ends)")
    run_server(server, listening)


def run_server(server: Any, listening: socket.socket) -> None:
    """Serve until the end; the process is the server's own.

    What is there now stays: the collector need not look through it again and again, a tenth of a short request's time.
    """
    gc.collect()
    gc.freeze()
    server.run(sockets=[listening])


def _listen_to_signals(service: Service, log: Callable[[str], None]) -> None:
    """uvicorn sends itself the signal that ended it once more, to whoever listened before: that is the end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    if not hasattr(signal, "SIGHUP"):
        return

    def reload() -> None:
        try:
            for model in service.models.reload():
                log(f"reloaded {model.name}:{model.version}")
        except BadRequest as refused:
            log(refused.message)

    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload, daemon=True).start())
