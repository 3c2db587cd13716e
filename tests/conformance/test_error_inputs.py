"""What PyTorch refuses, by its own list of errors: Extempo refuses it too, with an error of its own.

`error_inputs` of op_db are arguments that each op must raise for. `out=` of another dtype is tried for every op that
has it. A name that Extempo has not, complex and sparse tensors, and what cannot be carried over are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch", reason="conformance needs PyTorch: pip install -e '.[conformance]'")
pytest.importorskip("expecttest", reason="PyTorch's op_db needs expecttest: pip install -e '.[conformance]'")

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

import extempo as ex  # noqa: E402
from conformance import harness  # noqa: E402 - needs PyTorch, and the path above
from conformance.convert import LeftOut, Twins, Unmappable, refuse_by_design  # noqa: E402
from conformance.naming import resolve  # noqa: E402
from extempo.errors import ExtempoError  # noqa: E402

# PyTorch wants tensors where a number has one meaning only; Extempo takes the number.
TENSORS_ONLY = ("received an invalid combination", "must be Tensor, not int", "descriptor '", "has no attribute 'recip")
OUT_DTYPES = (torch.float64, torch.float32, torch.int64, torch.bool)


def _twins(positional: Any, named: Any) -> Twins | None:
    try:
        refuse_by_design((positional, named))
        return Twins((positional, named))
    except (LeftOut, Unmappable, NotImplementedError, ValueError):  # what has no memory, or too many dimensions
        return None


def _error(function: Any, arguments: Any, **more: Any) -> Exception | None:
    try:
        function(*arguments[0], **arguments[1], **more)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(
    "name", sorted(name for name, ops in harness.OPS.items() if any(op.error_inputs_func for op in ops))
)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    for op in harness.OPS[name]:
        ours = resolve(ex, op)
        for case in op.error_inputs("cpu") if ours is not None and op.error_inputs_func else ():
            sample = case.sample_input
            twins = _twins((sample.input, *sample.args), dict(sample.kwargs))
            theirs = twins and _error(op.op, twins.theirs)
            if theirs is None or any(text in str(theirs) for text in TENSORS_ONLY):
                continue
            error = _error(ours, twins.ours)
            assert isinstance(error, ExtempoError), f"{type(error).__name__}: {error}, where PyTorch says: {theirs}"
            assert str(error), f"an error without words, where PyTorch says: {theirs}"


def _outs(op: Any) -> Iterator[tuple[Twins, Any]]:
    """A sample of each dtype whose result is one tensor."""
    for dtype in (torch.float32, torch.int64):
        if dtype not in op.supported_dtypes("cpu"):
            continue
        harness._seed(0)
        sample = next(iter(op.sample_inputs("cpu", dtype)), None)
        twins = sample and _twins((sample.input, *sample.args), dict(sample.kwargs))
        if twins and _error(op.op, twins.theirs) is None:
            result = op.op(*twins.theirs[0], **twins.theirs[1])
            if isinstance(result, torch.Tensor) and not result.is_complex():
                yield twins, result


@pytest.mark.parametrize("name", sorted(name for name, ops in harness.OPS.items() if ops[0].supports_out))
def test_out_of_a_dtype_that_pytorch_refuses_is_refused(name: str) -> None:
    for op in harness.OPS[name]:
        ours = resolve(ex, op)
        for twins, result in _outs(op) if ours is not None else ():
            for dtype in OUT_DTYPES:
                theirs = _error(op.op, twins.theirs, out=torch.empty(result.shape, dtype=dtype))
                if theirs is None or isinstance(theirs, TypeError):
                    continue
                out = ex.empty(tuple(result.shape), dtype=getattr(ex, str(dtype).removeprefix("torch.")))
                error = _error(ours, twins.ours, out=out)
                assert isinstance(error, TypeError), f"{error!r}, where PyTorch says: {theirs}"
