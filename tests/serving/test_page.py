"""The page asks nobody but its own server, and its policy allows just what it is."""

from __future__ import annotations

import base64
import hashlib
import re

from extempo.serving.page import PAGE, POLICY


def test_the_page_names_no_other_server():
    assert not re.search(r"(https?:)?//[a-z]", PAGE)
    assert "@import" not in PAGE


def test_the_policy_has_the_digests_of_style_and_script():
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", PAGE, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in POLICY
    assert POLICY.startswith("default-src 'none'")


def test_the_page_is_for_light_and_dark_rooms_and_has_labels():
    assert "prefers-color-scheme: dark" in PAGE
    ids = set(re.findall(r'<(?:select|input|textarea)[^>]* id="(\w+)"', PAGE))
    assert ids == set(re.findall(r'<label for="(\w+)"', PAGE))
