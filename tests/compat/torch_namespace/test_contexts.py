"""Context managers that are decorators too."""

from __future__ import annotations

from extempo.compat.torch_namespace.contexts import _DecoratorContextManager


class Noting(_DecoratorContextManager):
    def __init__(self, notes):
        self.notes = notes

    def clone(self):
        return type(self)(self.notes)

    def __enter__(self):
        self.notes.append(id(self))

    def __exit__(self, *error):
        pass


def test_each_call_of_a_decorated_function_enters_a_copy():
    notes = []
    context = Noting(notes)
    assert context(lambda x: x + 1)(1) == 2
    assert notes
    assert notes != [id(context)]
