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


def test_another_folder_may_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_chosen_dir", None)
    hub.set_dir(tmp_path)
    assert hub.get_dir() == str(tmp_path)


def test_weights_that_are_there_already_are_read(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    ex.save({"w": ex.ones(2)}, folder / "net-0123abcd.pth")
    assert hub.load_state_dict_from_url("https://example.org/models/net-0123abcd.pth")["w"].tolist() == [1, 1]


def test_weights_that_are_not_there_are_refused_with_the_place_to_put_them(tmp_path):
    with pytest.raises(ex.errors.UnsupportedError, match=r"put https://example.org/a.pth at .*a.pth yourself"):
        hub.load_state_dict_from_url("https://example.org/a.pth", model_dir=str(tmp_path))
