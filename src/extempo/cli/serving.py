"""`extempo serve`: options as limits, the token from where it is kept, then the server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from extempo.errors import ArgumentError
from extempo.serving.server import serve
from extempo.serving.settings import Limits, n_bytes, seconds


def run(models: Sequence[str], host: str, port: int, token_file: Path | None, limits: Mapping[str, str | int]) -> None:
    """Serve until the process is told to end."""
    serve(models, host, port, limits_of(limits), token_of(token_file), click.echo)


def limits_of(given: Mapping[str, str | int]) -> Limits:
    """Durations and sizes are texts, counts are numbers."""
    made: dict[str, Any] = {name: given[name] for name in ("max_batch", "max_queue", "max_requests")}
    made.update({name: seconds(str(given[name])) for name in ("max_wait", "timeout", "body_timeout")})
    return Limits(**made, max_body=n_bytes(str(given["max_body"])))


def token_of(file: Path | None) -> str | None:
    """From a file, or from the environment: on a command line all users of a machine could read it."""
    token = os.environ.get("EXTEMPO_TOKEN") if file is None else file.read_text().strip()
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token):
        raise ArgumentError("serve: a token has at least 8 printable characters, and no spaces")
    return token
