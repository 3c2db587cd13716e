"""Derivatives of functions as functions: grad, vjp, jvp, Jacobians, Hessians.

Each transform makes variables of its own from the arguments it differentiates (nodes that nothing else has), so nested
transforms never take one another's variables for theirs. What comes out is outside the graph, unless something outside
still records: an argument that requires grad, a captured parameter, an enclosing transform.

`jvp` is made of two backward passes: a vjp is linear in its vector, and differentiating it by that vector gives the
product from the other side. It costs about three forward passes and needs no second set of derivative rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..autograd.api import grad as engine_grad
from ..autograd.custom import alias_outside_graph
from ..core.context import CONTEXT, enable_grad
from ..core.graph import Leaf, Node, leaf
from ..core.op import REGISTRY
from ..core.tensor import Tensor, TensorLike, symbol
from ..dispatch.dispatcher import apply
from ..errors import AutogradError, DtypeError, ShapeError
from .batching import vmap
from .levels import SharedInput, current_level, requires_grad_below
from .tree import leaves, rebuild, tensors_mapped

Fn = Callable[..., Any]


class Variables:
    """The variables of one differentiation, made from the tensors in some arguments."""

    def __init__(self, name: str, tree: Any) -> None:
        self.name = name
        self.tree = tree
        self.recorded = CONTEXT.get().grad  # whether anything outside records
        self.own: set[Node] = set()
        self.tensors = [self._variable(x) for x in leaves(tree)]
        self.arguments = rebuild(tree, iter(self.tensors))

    def _variable(self, x: Any) -> Tensor:
        if isinstance(x, TensorLike):
            raise DtypeError(
                f"{self.name}: expected tensors to differentiate by, got a ragged one; differentiate by x.values(), "
                "and make it ragged inside the function, x.like(values)"
            )
        if not isinstance(x, Tensor):
            raise DtypeError(f"{self.name}: expected tensors to differentiate by, got {type(x).__name__}; see argnums")
        if not x._type.dtype.is_floating_point:
            raise DtypeError(f"{self.name}: only floating tensors have derivatives, got {x.dtype}; use x.float()")
        if self.recorded and x.requires_grad:
            with enable_grad():
                return apply(REGISTRY["alias"], (x,))
        return self.fresh(x)

    def fresh(self, x: Tensor) -> Tensor:
        """The values of x as a variable that nothing else knows."""
        level = current_level()
        if level is not None and level.find(x) is None:
            variable = level.share(alias_outside_graph(x)).requires_grad_()
        elif x._array is None:
            variable = symbol(x._type, leaf(x._type, True), x._source)
        else:
            variable = x.detach().requires_grad_()
        self.own.add(variable._own_node())
        return variable

    def seen_outside(self, tensors: Sequence[Any]) -> bool:
        """Whether these depend on anything that is recorded outside, so that their derivatives must be recorded too."""
        if not self.recorded:
            return False
        if any(requires_grad_below(t) for t in tensors):
            return True
        stack = [t._own_node() for t in tensors if t.requires_grad]
        seen = set(stack)
        while stack:
            node = stack.pop()
            if node.op is Leaf and node not in self.own:
                return True
            for i in node.inputs:
                if type(i) is Node and i not in seen:
                    seen.add(i)
                    stack.append(i)
        return False

    def released(self, t: Any) -> Any:
        """A result as the caller gets it: in the graph only if the graph has something of the caller's."""
        if not isinstance(t, Tensor) or (t.requires_grad and self.seen_outside([t])):
            return t
        if t._array is None and isinstance(t._source, SharedInput):
            return t._source.physical
        return alias_outside_graph(t) if t.requires_grad else t

    def pull(self, outputs: list[Tensor], vectors: list[Any], keep: bool) -> list[Tensor]:
        """One gradient per variable; zeros where the outputs do not depend on it."""
        used = [i for i, y in enumerate(outputs) if y.requires_grad]
        found: Sequence[Any] = [None] * len(self.tensors)
        if used:
            results = [outputs[i] for i in used]
            given = [vectors[i] for i in used]
            again = self.seen_outside([*results, *(v for v in given if v is not None)])
            found = engine_grad(
                results, self.tensors, given, retain_graph=keep or again, create_graph=again, allow_unused=True
            )
        return [_or_zeros(self.released(g), x) for g, x in zip(found, self.tensors, strict=True)]


