"""`torch.onnx`: PyTorch's names for `program.to_onnx`, and what libraries declare while they load.

`export` takes PyTorch's whole signature. Options of its tracers (dynamo, optimize, report, ...) have no effect; those
that would change the model in a way that is not there are errors.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...errors import ArgumentError, ExportError, UnsupportedError
from ...nn.module import Module

_F = TypeVar("_F")
OnnxExporterError = ExportError
producer_name = "extempo"
_running: list[None] = []


class TrainingMode(enum.IntEnum):
    """The mode in which a model is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """Which operators a model may have; ONNX's own are what there is."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """Whether `export` is running."""
    return bool(_running)


class ONNXProgram:
    """What `export` makes: the ONNX model in memory, and the program that it came from."""

    def __init__(self, program: Any, opset_version: int) -> None:
        from ...exporting.onnx_export.model import onnx_model

        self.exported_program = program
        self.model_proto = onnx_model(program, opset_version)

    def save(self, destination: Any, **options: Any) -> None:
        """Write the model to a path or a binary file."""
        from ...exporting.onnx_export.model import write_model

        write_model(self.model_proto, destination)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.exported_program(*args, **kwargs)


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    custom_translation_table: Any = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: Any = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Any = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: Any = False,
    autograd_inlining: bool = True,
) -> ONNXProgram:
    """Write a model to `f` as ONNX, with its loops and open sizes; see `program.to_onnx`. Opsets 17 to 21."""
    _refuse("export_params=False", not export_params)
    _refuse("keep_initializers_as_inputs=True", keep_initializers_as_inputs)
    _refuse("custom_translation_table", bool(custom_translation_table))
    _refuse("export_modules_as_functions", bool(export_modules_as_functions))
    _refuse("operators outside of ONNX", operator_export_type != OperatorExportTypes.ONNX)
    _running.append(None)
    try:
        program = _program(model, args, kwargs, dynamic_shapes, dynamic_axes, input_names, training)
        _rename(program, input_names, output_names)
        made = ONNXProgram(program, 21 if opset_version is None else opset_version)
    finally:
        _running.pop()
    if verify:
        _verify(made, args if isinstance(args, tuple) else (args,), kwargs or {})
    if f is not None:
        made.save(f)
    return made


def _verify(made: ONNXProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run the model by onnxruntime on the example; a result that differs is an error."""
    import numpy as np
    import onnxruntime

    from ...func.tree import leaves

    program = made.exported_program
    tensors = program._tensors(args, kwargs)
    session = onnxruntime.InferenceSession(made.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {spec.name: t.detach().numpy() for spec, t in zip(program.inputs, tensors, strict=True)}
    feeds |= {name: program.weights[name].detach().numpy() for name in program.state}
    theirs = session.run(None, feeds)
    for name, our, their in zip(program.outputs, leaves(program(*args, **kwargs)), theirs, strict=False):
        if not np.allclose(our.numpy(), their, rtol=1e-3, atol=1e-4, equal_nan=True):
            raise ExportError(f"torch.onnx.export: onnxruntime gives another {name} than the model on the example")


def _refuse(what: str, is_asked: bool) -> None:
    if is_asked:
        raise UnsupportedError(f"torch.onnx.export: {what} is not part of Extempo; leave it out")


def _program(
    model: Any, args: Any, kwargs: Any, dynamic_shapes: Any, dynamic_axes: Any, names: Any, training: TrainingMode
) -> Any:
    from ...exporting.building import program
    from ...exporting.calls import bound_call
    from ...exporting.program import Program
    from .export import ExportedProgram

    if isinstance(model, ExportedProgram):
        return model.program
    if isinstance(model, Program):
        return model
    args = args if isinstance(args, tuple) else (args,)
    if args and isinstance(args[-1], dict) and not kwargs and all(isinstance(k, str) for k in args[-1]):
        args, kwargs = args[:-1], args[-1]  # PyTorch's older way to name arguments
    call = bound_call(model, args, kwargs or {})
    dynamic = dynamic_shapes if dynamic_axes is None else _axes(call, dynamic_axes, names)
    if not isinstance(model, Module) or training == TrainingMode.PRESERVE:
        return program(model, call, dynamic=dynamic, training=isinstance(model, Module) and model.training)
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.train(training == TrainingMode.TRAINING)
        return program(model, call, dynamic=dynamic, training=model.training)
    finally:
        for module, mode in modes:
            module.training = mode


def _axes(call: Mapping[str, Any], dynamic_axes: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """PyTorch's older form of open sizes, by the names of inputs; those of outputs follow."""
    from ...exporting.calls import nest

    found: list[tuple[str, Any]] = []
    for name, value in call.items():
        nest(value, name, found, "the argument")
    own = [name for name, _ in found]
    given = dict(zip(names or (), own, strict=False))
    dynamic: dict[str, Any] = {}
    for name, axes in dynamic_axes.items():
        full = given.get(name, name)
        if full in own:
            named = axes if isinstance(axes, Mapping) else dict.fromkeys(axes, "auto")
            dynamic[full] = {d: _identifier(size) for d, size in named.items()}
    return dynamic


def _identifier(name: str) -> str:
    """A name of a size that may stand in expressions."""
    made = "".join(c if c.isalnum() else "_" for c in name)
    return made if made[:1].isalpha() else f"size_{made}"


def _rename(program: Any, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> None:
    """Inputs and outputs by the user's names; the first ones, where there are fewer names."""
    for what, names, own in (("input_names", inputs, program.inputs), ("output_names", outputs, program.outputs)):
        if names is not None and len(names) > len(own):
            raise ArgumentError(f"torch.onnx.export: {what} has {len(names)} names, and the model {len(own)} of them")
    for i, name in enumerate(inputs or ()):
        program.inputs[i] = program.inputs[i]._replace(name=name)
    for i, name in enumerate(outputs or ()):
        program.outputs[i] = name


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int, **kwargs: Any) -> None:
    """How an op would be written in ONNX: nobody asks, since Extempo's ops say it themselves."""


unregister_custom_op_symbolic = register_custom_op_symbolic


def parse_args(*arg_descriptors: str) -> Callable[[_F], _F]:
    """A decorator of such functions, which hands them back."""
    return lambda function: function
