"""Jacobians, Hessians and products with them, of functions of tensors: PyTorch's `autograd.functional`.

Inputs and outputs are one tensor or a tuple of them, and results are nested accordingly: outputs first, inputs inside.
With `create_graph=False` the results are outside any graph; with True they can be differentiated again, also with
respect to the inputs given. `strict=True` makes an output that does not depend on an input an error rather than zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..core.absent_names import explain_absent
from ..core.context import enable_grad
from ..core.op import REGISTRY
from ..core.tensor import Tensor
from ..core.types import count
from ..dispatch.dispatcher import apply
from ..errors import AutogradError, DtypeError, ShapeError
from .api import grad

Fn = Callable[..., Any]
Tensors = Any  # one tensor or a tuple of them


def _as_tuple(value: Any, what: str) -> tuple[tuple[Tensor, ...], bool]:
    """(tensors, whether there was just one)."""
    if isinstance(value, Tensor):
        return (value,), True
    if not isinstance(value, tuple | list) or not all(isinstance(v, Tensor) for v in value):
        raise DtypeError(f"{what}: expected a tensor or a tuple of tensors, got {type(value).__name__}")
    return tuple(value), False


def _unpack(values: Any, single: bool) -> Any:
    return values[0] if single else tuple(values)


def _variables(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """The inputs as variables of their own, linked to the given ones when the result shall be differentiable."""
    made = []
    for x in inputs:
        if create_graph and x.requires_grad:
            made.append(apply(REGISTRY["alias"], (x,)))
        else:
            made.append(x.detach().requires_grad_())
    return tuple(made)


def _called(name: str, func: Fn, inputs: Tensors, create_graph: bool) -> tuple[Any, bool, Any, bool]:
    """(variables, whether there was one input, func(*variables), whether it has one output)."""
    given, single = _as_tuple(inputs, f"{name}: inputs")
    variables = _variables(given, create_graph)
    return variables, single, *_as_tuple(func(*variables), f"{name}: the result of func")


def _gradients(
    outputs: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    vectors: Any,
    create_graph: bool,
    strict: str = "",
    batched: bool = False,
) -> tuple[Tensor, ...]:
    """One gradient per input, zeros where there is none; `strict` names the caller if that is an error."""
    used = [i for i, y in enumerate(outputs) if y.requires_grad]
    if strict and len(used) < len(outputs):
        raise AutogradError(f"{strict}: strict=True, but an output does not depend on any input")
    found: tuple[Any, ...] = (None,) * len(inputs)
    if used:
        found = grad(
            [outputs[i] for i in used],
            inputs,
            [vectors[i] for i in used],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
            is_grads_batched=batched,
        )
    if strict and any(g is None for g in found):
        raise AutogradError(f"{strict}: strict=True, but the output does not depend on input {found.index(None)}")
    lead = (vectors[0].shape[0],) if batched else ()
    return tuple(
        ops.zeros((*lead, *x.shape), dtype=x.dtype) if g is None else g for g, x in zip(found, inputs, strict=True)
    )


def _finished(values: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    return values if create_graph else tuple(v.detach() for v in values)


def _vectors(v: Any, like: tuple[Tensor, ...], name: str, what: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise ShapeError(
                f"{name}: v may be left out only for one {what} with one element; give a vector of its shape"
            )
        return (ops.ones_like(like[0]),)
    given, _ = _as_tuple(v, f"{name}: v")
    shapes = [tuple(t.shape) for t in given], [tuple(t.shape) for t in like]
    if shapes[0] != shapes[1]:
        raise ShapeError(f"{name}: v has shapes {shapes[0]}, the {what}s have {shapes[1]}; they must be equal")
    return given


def vjp(
    func: Fn, inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), the product of `v` with its Jacobian from the left).

    >>> ex.autograd.functional.vjp(lambda x: x * x, ex.tensor([1.0, 2.0]), ex.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        variables, single, outputs, single_output = _called("vjp", func, inputs, create_graph)
        vectors = _vectors(v, outputs, "vjp", "output")
        products = _gradients(outputs, variables, vectors, create_graph, "vjp" if strict else "")
    return _unpack(_finished(outputs, create_graph), single_output), _unpack(_finished(products, create_graph), single)


def jvp(
    func: Fn, inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), the product of its Jacobian with `v`), by differentiating a vjp, which is linear in its vector.

    >>> ex.autograd.functional.jvp(lambda x: x * x, ex.tensor([1.0, 2.0]), ex.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        variables, _, outputs, single_output = _called("jvp", func, inputs, create_graph)
        vectors = _vectors(v, variables, "jvp", "input")
        products = _push(outputs, variables, vectors, create_graph, "jvp" if strict else "")
    result = _unpack(_finished(outputs, create_graph), single_output)
    return result, _unpack(_finished(products, create_graph), single_output)


def _push(
    outputs: tuple[Tensor, ...], variables: tuple[Tensor, ...], vectors: Any, create_graph: bool, strict: str = ""
) -> tuple[Tensor, ...]:
    dummies = tuple(ops.zeros_like(y).requires_grad_() for y in outputs)
    pulled = _gradients(outputs, variables, dummies, True, strict)
    return _gradients(pulled, dummies, vectors, create_graph)


def jacobian(
    func: Fn,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Every partial derivative: for output y and input x a tensor of shape (*y.shape, *x.shape).

    `vectorize=True` computes all rows in one batched backward; `strategy="forward-mode"` goes by columns.

    >>> ex.autograd.functional.jacobian(lambda x: x * x, ex.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AutogradError(f"jacobian: strategy must be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    if strict and vectorize:
        raise AutogradError("jacobian: strict=True is not available with vectorize=True; use one of them")
    with enable_grad():
        variables, single, outputs, single_output = _called("jacobian", func, inputs, create_graph)
        if strategy == "forward-mode":
            table = _by_columns(outputs, variables, create_graph, vectorize)
        else:
            table = [_rows(y, variables, create_graph, strict, vectorize) for y in outputs]
        table = [_finished(row, create_graph) for row in table]
    return _unpack([_unpack(row, single) for row in table], single_output)


def _basis(x: Tensor) -> Tensor:
    """One-hot tensors in the shape of x, stacked in a new first dimension."""
    n = x.numel()
    return ops.eye(n, dtype=x.dtype).reshape(n, *x.shape)


def _rows(
    y: Tensor, inputs: tuple[Tensor, ...], create_graph: bool, strict: bool, vectorize: bool
) -> tuple[Tensor, ...]:
    """The derivatives of one output."""
    name = "jacobian" if strict else ""
    basis = _basis(y)
    if vectorize:
        stacks = _gradients((y,), inputs, (basis,), create_graph, name, batched=True)
    else:
        rows = [_gradients((y,), inputs, (one_hot,), create_graph, name) for one_hot in basis]
        stacks = tuple(_stacked([row[i] for row in rows], x) for i, x in enumerate(inputs))
    return tuple(s.reshape(*y.shape, *x.shape) for s, x in zip(stacks, inputs, strict=True))


def _stacked(parts: list[Tensor], like: Tensor) -> Tensor:
    return ops.stack(parts) if parts else ops.zeros((0, *like.shape), dtype=like.dtype)


def _by_columns(
    outputs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], create_graph: bool, vectorize: bool
) -> list[tuple[Tensor, ...]]:
    """The derivatives with respect to one element after another."""
    from ..func import vmap

    sizes = [x.numel() for x in inputs]
    columns: list[list[Tensor]] = [[] for _ in outputs]
    for k, x in enumerate(inputs):

        def push(direction: Tensor, k: int = k) -> tuple[Tensor, ...]:
            vectors = [direction if i == k else ops.zeros_like(z) for i, z in enumerate(inputs)]
            return _push(outputs, inputs, vectors, create_graph)

        if vectorize:
            stacks = list(vmap(push)(_basis(x)))
        else:
            pushed = [push(direction) for direction in _basis(x)]
            stacks = [_stacked([p[j] for p in pushed], y) for j, y in enumerate(outputs)]
        for j, y in enumerate(outputs):
            flat = stacks[j].reshape(sizes[k], count(y.shape))
            columns[j].append(flat.T.reshape(*y.shape, *x.shape))
    return [tuple(row) for row in columns]


def _scalar(func: Fn, name: str) -> Fn:
    def checked(*inputs: Tensor) -> Tensor:
        y = func(*inputs)
        if not isinstance(y, Tensor) or y.numel() != 1:
            got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ShapeError(
                f"{name}: func must return a tensor with one element, got {got}; reduce it, e.g. with sum()"
            )
        return y.reshape(())

    return checked


def hessian(
    func: Fn,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Every second derivative of a scalar function: for inputs a and b a tensor of shape (*a.shape, *b.shape).

    >>> ex.autograd.functional.hessian(lambda x: (x**3).sum(), ex.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _, single = _as_tuple(inputs, "hessian: inputs")
    scalar = _scalar(func, "hessian")

    def first(*variables: Tensor) -> Any:
        return jacobian(scalar, variables, create_graph=True, strict=strict)

    table = jacobian(
        first, inputs, create_graph=create_graph, strict=strict, vectorize=vectorize, strategy=outer_jacobian_strategy
    )
    return table[0] if single else table


def vhp(
    func: Fn, inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), the product of `v` with its Hessian from the left).

    >>> ex.autograd.functional.vhp(lambda x: (x**3).sum(), ex.tensor([1.0, 2.0]), ex.tensor([1.0, 10.0]))
    (tensor(9.), tensor([  6., 120.]))
    """
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(
    func: Fn, inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), the product of its Hessian with `v`); a Hessian is symmetric, so this is computed as `vhp` is.

    >>> ex.autograd.functional.hvp(lambda x: (x**3).sum(), ex.tensor([1.0, 2.0]), ex.tensor([1.0, 10.0]))
    (tensor(9.), tensor([  6., 120.]))
    """
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)


def _hessian_product(
    name: str, func: Fn, inputs: Tensors, v: Tensors, create_graph: bool, strict: bool
) -> tuple[Any, Any]:
    with enable_grad():
        given, single = _as_tuple(inputs, f"{name}: inputs")
        variables = _variables(given, create_graph)
        vectors = _vectors(v, variables, name, "input")
        output = _scalar(func, name)(*variables)
        caller = name if strict else ""
        first = _gradients((output,), variables, (ops.ones_like(output),), True, caller)
        products = _gradients(first, variables, vectors, create_graph, caller)
    return _finished((output,), create_graph)[0], _unpack(_finished(products, create_graph), single)


explain_absent(__name__)