def _or_zeros(g: Any, x: Tensor) -> Tensor:
    return ops.zeros(x._type.shape, dtype=x.dtype) if g is None else g


def _split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise DtypeError(
            f"{name}: with has_aux=True the function must return (output, aux), got {type(result).__name__}"
        )
    return result


def _output_tensors(output: Any, name: str) -> list[Tensor]:
    found = leaves(output)
    for y in found:
        if not isinstance(y, Tensor):
            raise DtypeError(f"{name}: the function must return tensors, got {type(y).__name__}")
    return found


def _chosen(args: tuple[Any, ...], argnums: Any, name: str) -> tuple[Any, list[int]]:
    """(the arguments to differentiate by, their positions)."""
    several = isinstance(argnums, tuple | list)
    numbers = list(argnums) if several else [argnums]
    for n in numbers:
        if not isinstance(n, int) or not -len(args) <= n < len(args):
            raise ShapeError(
                f"{name}: argnums says {n!r}, but the function was called with {len(args)} positional arguments"
            )
    positions = [n % len(args) for n in numbers]
    if len(set(positions)) != len(positions):
        raise ShapeError(f"{name}: argnums {tuple(numbers)} names an argument twice")
    return (tuple(args[p] for p in positions) if several else args[positions[0]]), positions


def _with_chosen(args: tuple[Any, ...], positions: list[int], chosen: Any, argnums: Any) -> list[Any]:
    full = list(args)
    for p, value in zip(positions, chosen if isinstance(argnums, tuple | list) else (chosen,), strict=True):
        full[p] = value
    return full


