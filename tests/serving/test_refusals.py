"""Refusals carry a status and a text."""

from __future__ import annotations

from extempo.serving.refusals import BadRequest


def test_a_refusal_has_its_text_and_no_headers_of_its_own():
    refused = BadRequest(422, "expected x: f32[3]")
    assert str(refused) == refused.message == "expected x: f32[3]"
    assert (refused.status, refused.headers) == (422, {})
    assert BadRequest(429, "later", {"Retry-After": "1"}).headers == {"Retry-After": "1"}
