"""`ex.from_onnx` and the module that it makes: the file's weights by name, checks of inputs, a run of the steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...core.types import dtype
from ...core.wording import converted_to, counted, did_you_mean
from ...errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from ...nn.module import Module
from ...nn.parameter import Parameter
from .graphs import ModuleBuilder, Run, as_tensor
from .reading import BUFFERS, element_type, read_model
from .table import TENSOR_KINDS

__all__ = ["OnnxModule", "from_onnx"]


class ModuleInput(NamedTuple):
    """An input as the file declares it; a size is a number, a name for one that is open, or None."""

    name: str
    dtype: dtype
    sizes: tuple[int | str | None, ...] | None  # None: any shape

    def __str__(self) -> str:
        sizes = "..." if self.sizes is None else ", ".join("?" if n is None else str(n) for n in self.sizes)
        return f"{self.name}: {self.dtype.short_name}[{sizes}]"


class Weight(NamedTuple):
    """Where a value that the file holds lies in the module."""

    key: str
    owner: Module
    name: str


def from_onnx(f: Any, trainable: Collection[str] | Callable[[str], bool] | None = None) -> OnnxModule:
    """An ONNX file as a module that runs and trains. Nothing of the file is executed; it needs the package `onnx`.

    f: a path, a binary file, or bytes. Initializers of floats become parameters under their names (running statistics
    of BatchNormalization, bounds, sizes and the buffers of an exported program are none), and `trainable` chooses among
    them. The module is called with the file's inputs in order or by name, and gives its outputs, as a tuple if there
    are several. Sizes that the file leaves open may be any. If, Loop and Scan run their bodies; an operator that is not
    supported is an error that names it, before anything runs.

    >>> from onnx import TensorProto, helper, numpy_helper
    >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in "xy")
    >>> scale = numpy_helper.from_array(np.array([2.0, 3.0], np.float32), "scale")
    >>> graph = helper.make_graph([helper.make_node("Mul", ["x", "scale"], ["y"])], "g", [x], [y], [scale])
    >>> model = ex.from_onnx(helper.make_model(graph).SerializeToString())
    >>> model
    OnnxModule(x: f32[n, 2] -> y)
    >>> model(ex.ones(3, 2)).sum().backward()
    >>> model.scale.grad
    tensor([3., 3.])
    """
    model, directory = read_model(f)
    return OnnxModule(ModuleBuilder(model, directory), model, trainable)


class OnnxModule(Module):
    """The module of an ONNX file; `ex.from_onnx` makes it. `input_names` and `output_names` are those of the file.

    `state_dict()` has the initializers under their names. A dot in a name makes a submodule, as in PyTorch; a name
    that a module cannot have (it is empty, or that of a method) gets an underscore.
    """

    def __init__(
        self, builder: ModuleBuilder, model: Any, trainable: Collection[str] | Callable[[str], bool] | None
    ) -> None:
        super().__init__()
        self._body = builder.body
        held = set(builder.initial)
        self._inputs = [_declared(i) for i in model.graph.input if i.name not in held]
        self._defaults = [_declared(i) for i in model.graph.input if i.name in held]  # weights that a call may replace
        self.input_names = [i.name for i in self._inputs]
        self.output_names = [o.name for o in model.graph.output]
        self._weights: list[Weight] = []
        is_chosen = _chooser(trainable, builder, _buffers(model))
        for key, array in builder.initial.items():
            uses = builder.uses.get(key, set())
            if uses & {*TENSOR_KINDS} or (not uses and array.dtype.kind == "f"):
                self._add(key, array, "Tensor" in uses and is_chosen(key), True)
        for key, array in builder.constants.items():
            if builder.uses.get(key, set()) & {*TENSOR_KINDS}:
                self._add(key, array, False, False)

    def _add(self, key: str, array: Array, is_trained: bool, is_persistent: bool) -> None:
        owner, name = self._owner(key.split("."))
        value = from_array(array)
        if is_trained and value.dtype.is_floating_point:
            owner.register_parameter(name, Parameter(value))
        else:
            owner.register_buffer(name, value, persistent=is_persistent)
        self._weights.append(Weight(key, owner, name))

    def _owner(self, path: Sequence[str]) -> tuple[Module, str]:
        """The submodule for a name with dots, made where it is missing, and the last part of the name."""
        owner: Module = self
        for part in path[:-1]:
            while not part or (part not in owner._modules and hasattr(owner, part)):
                part += "_"
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]
        name = path[-1]
        while not name or hasattr(owner, name):
            name += "_"
        return owner, name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        values = {key: getattr(owner, name) for key, owner, name in self._weights}
        values.update(self._checked(args, kwargs))
        results = [as_tensor(value) for value in self._body.run_steps(Run(values, self.training))]
        return results[0] if len(results) == 1 else tuple(results)

    # ---- inputs

    def _refuse_input(self, given: Any) -> None:
        """The error that rose has named the input already."""

    def _checked(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Tensor]:
        """The inputs of a call by name, each as the file declares it."""
        if len(args) > len(self._inputs):
            takes = f"{counted(len(self._inputs), 'input')} ({', '.join(self.input_names)})"
            raise DtypeError(f"OnnxModule: takes {takes}, got {len(args)}")
        given = dict(zip(self.input_names, args, strict=False))
        known = {i.name: i for i in (*self._inputs, *self._defaults)}
        for name, value in kwargs.items():
            if name not in known:
                raise DtypeError(
                    f"OnnxModule: {name!r} is none of its inputs, {', '.join(known)}{did_you_mean(name, known)}"
                )
            if name in given:
                raise DtypeError(f"OnnxModule: the input {name!r} was given twice")
            given[name] = value
        sizes: dict[str, tuple[int, str]] = {}
        for spec in self._inputs:
            if spec.name not in given:
                raise DtypeError(f"OnnxModule: the input {spec.name!r} is missing; expected {spec}")
        for name, value in given.items():
            self._check(known[name], value, sizes)
        return given

    def _check(self, spec: ModuleInput, value: Any, sizes: dict[str, tuple[int, str]]) -> None:
        if not isinstance(value, Tensor):
            hint = "; pass ex.from_numpy(x)" if isinstance(value, np.ndarray) else "; pass ex.tensor(x)"
            raise DtypeError(f"OnnxModule: the input {spec} must be a tensor, got {type(value).__name__}{hint}")
        if value.dtype is not spec.dtype and not self._was_converted_to(value.dtype, spec):
            raise DtypeError(
                f"OnnxModule: the input {spec} must be {spec.dtype}, got {value.dtype}; "
                f"convert it: x{converted_to(spec.dtype)}"
            )
        if spec.sizes is None:
            return
        shape = tuple(value.shape)
        if len(shape) != len(spec.sizes):
            raise ShapeError(
                f"OnnxModule: the input {spec} must have {counted(len(spec.sizes), 'dimension')}, got shape {shape}"
            )
        for i, (n, expected) in enumerate(zip(shape, spec.sizes, strict=True)):
            if isinstance(expected, str):
                before, where = sizes.setdefault(expected, (n, spec.name))
                if n != before:
                    raise ShapeError(
                        f"OnnxModule: the input {spec}: size {i} is {n}, but {expected} is {before} in {where!r}"
                    )
            elif expected is not None and n != expected:
                raise ShapeError(f"OnnxModule: the input {spec}: size {i} must be {expected}, got shape {shape}")

    def _was_converted_to(self, found: dtype, spec: ModuleInput) -> bool:
        """Whether the whole module was: `model.half()` takes halves."""
        if not (found.is_floating_point and spec.dtype.is_floating_point):
            return False
        own = next((p.dtype for p in self.parameters()), None)
        return own is found

    def extra_repr(self) -> str:
        return f"{', '.join(map(str, self._inputs))} -> {', '.join(self.output_names)}"


def _declared(value: Any) -> ModuleInput:
    """An input of the file."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise UnsupportedError(
            f"from_onnx: the input {value.name!r} is no tensor but a sequence, a map or an optional value; export the "
            "model with tensors"
        )
    of_tensor = value.type.tensor_type
    try:
        found = element_type(of_tensor.elem_type)
    except UnsupportedError as error:
        raise UnsupportedError(f"from_onnx: the input {value.name!r}: {error}") from None
    if not of_tensor.HasField("shape"):
        return ModuleInput(value.name, found, None)
    sizes = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in of_tensor.shape.dim]
    return ModuleInput(value.name, found, tuple(sizes))


def _buffers(model: Any) -> list[str]:
    """The initializers that were not trained, as `program.to_onnx` says of them."""
    for entry in model.metadata_props:
        if entry.key == BUFFERS:
            try:
                named = json.loads(entry.value)
            except (ValueError, RecursionError):
                return []
            return [name for name in named if type(name) is str] if type(named) is list else []
    return []


def _chooser(
    trainable: Collection[str] | Callable[[str], bool] | None, builder: ModuleBuilder, buffers: Collection[str]
) -> Callable[[str], bool]:
    """Which initializers are trained; a name that is none of them is an error."""
    if trainable is None:
        return lambda name: name not in buffers
    if callable(trainable):
        return trainable
    names = {trainable} if isinstance(trainable, str) else set(trainable)
    for name in names:
        if name not in builder.initial:
            near = did_you_mean(name, builder.initial)
            raise ArgumentError(f"from_onnx: trainable names {name!r}, which is no initializer of the file{near}")
    return names.__contains__
