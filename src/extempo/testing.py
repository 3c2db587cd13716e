"""Checks for operations, shipped for users' own ops too.

check_op(MyOp)             every aspect of an Op over its samples
check_grad(fn, inputs)     gradients against finite differences, first and second order
assert_close(a, b)         values, shapes and dtypes, with a message that says where they differ
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .autograd.api import grad
from .autograd.numerical import gradcheck, gradgradcheck
from .core.absent_names import explain_absent
from .core.context import no_grad
from .core.graph import Graph
from .core.op import Op, Refuse, Sample
from .core.storage import Array
from .core.tensor import Tensor, from_array
from .core.types import DTYPES, TensorType, dtype
from .dispatch.dispatcher import apply
from .dispatch.fast_path import runner1, runner2
from .errors import ExtempoError
from .func import vmap
from .ops.creation import as_tensor
from .ops.define import deliver
from .ragged_tensors.tensor import RaggedTensor

_TOLERANCE = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_dtype: bool = True,
    msg: str | None = None,
) -> None:
    """Raise AssertionError unless both are equal within the tolerance of their dtype; sequences in order.

    >>> ex.testing.assert_close(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 2.000001]))
    >>> ex.testing.assert_close(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 2.1]))
    Traceback (most recent call last):
        ...
    AssertionError: 1 of 2 elements differ; first at (1,): 2.0 and 2.0999...
    """
    if isinstance(actual, list | tuple) and isinstance(expected, list | tuple):
        _require(len(actual) == len(expected), msg or f"lengths differ: {len(actual)} and {len(expected)}")
        for a, e in zip(actual, expected, strict=True):
            assert_close(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, msg=msg)
        return
    if isinstance(actual, RaggedTensor) and isinstance(expected, RaggedTensor):
        same_rows = actual.shape == expected.shape
        _require(same_rows, msg or f"rows differ: {actual._described()} and {expected._described()}")
        actual, expected = actual.values(), expected.values()
    a, e = as_tensor(actual).detach(), as_tensor(expected).detach()
    _require(a.shape == e.shape, msg or f"shapes differ: {tuple(a.shape)} and {tuple(e.shape)}")
    if check_dtype:
        _require(a.dtype is e.dtype, msg or f"dtypes differ: {a.dtype} and {e.dtype}")
    tolerances = [_TOLERANCE.get(str(t.dtype).rpartition(".")[2], (0.0, 0.0)) for t in (a, e)]
    rtol = max(t[0] for t in tolerances) if rtol is None else rtol
    atol = max(t[1] for t in tolerances) if atol is None else atol
    x, y = a.numpy(), e.numpy()
    if rtol or atol:
        x, y = x.astype(np.float64), y.astype(np.float64)
        wrong = ~np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    else:
        wrong = x != y  # exact, also for integers that float64 cannot tell apart
        if equal_nan:
            wrong &= ~((x != x) & (y != y))
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        found = f"first at {where}: {x[where]} and {y[where]} (rtol {rtol}, atol {atol})"
        raise AssertionError(msg or f"{int(wrong.sum())} of {x.size} elements differ; {found}")


def _require(holds: bool, message: str) -> None:
    """An assertion that `python -O` does not drop."""
    if not holds:
        raise AssertionError(message)


def check_grad(
    fn: Callable[..., Any], inputs: Sequence[Tensor], *, order: int = 2, atol: float = 1e-5, rtol: float = 1e-3
) -> None:
    """Compare the gradients of `fn` with finite differences in float64, up to the given order.

    >>> ex.testing.check_grad(lambda x: (x * x).sum(), [ex.randn(3)])
    """
    doubled = [
        x.detach().double().requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs
    ]
    gradcheck(fn, doubled, atol=atol, rtol=rtol)
    if order > 1:
        gradgradcheck(fn, doubled, atol=atol, rtol=rtol)


def check_op(op: type[Op], samples: Iterable[Sample] | None = None, *, order: int = 2) -> int:
    """Run every check over the op's samples (or the ones given). Returns how many samples were checked.

    The checks: the shape rule says what the kernel does; inputs are not changed and results share no memory with them;
    strided inputs give what contiguous ones give; float32 and half precision agree with float64; the gradient equals
    finite differences, first and second order, and needs no more than the op says it saves; the batching rule equals
    the loop.

    >>> ex.testing.check_op(ex.ops.transcendental.Sqrt)
    3
    """
    if samples is None:
        if isinstance(op.samples, Refuse):
            return 0
        samples = list(op.samples(np.random.default_rng(0)))
    n_samples = 0
    for sample in samples:
        n_samples += 1
        try:
            check_kernel(op, sample)
            check_strides(op, sample)
            check_dtypes(op, sample)
            check_gradient(op, sample, order)
            check_batch(op, sample)
        except AssertionError as error:
            raise AssertionError(f"{op.name} on {sample}: {error}") from error
        except ExtempoError as error:
            error.add_note(f"while checking {op.name} on {sample}")
            raise
    return n_samples


def _results(value: Any) -> tuple[Any, ...]:
    return value if type(value) is tuple else (value,)


def _tensors(sample: Sample, to: dtype | None = None) -> list[Any]:
    """The sample's inputs as tensors; floating ones in the dtype given."""
    inputs = []
    for x in sample.inputs:
        if isinstance(x, np.ndarray):
            x = from_array(x.astype(to.numpy) if to is not None and x.dtype.kind == "f" else x.copy())
        inputs.append(x)
    return inputs


