"""Tables that keep nothing alive, and no Python where an object goes."""

from __future__ import annotations

import ast
import gc
import sys
from pathlib import Path

import extempo
from extempo.core.weak import WeakMembers, WeakTable

ROOT = Path(extempo.__file__).parent
WITH_CALLBACKS = ("WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "WeakMethod", "finalize")
WRITTEN_IN_C = ("append", "discard")  # of lists, deques and sets; weak.py has one more


class Thing:
    def __eq__(self, other):
        raise AssertionError("things are known by identity")

    __hash__ = None


def test_a_table_knows_objects_by_identity_and_keeps_none():
    table, one, other = WeakTable(), Thing(), Thing()
    table[one], table[other] = 1, 2
    assert [value for _, value in table.items()] == [1, 2]
    assert table.setdefault(one, 3) == 1
    assert one in table
    del one
    assert len(table) == 1
    assert table.pop(other) == 2
    assert other not in table


def test_members_are_in_the_order_in_which_they_came():
    members, things = WeakMembers(), [Thing() for _ in range(5)]
    for thing in things:
        members.add(thing)
    things[2].itself = things[2]
    del things[2], thing
    gc.collect()
    assert [id(x) for x in members] == [id(x) for x in things]
    members.discard(things[0])
    members.discard(things[0])
    assert len(members) == 3


def test_objects_that_come_and_go_leave_nothing_behind():
    table = WeakTable()
    for i in range(10_000):
        table[Thing()] = i
    assert len(table) == 0


def test_no_python_runs_where_a_member_goes():
    members, called = WeakMembers(), []
    thing = Thing()
    members.add(thing)
    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: called.append(frame.f_code.co_name))
    try:
        del thing
    finally:
        sys.settrace(before)
    assert called == []
    assert len(members) == 0


def test_no_python_is_called_where_an_object_goes():
    """An interrupt in there is printed and forgotten by CPython: the loop that it was to stop would go on.

    What others have of that kind stays: the standard library's own (`multiprocessing`'s connections and processes,
    files of `tempfile`, its weak dictionaries), `__del__` in a user's classes, and the code that imports run, where
    CPython drops some interrupts, too.
    """
    found = []
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if _calls_python(node, path.name):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []


def _calls_python(node, file):
    if isinstance(node, ast.FunctionDef):
        return node.name == "__del__"
    if isinstance(node, ast.Attribute | ast.Name):
        return (node.attr if isinstance(node, ast.Attribute) else node.id) in WITH_CALLBACKS
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("ref", "proxy", "_Known"):
        callbacks = [*node.args[1:], *node.keywords]
        in_c = [isinstance(one, ast.Attribute) and one.attr in WRITTEN_IN_C for one in callbacks]
        return not all(in_c) and file != "weak.py"
    return False
