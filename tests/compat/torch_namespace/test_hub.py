"""Nothing is loaded from the network."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import hub


def test_loading_from_the_network_is_refused_in_words():
    with pytest.raises(ex.errors.UnsupportedError, match=r"torch\.hub\.load: Extempo loads no code"):
        hub.load("a/b", "model")


def test_the_folder_is_where_pytorch_has_it(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "hub")
