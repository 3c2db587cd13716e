"""Messages are JSON that every browser reads."""

from __future__ import annotations

import json
import math

from extempo.studio_server.messages import to_json


def test_numbers_that_json_has_no_word_for_become_texts():
    message = {"a": math.nan, "b": [math.inf, -math.inf, 1.5], "c": {"d": (1, math.nan)}}
    assert json.loads(to_json(message)) == {"a": "nan", "b": ["inf", "-inf", 1.5], "c": {"d": [1, "nan"]}}


def test_what_is_finite_stays_as_it_is():
    assert json.loads(to_json({"text": "ä </script>", "n": None})) == {"text": "ä </script>", "n": None}
