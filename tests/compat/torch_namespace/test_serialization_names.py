"""`torch.serialization`: settings are kept, questions about the one device answered."""

from __future__ import annotations

from types import SimpleNamespace

from extempo.compat.torch_namespace import serialization_names as names


def test_settings_are_kept():
    before = names.get_default_load_endianness()
    names.set_default_load_endianness(names.LoadEndianness.LITTLE)
    assert names.get_default_load_endianness() is names.LoadEndianness.LITTLE
    names.set_default_load_endianness(before)
    assert names.get_crc32_options() is True


def test_everything_is_on_the_cpu():
    storage = object()
    assert names.location_tag(storage) == "cpu"
    assert names.default_restore_location(storage, "cuda:0") is storage


def test_versions_are_compared_by_their_numbers():
    module = SimpleNamespace(__version__="1.10.2")
    assert names.check_module_version_greater_or_equal(module, (1, 9))
    assert not names.check_module_version_greater_or_equal(module, (1, 11))
