"""Which module of Extempo stands for which of PyTorch's."""

from __future__ import annotations

import importlib

import pytest

from extempo.compat.torch_namespace.layout import BELOW, HOMES, OWN, REFUSED, Home, homes_of, is_module


def test_a_module_that_extempo_has_by_name_comes_first():
    assert homes_of("nn.functional")[0] == Home("extempo.nn.functional")
    assert homes_of("")[0] == Home("extempo")


def test_contents_that_extempo_has_in_one_place_are_found_there():
    assert homes_of("nn.modules.conv")[-1] == Home("extempo.nn")
    assert homes_of("optim.adam")[-1] == Home("extempo.optim")
    assert homes_of("utils.data.sampler")[-1] == Home("extempo.data")


def test_everything_below_a_refused_module_exists_and_is_refused():
    assert is_module("fx.experimental.proxy_tensor")
    (home,) = homes_of("fx.experimental.proxy_tensor")
    assert home.module is None
    assert "Graph" in home.reason


def test_inner_names_of_pytorch_are_found_in_the_module_that_has_their_meaning():
    assert Home("extempo.nn.norm_layers") in homes_of("nn.modules.batchnorm")
    assert homes_of("nn.modules.batchnorm")[-1] == Home("extempo.nn")
    assert homes_of("")[1].module.endswith("toplevel")


def test_a_refused_module_may_answer_questions():
    questions, others = homes_of("distributed.rpc")
    assert questions.module.endswith("unavailable")
    assert others.module is None


def test_only_modules_of_pytorch_exist():
    assert is_module("nn.modules.linear")
    assert not is_module("nn.modules.linaer")
    assert not is_module("tracing")


OF_ITS_OWN = {f"extempo.compat.torch_namespace.{name}" for name in OWN.values()}


@pytest.mark.parametrize("path", sorted({*HOMES.values(), *OF_ITS_OWN}))
def test_every_home_can_be_imported(path):
    importlib.import_module(path)


def test_no_module_is_stated_twice():
    assert not set(OWN) & set(HOMES)
    assert not set(HOMES) & set(REFUSED)
    for path in (*OWN, *HOMES, *REFUSED):
        package, _, name = path.rpartition(".")
        assert name in BELOW[package], path


@pytest.mark.conformance
def test_pytorch_has_every_module_that_is_listed():
    pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    from importlib.util import find_spec

    for package, names in BELOW.items():
        for name in names:
            path = ".".join(filter(None, ("torch", package, name)))
            assert hasattr(importlib.import_module(path.rpartition(".")[0]), name) or find_spec(path), path