def check_kernel(op: type[Op], sample: Sample) -> None:
    """infer = kernel, the inputs stay as they were, and the result has memory of its own unless the op is a view.

    >>> ex.testing.check_kernel(ex.ops.transcendental.Sqrt, ex.testing.Sample(np.array([1.0, 4.0])))
    """
    inputs = _tensors(sample)
    before = [copy.deepcopy(x) for x in inputs]
    types = tuple(x._type if isinstance(x, Tensor) else type(x) for x in inputs)
    with no_grad():
        results = _results(apply(op, tuple(inputs), sample.attrs))
        if op.simple and len(inputs) <= 2:
            check_short_path(op, inputs, results[0])
    expected = op.signature(types, sample.attrs).type
    expected = (expected,) if isinstance(expected, TensorType) else expected
    for r, t in zip(results, expected, strict=True):
        array = r._array
        assert TensorType(array.shape, r.dtype) == t, (
            f"the shape rule says {t}, the kernel gave {array.dtype}{array.shape}"
        )
        assert array.dtype == t.dtype.numpy, f"the rule says {t.dtype}, the kernel gave {array.dtype}"
        if not op.aliases_input:
            shared = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and np.shares_memory(array, x._array)]
            assert not shared, f"the result shares memory with input {shared}"
    for old, x in zip(before, inputs, strict=True):
        if isinstance(x, Tensor):
            np.testing.assert_array_equal(x._array, old._array, "an input was changed")


def check_short_path(op: type[Op], inputs: list[Any], expected: Tensor) -> None:
    """What small elementwise ops really run through gives what `apply` gives, in every floating dtype.

    >>> x = ex.tensor([1.0, 4.0])
    >>> ex.testing.check_short_path(ex.ops.transcendental.Sqrt, [x], expected=ex.sqrt(x))
    """
    run: Any = runner1(op, deliver) if len(inputs) == 1 else runner2(op)
    assert_close(run(*inputs), expected, rtol=0.0, atol=0.0, equal_nan=True)
    for d in DTYPES:
        if d.is_floating_point:
            given = [x.to(d) if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs]
            short, long = run(*given), apply(op, tuple(given))
            assert short._array.dtype == d.numpy, f"the short path gave {short._array.dtype} for {d}"
            np.testing.assert_array_equal(short._array, long._array, "the short path differs")


def _strided(array: Array) -> Array:
    """The same values with gaps between them and dimensions in another order in memory."""
    wide = np.zeros((*array.shape[::-1], 2), array.dtype)
    wide[..., 0] = array.T
    return wide[..., 0].T


