"""Versions compare by numbers."""

from __future__ import annotations

import pytest

from extempo.compat.torch_namespace.torch_version import TorchVersion


@pytest.mark.parametrize("older", ["2.9", "1.13.1", (2, 4), "2.12.0+cpu"])
def test_a_version_is_newer_than_one_of_smaller_numbers(older):
    version = TorchVersion("2.13.0")
    assert version > older
    assert version >= older
    assert not version < older
    assert not version <= older
    assert version != older


def test_zeros_at_the_end_and_builds_make_no_difference():
    assert TorchVersion("2.13.0") == "2.13"
    assert TorchVersion("2.13.0+cpu") == (2, 13)
    assert TorchVersion("2.13.0").split(".")[:2] == ["2", "13"]
    assert {TorchVersion("2.13.0"): 1}[TorchVersion("2.13.0")] == 1
