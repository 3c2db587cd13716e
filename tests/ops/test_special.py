"""ex.special lists what it has."""

from __future__ import annotations

import inspect

from extempo import special


def test_every_listed_function_exists_and_says_what_it_does():
    for name in special.__all__:
        assert inspect.getdoc(getattr(special, name)), name
