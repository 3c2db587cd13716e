"""Libraries that Extempo does not use answer and change nothing."""

from __future__ import annotations

from extempo.compat.torch_namespace import backend_names as names


def test_settings_are_taken_and_have_no_effect():
    assert names.set_flags(enabled=True) == ()
    with names.flags(enabled=True), names.verbose(1):
        assert not names.enabled
    names.disable_global_flags()
    assert not names.flags_frozen()


def test_nothing_is_there():
    assert not names.is_available()
    assert not names.is_acceptable(None)
    assert not names.is_macos_or_newer(14, 0)
    assert not names.is_macos13_or_newer()
    assert (names.get_core_count(), names.get_name(), names.get_opt_einsum()) == (0, "", None)
