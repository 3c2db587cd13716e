"""Extempo's layers and losses against PyTorch's own module samples, one test per class of torch.nn."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.conformance
pytest.importorskip("torch", reason="conformance needs PyTorch: pip install -e '.[conformance]'")
pytest.importorskip("expecttest", reason="PyTorch's module_db needs expecttest: pip install -e '.[conformance]'")

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from conformance import module_harness  # noqa: E402 - needs PyTorch, and the path above
from conformance.module_harness import module_report as module_report  # noqa: E402 - for report.py


@pytest.mark.parametrize("name", [n for n in module_harness.class_names() if n not in module_harness.NOT_HERE])
def test_module_agrees_with_pytorch_in_values_gradients_and_training(name: str) -> None:
    outcome = module_harness.run(name)
    assert outcome.status == "pass", outcome.reason


def test_what_is_not_here_is_named_and_refused() -> None:
    import extempo as ex

    for name in module_harness.NOT_HERE:
        with pytest.raises(ex.errors.UnsupportedError, match=name):
            getattr(ex.nn, name)()
