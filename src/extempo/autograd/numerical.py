"""Gradients checked against finite differences: `gradcheck` and `gradgradcheck`.

Every element of every input that requires grad is moved by eps both ways; what the outputs then do must be what
backward says. The message of a failure names the output, the input and the first element that differ, with both
numbers. Use float64: in float32 the difference of two close values has lost most of its digits.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.context import enable_grad, no_grad
from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..core.types import float64
from ..errors import AutogradError, GradcheckError
from .api import grad

Fn = Callable[..., Any]


def gradcheck(
    func: Fn,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether backward of `func` at `inputs` agrees with finite differences: |a - n| <= atol + rtol * |n|.

    Returns True, or raises an error that says where they differ (returns False with `raise_exception=False`).
    Outputs are always differentiated one at a time, so undefined gradients of the others are tested as well, and every
    element is checked whatever `fast_mode` says. `check_forward_ad` checks `func.jvp`, `check_batched_grad` a backward
    under vmap, `nondet_tol` by how much two backwards may differ.

    >>> x = ex.tensor([1.0, 2.0], dtype=ex.float64, requires_grad=True)
    >>> ex.autograd.gradcheck(ex.sin, (x,))
    True
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        checked = _checked_inputs(given)
        outputs = _outputs(func, given)
        tables = [_numerical(func, given, i, [y.numel() for y in outputs], eps) for i in checked]
        for j, y in enumerate(outputs):
            if check_backward_ad:
                _check_backward(outputs, j, given, checked, tables, atol, rtol, check_grad_dtypes)
                _check_repeatable(outputs, j, given, checked, nondet_tol)
            if check_batched_grad and y.requires_grad:
                _check_batched(y, j, given, checked)
        if check_forward_ad or check_batched_forward_grad:
            _check_forward(func, given, checked, tables, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Fn,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the backward of `func`, with respect to its inputs and to the gradients that come in.

    Those are `grad_outputs`, or random ones of the outputs' shapes (not contiguous if so asked).

    >>> x = ex.tensor([1.0, 2.0], dtype=ex.float64, requires_grad=True)
    >>> ex.autograd.gradgradcheck(ex.sin, (x,))
    True
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = [y for y in _outputs(func, given) if y.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        vectors = [_random_like(y, rng, gen_non_contig_grad_outputs) for y in outputs]
    else:
        vectors = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    variables = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    n_vectors = len(vectors)

    def first(*args: Any) -> tuple[Tensor, ...]:
        arguments, incoming = args[: len(args) - n_vectors], args[len(args) - n_vectors :]
        with enable_grad():
            results = [y for y in _outputs(func, arguments) if y.requires_grad]
            found = grad(results, [arguments[i] for i in variables], incoming, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first,
        (*given, *vectors),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _random_like(y: Tensor, rng: np.random.Generator, non_contiguous: bool) -> Tensor:
    shape = (*y.shape, 2) if non_contiguous else tuple(y.shape)
    values = rng.standard_normal(shape)
    values = values[..., 0] if non_contiguous else values
    made = from_array(np.asarray(values)) if y.dtype is float64 else from_array(np.asarray(values)).to(y.dtype)
    return made.requires_grad_()


def _checked_inputs(inputs: tuple[Any, ...]) -> list[int]:
    found = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not found:
        raise AutogradError("gradcheck: no input requires grad, so there is nothing to check; pass requires_grad=True")
    for i in found:
        x = inputs[i]
        if x.dtype is not float64:
            warnings.warn(
                f"gradcheck: input {i} is {x.dtype}; finite differences need float64, the check will likely fail",
                stacklevel=3,
            )
        if not x._values().flags.writeable:
            raise AutogradError(
                f"gradcheck: elements of input {i} share memory (expand), so one cannot be moved alone; clone() it"
            )
    return found


def _outputs(func: Fn, inputs: tuple[Any, ...]) -> list[Tensor]:
    result = func(*inputs)
    results = result if isinstance(result, tuple | list) else (result,)
    return [y for y in results if isinstance(y, Tensor) and y.dtype.is_floating_point]


def _elements(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, shape))


def _numerical(func: Fn, inputs: tuple[Any, ...], i: int, sizes: list[int], eps: float) -> list[Array]:
    """For each output, the table (elements of input i) x (elements of the output) of difference quotients."""
    array = inputs[i]._values()  # moved in place, because func may have it in its closure too
    rows: list[list[Array]] = [[] for _ in sizes]
    with no_grad():
        for index in _elements(array.shape):
            before = array[index]
            array[index] = before + eps
            above = [y._values().astype(np.float64) for y in _outputs(func, inputs)]
            array[index] = before - eps
            below = [y._values().astype(np.float64) for y in _outputs(func, inputs)]
            array[index] = before
            for row, a, b in zip(rows, above, below, strict=True):
                row.append((a - b).reshape(-1) / (2 * eps))
    return [np.array(row).reshape(array.size, size) for row, size in zip(rows, sizes, strict=True)]


def _one_hot(y: Tensor, index: tuple[int, ...]) -> Tensor:
    array = np.zeros(y._type.shape, y.dtype.numpy)
    array[index] = 1
    return from_array(array)


def _analytical(y: Tensor, inputs: list[Tensor]) -> list[Array]:
    """For each input, the table (elements of the input) x (elements of y) that backward gives."""
    tables = [np.zeros((x.numel(), y.numel())) for x in inputs]
    if y.requires_grad:
        for column, index in enumerate(_elements(y.shape)):
            for table, g in zip(tables, _pull(y, inputs, _one_hot(y, index)), strict=True):
                if g is not None:
                    table[:, column] = g.detach()._values().astype(np.float64).reshape(-1)
    return tables


def _pull(y: Tensor, inputs: list[Tensor], vector: Tensor) -> tuple[Any, ...]:
    return grad(y, inputs, vector, retain_graph=True, allow_unused=True)


def _check_backward(
    outputs: list[Tensor],
    j: int,
    inputs: tuple[Any, ...],
    checked: list[int],
    tables: list[list[Array]],
    atol: float,
    rtol: float,
    dtypes: bool,
) -> None:
    y = outputs[j]
    variables = [inputs[i] for i in checked]
    for i, numerical, analytical in zip(checked, tables, _analytical(y, variables), strict=True):
        _compare(analytical, numerical[j], y, j, inputs[i], i, atol, rtol, "backward")
    if dtypes and y.requires_grad:
        for i, g in zip(checked, _pull(y, variables, ops.ones_like(y)), strict=True):
            if g is not None and g.dtype is not inputs[i].dtype:
                raise GradcheckError(f"gradcheck: the gradient of input {i} is {g.dtype}, the input {inputs[i].dtype}")


def _compare(
    found: Array, expected: Array, y: Tensor, j: int, x: Tensor, i: int, atol: float, rtol: float, how: str
) -> None:
    wrong = ~np.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    if not wrong.any():
        return
    row, column = (int(k) for k in np.argwhere(wrong)[0])
    x_at = tuple(int(k) for k in np.unravel_index(row, x._type.shape)) if x.ndim else ()
    y_at = tuple(int(k) for k in np.unravel_index(column, y._type.shape)) if y.ndim else ()
    raise GradcheckError(
        f"gradcheck: d output {j} / d input {i} differs in {int(wrong.sum())} of {wrong.size} elements, first at "
        f"output element {y_at}, input element {x_at}: {how} says {found[row, column]:.8g}, finite differences "
        f"{expected[row, column]:.8g}; the allowed difference is {atol:g} + {rtol:g} * |the latter|"
    )


def _check_repeatable(
    outputs: list[Tensor], j: int, inputs: tuple[Any, ...], checked: list[int], tolerance: float
) -> None:
    y = outputs[j]
    if not y.requires_grad or not y.numel():
        return
    variables = [inputs[i] for i in checked]
    vector = ops.ones_like(y)
    for i, a, b in zip(checked, _pull(y, variables, vector), _pull(y, variables, vector), strict=True):
        if a is None or not a.numel():
            continue
        difference = float(np.max(np.abs(a._values() - b._values())))
        if difference > tolerance:
            raise GradcheckError(
                f"gradcheck: two backwards of output {j} give gradients of input {i} that differ by {difference:g}; "
                "the gradient is not deterministic, pass nondet_tol= if that is meant"
            )


def _check_batched(y: Tensor, j: int, inputs: tuple[Any, ...], checked: list[int]) -> None:
    variables = [inputs[i] for i in checked]
    rng = np.random.default_rng(1)
    vectors = [_random_like(y, rng, False).detach() for _ in range(2)]
    batched = grad(y, variables, ops.stack(vectors), retain_graph=True, allow_unused=True, is_grads_batched=True)
    looped = [_pull(y, variables, v) for v in vectors]
    for position, i in enumerate(checked):
        for n, row in enumerate(looped):
            if row[position] is None:
                continue
            if not np.allclose(batched[position][n]._values(), row[position]._values(), rtol=1e-6, atol=1e-9):
                raise GradcheckError(f"gradcheck: backward of output {j} to input {i} differs under vmap")


def _check_forward(
    func: Fn, inputs: tuple[Any, ...], checked: list[int], tables: list[list[Array]], atol: float, rtol: float
) -> None:
    from ..func import jvp

    for i, numerical in zip(checked, tables, strict=True):
        x = inputs[i]

        def of_one(value: Tensor, i: int = i) -> tuple[Tensor, ...]:
            return tuple(_outputs(func, (*inputs[:i], value, *inputs[i + 1 :])))

        for row, index in enumerate(_elements(x.shape)):
            outputs, pushed = jvp(of_one, (x.detach(),), (_one_hot(x, index),))
            for j, (y, p) in enumerate(zip(outputs, pushed, strict=True)):
                found = np.array(numerical[j])
                found[row] = p.detach()._values().astype(np.float64).reshape(-1)
                _compare(found, numerical[j], y, j, x, i, atol, rtol, "jvp")
