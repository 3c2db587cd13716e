"""Programs against onnxruntime: the same inputs through both, and results that agree."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.func.tree import leaves

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")


class Exported:
    """A program, and a session of onnxruntime on the model that it wrote."""

    def __init__(self, program: ex.exporting.Program, opset_version: int = 21) -> None:
        self.program = program
        file = io.BytesIO()
        program.to_onnx(file, opset_version=opset_version)
        self.model = onnx.load_model_from_string(file.getvalue())
        onnx.shape_inference.infer_shapes(self.model, check_type=True, strict_mode=True, data_prop=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # a warning is no disagreement
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])

    def run(self, *args: Any) -> list[np.ndarray]:
        """What onnxruntime gives."""
        arrays = [t.numpy() for t in leaves(args)]
        feeds = {spec.name: array for spec, array in zip(self.program.inputs, arrays, strict=True)}
        return self.session.run(None, {n.name: feeds[n.name] for n in self.session.get_inputs()})

    def agree(self, *args: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
        """Both give the same: dtypes, shapes, and values up to rounding."""
        ours, theirs = [t.numpy() for t in leaves(self.program(*args))], self.run(*args)
        assert len(ours) == len(theirs)
        for our, their in zip(ours, theirs, strict=True):
            assert (our.shape, our.dtype) == (their.shape, their.dtype)
            np.testing.assert_allclose(their, our, rtol=rtol, atol=atol)

    def kinds(self) -> set[str]:
        """The operators of the model, those in its inner graphs included."""
        found: set[str] = set()
        waiting = [self.model.graph]
        while waiting:
            for node in waiting.pop().node:
                found.add(node.op_type)
                waiting += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        return found


def normal(rng: np.random.Generator, *shape: int) -> ex.Tensor:
    """A float32 tensor of normal numbers."""
    return ex.tensor(rng.normal(size=shape).astype(np.float32))


def lengths(rng: np.random.Generator, n: int = 100, least: int = 0, longest: int = 20) -> Iterable[int]:
    """So many sizes, the two smallest first."""
    yield from (least, least + 1)
    yield from (int(k) for k in rng.integers(least, longest, size=n - 2))


def agree_on_many(
    model: Callable[..., Any],
    example: Any,
    draw: Callable[[np.random.Generator, int], tuple[Any, ...]],
    dynamic: Any,
    *,
    n: int = 100,
    least: int = 0,
    opset_version: int = 21,
    **tolerance: float,
) -> Exported:
    """Export a model and compare it with onnxruntime on n random inputs of sizes from `least` on."""
    exported = Exported(ex.program(model, example, dynamic=dynamic), opset_version)
    rng = np.random.default_rng(0)
    for length in lengths(rng, n, least):
        exported.agree(*draw(rng, length), **tolerance)
    return exported