def check_strides(op: type[Op], sample: Sample) -> None:
    """Strided inputs give what contiguous ones give.

    >>> ex.testing.check_strides(ex.ops.transcendental.Sqrt, ex.testing.Sample(np.array([1.0, 4.0])))
    """
    plain = _tensors(sample)
    strided = [from_array(_strided(x._array)) if isinstance(x, Tensor) else x for x in plain]
    with no_grad():
        expected = _results(apply(op, tuple(plain), sample.attrs))
        actual = _results(apply(op, tuple(strided), sample.attrs))
    assert_close(actual, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


_LOOSE = {"float16": 3e-2, "bfloat16": 2e-1, "float32": 1e-4}


def check_dtypes(op: type[Op], sample: Sample) -> None:
    """Lower precision agrees with float64 as far as it can, and keeps its dtype.

    >>> ex.testing.check_dtypes(ex.ops.transcendental.Sqrt, ex.testing.Sample(np.array([1.0, 4.0])))
    """
    if not any(isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in sample.inputs):
        return
    with no_grad():
        for d in DTYPES:
            loose = _LOOSE.get(str(d).rpartition(".")[2])
            if loose is None or (op.only_wide and d.itemsize == 2):
                continue
            rounded = [
                x.to(d).double() if isinstance(x, Tensor) and x.is_floating_point() else x for x in _tensors(sample)
            ]
            exact = _results(apply(op, tuple(rounded), sample.attrs))
            for r, e in zip(_results(apply(op, tuple(_tensors(sample, d)), sample.attrs)), exact, strict=True):
                if e.is_floating_point():
                    assert_close(r.double(), e.double(), rtol=loose, atol=loose, equal_nan=True)


def check_gradient(op: type[Op], sample: Sample, order: int = 2) -> None:
    """vjp = finite differences, to the order given; the saved values suffice and the recorded graph verifies.

    >>> ex.testing.check_gradient(ex.ops.transcendental.Sqrt, ex.testing.Sample(np.array([1.0, 4.0])))
    """
    inputs = _tensors(sample)
    moving = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.is_floating_point()]
    if isinstance(op.vjp, Refuse) or not moving:
        return

    def fn(*values: Tensor) -> Any:
        full = list(inputs)
        for i, v in zip(moving, values, strict=True):
            full[i] = v
        results = _results(apply(op, tuple(full), sample.attrs))
        return tuple(r for r in results if r.is_floating_point())

    leaves = [inputs[i].clone().requires_grad_() for i in moving]
    outputs = [o for o in fn(*leaves) if o.requires_grad]
    if not outputs:
        return
    Graph.of(*outputs).verify()
    check_grad(fn, leaves, order=order)
    for i, leaf in enumerate(leaves):  # each input alone: what is saved then must suffice, too
        alone = [x.detach() for x in leaves]
        alone[i] = leaf.detach().requires_grad_()
        results = [r for r in fn(*alone) if r.requires_grad]
        if results:
            grad(results, [alone[i]], [r.detach().clone() for r in results], allow_unused=True)


def check_batch(op: type[Op], sample: Sample) -> None:
    """The batching rule = one call per sample, stacked.

    >>> ex.testing.check_batch(ex.ops.transcendental.Sqrt, ex.testing.Sample(np.array([1.0, 4.0])))
    """
    inputs = _tensors(sample)
    batched = [i for i, x in enumerate(inputs) if isinstance(x, Tensor)]
    if isinstance(op.batch, Refuse) or not batched:
        return

    def stack(x: Tensor) -> Tensor:
        other = x._array[::-1].copy() if x.ndim and x.dtype.is_floating_point else x._array.copy()
        return from_array(np.stack([x._array, other]))

    def call(*values: Tensor) -> Any:
        full = list(inputs)
        for i, v in zip(batched, values, strict=True):
            full[i] = v
        return apply(op, tuple(full), sample.attrs)

    stacked = [stack(inputs[i]) for i in batched]
    with no_grad():
        together = _results(vmap(call)(*stacked))
        apart = [_results(call(*[s[k] for s in stacked])) for k in range(2)]
    for j, t in enumerate(together):
        expected = from_array(np.stack([a[j]._array for a in apart]))
        assert_close(t, expected, rtol=1e-9, atol=1e-9, equal_nan=True, msg=None)


explain_absent(
    __name__,
    {
        "make_tensor": "use ex.rand, ex.randn or ex.randint",
        "assert_allclose": "use ex.testing.assert_close",
    },
)
