"""Extempo against PyTorch's own sample inputs, one test per op_db name; names in known.txt must pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.conformance
pytest.importorskip("torch", reason="conformance needs PyTorch: pip install -e '.[conformance]'")
pytest.importorskip("expecttest", reason="PyTorch's op_db needs expecttest: pip install -e '.[conformance]'")

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from conformance import excuses, harness, report  # noqa: E402 - needs PyTorch, and the path above

KNOWN = report.known_names()


@pytest.mark.parametrize("name", sorted(harness.OPS))
def test_op_agrees_with_pytorch_on_all_samples(name: str) -> None:
    outcome = harness.run(name)
    verdict = f"{outcome.status}: {outcome.reason}"
    if name in KNOWN:
        assert outcome.status == "pass", verdict
    elif outcome.status != "pass":
        pytest.xfail(verdict)


def test_known_names_are_names_of_op_db() -> None:
    assert set(harness.OPS) >= KNOWN


def test_excuses_are_for_names_of_op_db() -> None:
    assert excuses.listed_names() <= set(harness.OPS)


def test_every_random_op_has_a_property() -> None:
    assert set(harness.PROPERTIES) == set(excuses.RANDOM)