def grad_and_value(func: Fn, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Fn:
    """A function that returns (gradient, value), or (gradient, (value, aux)), of a scalar function.

    >>> ex.func.grad_and_value(lambda x: (x * x).sum())(ex.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen, positions = _chosen(args, argnums, "grad")
        variables = Variables("grad", chosen)
        with enable_grad():
            result = func(*_with_chosen(args, positions, variables.arguments, argnums), **kwargs)
            output, aux = _split_aux(result, has_aux, "grad")
            if not isinstance(output, Tensor) or output.ndim:
                got = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
                raise ShapeError(
                    f"grad: the function must return a 0-dim tensor, got {got}; reduce it with sum() or mean(), or "
                    "use jacrev"
                )
            gradients = variables.pull([output], [None], keep=False)
        value = variables.released(output)
        result = rebuild(chosen, iter(gradients))
        return result, (value, tensors_mapped(variables.released, aux)) if has_aux else value

    return wrapped


def grad(func: Fn, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Fn:
    """A function that returns the gradient of a scalar function, or (gradient, aux).

    >>> ex.func.grad(lambda x: (x * x).sum())(ex.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    both = grad_and_value(func, argnums, has_aux)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def vjp(func: Fn, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """(output, pull) or (output, pull, aux): `pull(cotangents)` gives one gradient per primal, as often as you like.

    >>> output, pull = ex.func.vjp(lambda x: x * x, ex.tensor([1.0, 2.0]))
    >>> output, pull(ex.tensor([1.0, 10.0]))
    (tensor([1., 4.]), (tensor([ 2., 40.]),))
    """
    if not primals:
        raise ShapeError("vjp: give at least one primal to differentiate by")
    variables = Variables("vjp", primals)
    with enable_grad():
        output, aux = _split_aux(func(*variables.arguments), has_aux, "vjp")
    outputs = _output_tensors(output, "vjp")

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        vectors = _matching(cotangents[0] if len(cotangents) == 1 else cotangents, outputs, "vjp", "output")
        gradients = variables.pull(outputs, vectors, keep=retain_graph)
        return rebuild(primals, iter(gradients))

    released = tensors_mapped(variables.released, output)
    return (released, pull, tensors_mapped(variables.released, aux)) if has_aux else (released, pull)


def _matching(tree: Any, tensors: Sequence[Tensor], name: str, what: str) -> list[Tensor]:
    """Vectors that belong to tensors: as many, and of the same shapes."""
    vectors = leaves(tree)
    if len(vectors) != len(tensors):
        raise ShapeError(f"{name}: expected {len(tensors)} vectors, one for each {what}, got {len(vectors)}")
    for v, t in zip(vectors, tensors, strict=True):
        if not isinstance(v, Tensor) or v._type.shape != t._type.shape:
            got = tuple(v.shape) if isinstance(v, Tensor) else type(v).__name__
            raise ShapeError(f"{name}: a vector has shape {got}, its {what} {tuple(t.shape)}; they must be equal")
    return [v if v.dtype is t.dtype else v.to(t.dtype) for v, t in zip(vectors, tensors, strict=True)]


class _Linearized:
    """A function and its derivative at a point, as a function of directions."""

    def __init__(self, name: str, func: Fn, primals: tuple[Any, ...], has_aux: bool, strict: bool) -> None:
        self.name = name
        self.variables = variables = Variables(name, primals)
        with enable_grad():
            output, aux = _split_aux(func(*variables.arguments), has_aux, name)
            self.outputs = _output_tensors(output, name)
            self.dummies = [variables.fresh(ops.zeros(y._type.shape, dtype=y.dtype)) for y in self.outputs]
            used = [i for i, y in enumerate(self.outputs) if y.requires_grad]
            self.pulled: list[Any] = [None] * len(variables.tensors)
            if used:
                self.pulled = list(
                    engine_grad(
                        [self.outputs[i] for i in used],
                        variables.tensors,
                        [self.dummies[i] for i in used],
                        retain_graph=True,
                        create_graph=True,
                        allow_unused=True,
                    )
                )
        if strict and None in self.pulled:
            raise AutogradError(
                f"{name}: strict=True, but the output does not depend on primal {self.pulled.index(None)}"
            )
        self.output = output
        self.value = tensors_mapped(variables.released, output)
        self.aux = tensors_mapped(variables.released, aux)

    def push(self, tangents: Any) -> Any:
        """The derivative in a direction, in the structure of the output."""
        variables = self.variables
        vectors = _matching(tangents, variables.tensors, self.name, "primal")
        used = [i for i, g in enumerate(self.pulled) if g is not None and g.requires_grad]
        found: Sequence[Any] = [None] * len(self.dummies)
        if used:
            given = [vectors[i] for i in used]
            again = variables.seen_outside([*self.outputs, *given])
            found = engine_grad(
                [self.pulled[i] for i in used],
                self.dummies,
                given,
                retain_graph=True,
                create_graph=again,
                allow_unused=True,
            )
        products = [_or_zeros(variables.released(g), y) for g, y in zip(found, self.outputs, strict=True)]
        return rebuild(self.output, iter(products))


def jvp(
    func: Fn, primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """(output, derivative of the output in the direction of the tangents), and aux with has_aux.

    >>> ex.func.jvp(lambda x: x * x, (ex.tensor([1.0, 2.0]),), (ex.tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise DtypeError(
            "jvp: primals and tangents must be tuples, one entry per argument; did you mean (x,) and (t,)?"
        )
    linear = _Linearized("jvp", func, tuple(primals), has_aux, strict)
    product = linear.push(tuple(tangents))
    return (linear.value, product, linear.aux) if has_aux else (linear.value, product)


def linearize(func: Fn, *primals: Any) -> tuple[Any, Fn]:
    """(output, push): `push(*tangents)` is the derivative in a direction, without running the function again.

    >>> output, push = ex.func.linearize(lambda x: x * x, ex.tensor([1.0, 2.0]))
    >>> output, push(ex.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    linear = _Linearized("linearize", func, primals, has_aux=False, strict=False)
    return linear.value, lambda *tangents: linear.push(tangents)


# ---- Jacobians


def _basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """All directions: for each tensor (total, *shape), one-hot in the rows of its own elements."""
    total = sum(t.numel() for t in tensors)
    made, start = [], 0
    for t in tensors:
        n = t.numel()
        rows = ops.eye(total, dtype=t.dtype)
        made.append(ops.narrow(rows, 1, start, n).reshape(total, *t._type.shape))
        start += n
    return made


def _rows_of(stacked: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The rows of each tensor's elements, of what was computed for a whole basis."""
    found, start = [], 0
    for t in tensors:
        found.append(ops.narrow(stacked, 0, start, t.numel()))
        start += t.numel()
    return found


def jacrev(func: Fn, argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False, chunk_size: int | None = None) -> Fn:
    """A function that returns the Jacobian, computed by rows: one batched backward for all outputs.

    For an output of shape y and an argument of shape x it has shape (*y, *x); outputs outside, arguments inside.

    >>> ex.func.jacrev(lambda x: x * x)(ex.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen, positions = _chosen(args, argnums, "jacrev")
        variables = Variables("jacrev", chosen)
        with enable_grad():
            result = func(*_with_chosen(args, positions, variables.arguments, argnums), **kwargs)
            output, aux = _split_aux(result, has_aux, "jacrev")
        outputs = _output_tensors(output, "jacrev")
        rows = vmap(lambda *vectors: variables.pull(outputs, list(vectors), keep=True), chunk_size=chunk_size)(
            *_basis(outputs)
        )
        parts = [_rows_of(r, outputs) for r in rows]  # by variable, then by output
        blocks = [
            rebuild(
                chosen,
                iter(
                    [
                        p[j].reshape(*y._type.shape, *x._type.shape)
                        for p, x in zip(parts, variables.tensors, strict=True)
                    ]
                ),
            )
            for j, y in enumerate(outputs)
        ]
        jacobian = rebuild(output, iter(blocks))
        return (jacobian, tensors_mapped(variables.released, aux)) if has_aux else jacobian

    return wrapped


def jacfwd(func: Fn, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error") -> Fn:
    """A function that returns the Jacobian, computed by columns; the same as `jacrev`, better for few inputs.

    >>> ex.func.jacfwd(lambda x: x * x)(ex.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen, positions = _chosen(args, argnums, "jacfwd")

        def of_chosen(*values: Any) -> Any:
            picked = values if isinstance(argnums, tuple | list) else values[0]
            return func(*_with_chosen(args, positions, picked, argnums), **kwargs)

        primals = chosen if isinstance(argnums, tuple | list) else (chosen,)
        linear = _Linearized("jacfwd", of_chosen, primals, has_aux, strict=False)
        variables = linear.variables.tensors
        columns = vmap(lambda *directions: leaves(linear.push(directions)), randomness=randomness)(*_basis(variables))
        blocks = []
        for y, stacked in zip(linear.outputs, columns, strict=True):
            parts = [_column_block(c, y, x) for c, x in zip(_rows_of(stacked, variables), variables, strict=True)]
            blocks.append(rebuild(chosen, iter(parts)))
        jacobian = rebuild(linear.output, iter(blocks))
        return (jacobian, linear.aux) if has_aux else jacobian

    return wrapped


def _column_block(columns: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """(n of x, *y) -> (*y, *x)."""
    return ops.movedim(columns, 0, -1).reshape(*y._type.shape, *x._type.shape)


def hessian(func: Fn, argnums: int | tuple[int, ...] = 0) -> Fn:
    """A function that returns all second derivatives: columns of the Jacobian by rows.

    >>> ex.func.hessian(lambda x: (x**3).sum())(ex.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
