"""Commands from a page are checked field by field; nothing else gets through."""

from __future__ import annotations

import json

import pytest

from extempo.studio_server.commands import COMMANDS, LONGEST, RefusedCommand, id_of, parse_command

GOOD = [
    {"type": "pause", "id": "c1"},
    {"type": "every", "id": "c", "every": None},
    {"type": "lr", "id": "c", "lr": 0.01},
    {"type": "lr", "lr": 0, "group": 1},
    {"type": "insert", "container": "body", "position": 1, "layer": {"kind": "ReLU"}},
    {"type": "metrics", "threshold": 0.5, "positive": 1, "refresh": True},
    {"type": "predict", "sequence": "1 2 3"},
    {"type": "node", "capture": 1, "node": 2},
]
HOSTILE = [
    "",
    "null",
    "[]",
    "3",
    "{",
    '{"type": "pause", "type": "lr"}',
    '{"type": "eval", "code": "1"}',
    '{"type": ["lr"]}',
    '{"type": "pause", "id": 3}',
    '{"type": "pause", "id": "' + "x" * 41 + '"}',
    '{"type": "pause", "more": 1}',
    '{"type": "lr"}',
    '{"type": "lr", "lr": NaN}',
    '{"type": "lr", "lr": 1e999}',
    '{"type": "lr", "lr": -1}',
    '{"type": "lr", "lr": "0.1"}',
    '{"type": "lr", "lr": true}',
    '{"type": "lr", "lr": 0.1, "group": -1}',
    '{"type": "insert", "container": "a", "position": 1.5, "layer": {}}',
    '{"type": "insert", "container": "a", "position": 1, "layer": "ReLU"}',
    '{"type": "insert", "container": {"__class__": 1}, "position": 1, "layer": {}}',
    '{"type": "remove", "path": "' + "a." * 400 + '"}',
    '{"type": "widen", "path": "a", "units": 99999999}',
    '{"type": "node", "capture": 1, "node": 1e300}',
    '{"type": "predict", "sequence": ["__import__"]}',
    '{"type": "metrics", "threshold": 2}',
    '{"type": "replace", "path": "a", "layer": {"kind": [[[[[[1]]]]]]}}',
    "[" * 5000,
    '{"a":' * 5000,
    '{"type": "predict", "sequence": "' + "1 " * LONGEST + '"}',
]


@pytest.mark.parametrize("message", GOOD, ids=str)
def test_a_command_is_taken_with_its_defaults(message):
    command = parse_command(json.dumps(message))
    assert command.kind == message["type"]
    assert set(command.fields) == set(COMMANDS[command.kind])


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40])
def test_what_is_no_command_is_refused_with_a_reason(text):
    with pytest.raises(RefusedCommand) as refused:
        parse_command(text)
    assert str(refused.value)
    assert len(str(refused.value)) < 500
    assert isinstance(id_of(text), str)


def test_a_refusal_knows_whom_to_answer():
    assert id_of('{"type": "nonsense", "id": "c7"}') == "c7"
    assert id_of("[" * 5000) == ""
