"""Messages as JSON: numbers that JSON has no word for (nan and the infinities) become texts."""

from __future__ import annotations

import json
import math
from typing import Any


def to_json(message: Any) -> str:
    """One line of JSON.

    >>> from extempo.studio_server.messages import to_json
    >>> to_json({"type": "steps", "loss": float("nan")})
    '{"type":"steps","loss":"nan"}'
    """
    try:
        return _dumped(message)
    except ValueError:  # rare, so that looking at every number is
        return _dumped(_worded(message))


def _dumped(message: Any) -> str:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _worded(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _worded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_worded(entry) for entry in value]
    return value
