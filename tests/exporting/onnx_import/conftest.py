"""ONNX models made by hand, and onnxruntime beside them."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex

REASON = "ONNX files are read and run by the extra: pip install -e '.[onnx]'"


@pytest.fixture
def model_of():
    """Bytes of a model: nodes, inputs as name -> (shape, element type), names of outputs, weights as name -> array."""
    onnx = pytest.importorskip("onnx", reason=REASON)
    from onnx import helper, numpy_helper

    def make(nodes, inputs, outputs, weights=None, opset=21, functions=(), as_bytes=True, domains=()):
        declared = []
        for name, spec in inputs.items():
            shape, kind = spec if isinstance(spec, tuple) else (spec, onnx.TensorProto.FLOAT)
            declared.append(helper.make_tensor_value_info(name, kind, shape))
        results = [o if not isinstance(o, str) else onnx.ValueInfoProto(name=o) for o in outputs]
        for result in results:
            if not result.HasField("type"):
                result.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        held = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
        graph = helper.make_graph(nodes, "graph", declared, results, held)
        imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))
        return model.SerializeToString() if as_bytes else model

    return make


@pytest.fixture
def node_model(model_of):
    """Bytes of a model of one node whose inputs are these arrays; None leaves one out."""
    onnx = pytest.importorskip("onnx", reason=REASON)
    from onnx import helper

    def make(op, arrays, n_outputs=1, opset=21, types=None, **attributes):
        names = [f"x{i}" if a is not None else "" for i, a in enumerate(arrays)]
        outputs = [f"y{i}" for i in range(n_outputs)]
        inputs = {
            name: (list(a.shape), helper.np_dtype_to_tensor_dtype(a.dtype))
            for name, a in zip(names, arrays, strict=True)
            if name
        }
        kinds = types or [onnx.TensorProto.FLOAT] * n_outputs
        declared = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outputs, kinds, strict=True)]
        return model_of([helper.make_node(op, names, outputs, **attributes)], inputs, declared, opset=opset)

    return make


@pytest.fixture
def run_node(node_model):
    """The results of one node on these arrays, as a tuple of arrays."""

    def run(op, arrays, n_outputs=1, **options):
        module = ex.from_onnx(node_model(op, arrays, n_outputs, **options))
        results = module(*(ex.from_numpy(a) for a in arrays if a is not None))
        return tuple(r.numpy() for r in (results if isinstance(results, tuple) else (results,)))

    return run


@pytest.fixture
def agrees(node_model, run_node):
    """That one node gives what onnxruntime gives; its results."""
    runtime = pytest.importorskip("onnxruntime", reason=REASON)

    def check(op, arrays, n_outputs=1, rtol=1e-5, atol=1e-5, **options):
        ours = run_node(op, arrays, n_outputs, **options)
        session = runtime.InferenceSession(node_model(op, arrays, n_outputs, **options))
        theirs = session.run(None, {f"x{i}": a for i, a in enumerate(arrays) if a is not None})
        for own, other in zip(ours, theirs, strict=True):
            assert own.dtype == other.dtype
            np.testing.assert_allclose(own, other, rtol, atol)
        return ours

    return check


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def normal(rng):
    """float32 draws of a shape."""
    return lambda *shape: rng.normal(size=shape).astype(np.float32)
