"""Where the user's code stands: the innermost line outside Extempo, found without keeping frames."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from types import SimpleNamespace

import pytest

import extempo as ex
from extempo.core import source_location
from extempo.core.graph import describe_where
from extempo.core.source_location import last_value_read, remember_value_read, user_line, user_stacklevel


def module_of(package):
    """A module of a package, with functions that ask where the user's code stands."""
    names = {"__package__": package, "user_line": user_line, "remember_value_read": remember_value_read}
    exec("def asks(): return user_line()\ndef calls(): return asks()\ndef reads(): remember_value_read()", names)
    return SimpleNamespace(**names)


INSIDE = module_of("extempo.somewhere")


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(source_location, "_user_globals", None)
    monkeypatch.setattr(source_location, "PACKAGES", {})


def test_frames_of_extempo_are_passed_over():
    code, instruction = INSIDE.calls()
    assert (code.co_name, code.co_filename) == ("test_frames_of_extempo_are_passed_over", __file__)
    assert instruction >= 0


def test_the_module_that_called_last_is_not_looked_up_again():
    first = INSIDE.calls()[0]
    assert source_location.PACKAGES["extempo.somewhere"] is True
    assert source_location._user_globals is globals()
    source_location.PACKAGES.clear()
    assert INSIDE.asks()[0] is first
    assert not source_location.PACKAGES


def test_the_innermost_user_is_found_between_frames_of_extempo():
    user = module_of("someones.package")
    assert user.calls()[0].co_name == "calls"


@pytest.mark.parametrize(
    ("package", "internal"),
    [
        ("extempo", True),
        ("extempo.nn.utils", True),
        ("extempo.cli", False),
        ("extempo.cli.demo", False),
        ("extempolarge", False),
        ("", False),
        (None, False),
    ],
)
def test_which_packages_are_extempos_own(package, internal):
    assert source_location._is_internal(package) is internal
    assert {package: internal} == source_location.PACKAGES


def test_a_location_keeps_no_local_variable():
    class Local:
        pass

    def made():
        local = Local()
        return weakref.ref(local), INSIDE.asks()

    ref, location = made()
    gc.collect()
    assert location is not None
    assert ref() is None


def test_ops_remember_the_line_of_the_call():
    x = ex.ones(2, requires_grad=True)
    here, made = describe_where(INSIDE.asks()), x * 2
    assert describe_where(made.grad_fn.where) == here


def test_the_last_value_that_was_read_is_remembered_for_each_thread():
    INSIDE.reads()
    mine = last_value_read()
    others = []
    thread = threading.Thread(target=lambda: others.append(last_value_read()))
    thread.start()
    thread.join()
    assert mine is not None
    assert others == [None]


def test_a_warning_from_inside_points_at_the_user():
    names = {"__package__": "extempo.nn", "user_stacklevel": user_stacklevel, "warnings": warnings}
    exec("def warns(): warnings.warn('so', stacklevel=user_stacklevel())\ndef calls(): warns()", names)
    for call in (names["warns"], names["calls"]):
        with pytest.warns(UserWarning, match="so") as caught:
            call()
        assert caught[0].filename == __file__
