"""The few internals that libraries ask for."""

from __future__ import annotations

import pytest

from extempo.compat.torch_namespace import internals


def test_an_error_of_elsewhere_is_raised_again():
    error = KeyError("x")
    with pytest.raises(KeyError, match="x"):
        internals.ExceptionWrapper((KeyError, error, None)).reraise()


def test_nothing_is_logged_and_nothing_is_traced():
    assert internals._log_api_usage_once("event") is None
    assert internals._get_tracing_state() is None
