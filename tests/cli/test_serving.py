"""`extempo serve`: its options become limits, and mistakes are told before anything listens."""

from __future__ import annotations

import pytest

from extempo.cli import serving
from extempo.errors import ArgumentError
from extempo.serving.settings import Limits

from .commands import run

GIVEN = {
    "max_batch": 8,
    "max_queue": 9,
    "max_requests": 10,
    "max_wait": "5ms",
    "timeout": "3s",
    "body_timeout": "2s",
    "max_body": "1MB",
}


def test_options_become_limits():
    assert serving.limits_of(GIVEN) == Limits(8, 0.005, 9, 10**6, 10, 3.0, 2.0)


def test_tokens_come_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("EXTEMPO_TOKEN", raising=False)
    assert serving.token_of(None) is None
    monkeypatch.setenv("EXTEMPO_TOKEN", "from-the-environment")
    assert serving.token_of(None) == "from-the-environment"
    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    assert serving.token_of(file) == "from-a-file"
    for bad in ("", "short", "with a space", "ü" * 10):
        file.write_text(bad)
        with pytest.raises(ArgumentError, match="at least 8"):
            serving.token_of(file)


def test_mistakes_are_told_in_a_line(tmp_path):
    for args, message in (
        (["nowhere.extempo"], "no file nowhere.extempo"),
        (["x=nowhere.extempo", "--max-wait", "long"], "a duration such as 2ms"),
        (["x=nowhere.extempo", "--max-batch", "0"], "max_batch must be at least 1"),
    ):
        result = run("serve", *args)
        assert result.exit_code == 1
        assert message in result.output
