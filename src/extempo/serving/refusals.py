"""What a server says no with."""

from __future__ import annotations


class BadRequest(Exception):
    """A request, or one sample of it, that is answered with this HTTP status, and with what was expected."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
