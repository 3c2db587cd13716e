"""Names that were asked for in vain."""

from __future__ import annotations

import pytest

from extempo.compat.torch_namespace.missing import forget_missing, missing_names, note_missing


@pytest.fixture(autouse=True)
def nothing_missing():
    forget_missing()
    yield
    forget_missing()


def asked_at(path, file, line):
    """Note a name as if this line of this file had asked for it."""
    code = compile("\n" * (line - 1) + "note(path)", file, "exec")
    exec(code, {"note": note_missing, "path": path})


def test_each_line_is_noted_once_in_the_order_of_asking():
    for _ in range(2):
        asked_at("torch.a", "one.py", 3)
    asked_at("torch.b", "two.py", 1)
    assert [str(name) for name in missing_names()] == ["torch.a  (one.py:3)", "torch.b  (two.py:1)"]
