"""Every public name of the package has an example, and the example runs."""

from __future__ import annotations

import doctest
import importlib.util

import pytest

import extempo as ex

NEED_PYARROW = {"ArrowDataset", "ParquetDataset"}


@pytest.mark.parametrize("name", ex.data.__all__)
def test_the_example_runs(name):
    if name in NEED_PYARROW and importlib.util.find_spec("pyarrow") is None:
        pytest.skip("needs pyarrow, the arrow extra")
    examples = doctest.DocTestFinder(recurse=False).find(getattr(ex.data, name), name, globs={"ex": ex})
    assert sum(len(example.examples) for example in examples), f"{name} has no example"
    for example in examples:
        assert doctest.DocTestRunner().run(example).failed == 0
