"""Classes that refuse when they are used."""

from __future__ import annotations

import pytest

from extempo.compat.refused import RefusedName
from extempo.compat.torch_namespace.refusals import refused


def test_it_can_be_subclassed_and_asked_about_but_not_made():
    stands_for = refused("torch.fx.Tracer", "there are no symbols")
    own = type("Own", (stands_for,), {})
    assert not isinstance(3, stands_for)
    assert issubclass(own, stands_for)
    for cls in (stands_for, own):
        with pytest.raises(RefusedName, match=r"^torch\.fx\.Tracer: there are no symbols$"):
            cls()
    assert (stands_for.__name__, stands_for.__module__) == ("Tracer", "torch.fx")


def test_its_attributes_refuse_too_but_not_those_that_python_asks_for():
    stands_for = refused("torch.fx.Tracer", "there are no symbols")
    with pytest.raises(RefusedName):
        _ = stands_for.trace
    assert not hasattr(stands_for, "__wrapped__")
