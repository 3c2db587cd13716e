"""vmap: a function of one sample, run on many at once. How a sample's ops run is the matter of `levels`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..core.context import CONTEXT, ExecutionContext, Swap, end_trace
from ..core.tensor import Tensor, TensorLike
from ..core.wording import counted
from ..errors import DtypeError, ShapeError
from ..random import get_rng_state, set_rng_state
from .levels import Level
from .tree import is_leaf, leaves, rebuild, spread


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func`, written for one sample, as a function of many: of tensors with one more dimension.

    in_dims: which dimension of each argument counts the samples; None for arguments that all samples share; nested
    like the arguments, or one number for all. out_dims: where it shall stand in the results. randomness: "error",
    "different" (each sample draws its own) or "same". chunk_size: at most so many samples at a time. Keyword arguments
    are shared.

    >>> ex.vmap(lambda x, w: (x * w).sum(), in_dims=(0, None))(ex.ones(3, 2), ex.ones(2))
    tensor([2., 2., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise DtypeError(f"vmap: randomness must be 'error', 'different' or 'same', got {randomness!r}")
    if chunk_size is not None and chunk_size < 1:
        raise ShapeError(f"vmap: chunk_size must be at least 1, got {chunk_size}")

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat = leaves(args)
        dims = _input_dims(in_dims, args, flat)
        size = _batch_size(flat, dims)
        if chunk_size is None or chunk_size >= size:
            return _run(func, args, kwargs, flat, dims, size, out_dims, randomness)
        state = get_rng_state()
        parts = []
        for start in range(0, size, chunk_size):
            if randomness == "same":
                set_rng_state(state)
            piece = _chunk(flat, dims, start, min(chunk_size, size - start))
            parts.append(_run(func, args, kwargs, *piece, out_dims, randomness))
        return _joined(parts, out_dims)

    return wrapped


def _input_dims(in_dims: Any, args: tuple[Any, ...], flat: list[Any]) -> list[int | None]:
    if not isinstance(in_dims, int) and in_dims is not None and is_leaf(in_dims):
        raise DtypeError(
            f"vmap: in_dims must be an int, None or nested like the arguments, got {type(in_dims).__name__}"
        )
    if isinstance(in_dims, list):
        in_dims = tuple(in_dims)
    dims = spread(in_dims, args, "vmap: in_dims")
    for x, dim in zip(flat, dims, strict=True):
        if dim is None:
            continue
        if isinstance(x, TensorLike):
            raise DtypeError(
                "vmap: the samples of a ragged tensor have different shapes, and vmap runs samples of one shape; use "
                "ex.batch(fn)(x), or in_dims=None for a tensor that all samples share"
            )
        if not isinstance(x, Tensor):
            raise DtypeError(
                f"vmap: in_dims says dimension {dim} of an argument that is a {type(x).__name__}, which has none; "
                "give None for it"
            )
        if not isinstance(dim, int) or not -x.ndim <= dim < x.ndim:
            raise ShapeError(f"vmap: in_dims says dimension {dim!r} of an argument with shape {tuple(x.shape)}")
    return dims


def _batch_size(flat: list[Any], dims: list[int | None]) -> int:
    sizes = [x.shape[d] for x, d in zip(flat, dims, strict=True) if d is not None]
    if not sizes:
        raise ShapeError(
            "vmap: no argument is mapped over, so the number of samples is unknown; give at least one in_dims"
        )
    if len(set(sizes)) > 1:
        raise ShapeError(
            f"vmap: the mapped dimensions have different sizes, {sizes}; every argument needs the same number of "
            "samples"
        )
    return int(sizes[0])


def _chunk(flat: list[Any], dims: list[int | None], start: int, length: int) -> tuple[list[Any], list[int | None], int]:
    return [x if d is None else x.narrow(d, start, length) for x, d in zip(flat, dims, strict=True)], dims, length


def _joined(parts: list[Any], out_dims: Any) -> Any:
    """The results of all chunks as one."""
    dims = spread(out_dims, parts[0], "vmap: out_dims")
    columns = zip(*map(leaves, parts), strict=True)
    joined = [c[0] if d is None or c[0] is None else ops.cat(c, d) for c, d in zip(columns, dims, strict=True)]
    return rebuild(parts[0], iter(joined))


def _run(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    flat: list[Any],
    dims: list[int | None],
    size: int,
    out_dims: Any,
    randomness: str,
) -> Any:
    level = Level(size, randomness)
    inputs = [x if d is None else level.wrap(_first(x, d)) for x, d in zip(flat, dims, strict=True)]
    mode = CONTEXT.get()
    try:
        end_trace(mode)
        with Swap(ExecutionContext(mode.grad, mode.inference, level, mode.quiet)):
            result = func(*rebuild(args, iter(inputs)), **kwargs)
        results = leaves(result)
        wanted = spread(out_dims, result, "vmap: out_dims")
        delivered = [_delivered(level, r, d) for r, d in zip(results, wanted, strict=True)]
    finally:
        level.running = False
    return rebuild(result, iter(delivered))


def _first(x: Tensor, dim: int) -> Tensor:
    """The tensor with a dimension moved to the front; itself if it is there."""
    return x if dim in (0, -x.ndim) else ops.movedim(x, dim, 0)


def _delivered(level: Level, result: Any, dim: int | None) -> Any:
    """A result of the mapped function as the caller gets it."""
    if result is None:
        return None
    if not isinstance(result, Tensor):
        advice = "; return x.values() of a ragged one" if isinstance(result, TensorLike) else ""
        raise DtypeError(f"vmap: the mapped function must return tensors, got {type(result).__name__}{advice}")
    if dim is None:
        if level.is_batched(result):
            raise ShapeError("vmap: out_dims is None for a result that differs between samples; give it a dimension")
        return level.lowered(result)
    physical = level.physical(result)
    if not -physical.ndim <= dim < physical.ndim:
        raise ShapeError(f"vmap: out_dims says dimension {dim} of a result with {counted(physical.ndim, 'dimension')}")
    return ops.movedim(physical, 0, dim)
