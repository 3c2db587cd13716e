"""Changing a model while it trains: wider and narrower layers, layers put in and taken out.

Layers in, the same layers with new parameters out. Everything is worked out before anything is changed, so a refused
change leaves the model as it was. Whoever keeps something by parameter (an optimizer its moments) puts a function into
LISTENERS, which is called with what became of each: kept units keep what belongs to them, bit for bit.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import ArgumentError, DtypeError, IndexRangeError, ShapeError, UnsupportedError
from .identity_start import start_as_identity
from .module import Module
from .parameter import Parameter

__all__ = ["insert_layer", "prune_units", "remove_layer", "replace_layer", "widen"]

# For each dimension None (unchanged), or the old position of each new one and -1 for what is new.
Index = Sequence[Sequence[int] | None]


class Changes(NamedTuple):
    """What became of parameters: (old, new, index) for each replaced one, removed ones, (new, its neighbours)."""

    replaced: list[tuple[Tensor, Tensor, Index]]
    removed: list[Tensor]
    joined: list[tuple[Tensor, list[Tensor]]]


LISTENERS: list[Callable[[Changes], None]] = []


def take_units(value: Tensor, index: Index | None, fill: Tensor | float = 0.0) -> Tensor:
    """A tensor rearranged by `index`; new positions get `fill`, a number or a tensor of the new shape.

    >>> nn.surgery.take_units(ex.tensor([1.0, 2.0]), ([1, -1],), fill=9.0)
    tensor([2., 9.])
    """
    result = value.detach().clone()
    new: Any = None
    for dim, positions in enumerate(index or ()):
        if positions is None:
            continue
        wanted = ops.tensor(list(positions), dtype="int64")
        _check_positions(wanted, value, dim)
        result = result.index_select(dim, wanted.clamp(min=0))
        here = (wanted < 0).reshape([-1 if d == dim else 1 for d in range(value.ndim)])
        new = here if new is None else new | here
    return result if new is None else ops.where(new, fill, result).to(value.dtype)


def _check_positions(wanted: Tensor, value: Tensor, dim: int) -> None:
    if dim >= value.ndim:
        raise ShapeError(f"index: an entry for dimension {dim}, but the tensor has shape {tuple(value.shape)}")
    size = value.shape[dim]
    if wanted.numel() and not -1 <= int(wanted.min()) <= int(wanted.max()) < size:
        raise IndexRangeError(
            f"index: positions of dimension {dim} must be -1 (new) to {size - 1}, got {wanted.min().item()} to "
            f"{wanted.max().item()}"
        )


# ---- units: which dimension of which parameter belongs to them


class Side(NamedTuple):
    """The units of a layer seen from one side: the attribute with their number, and their dimension by parameter."""

    size: str
    dims: dict[str, int]


def _outputs(layer: Module) -> Side:
    if hasattr(layer, "out_features"):
        return Side("out_features", {"weight": 0, "bias": 0})
    if hasattr(layer, "out_channels") and layer.groups == 1:
        return Side("out_channels", {"weight": int(layer.transposed), "bias": 0})
    if hasattr(layer, "embedding_dim"):
        return Side("embedding_dim", {"weight": 1})
    raise _refusal(layer, "as the layer whose units change", "Linear, ungrouped convolutions and embeddings")


def _inputs(layer: Module) -> Side:
    if hasattr(layer, "in_features"):
        return Side("in_features", {"weight": 1})
    if hasattr(layer, "in_channels") and layer.groups == 1:
        return Side("in_channels", {"weight": int(not layer.transposed)})
    raise _refusal(layer, "in `into`", "Linear and ungrouped convolutions")


def _per_unit(layer: Module) -> Side:
    if hasattr(layer, "num_features"):
        return Side("num_features", dict.fromkeys(("weight", "bias", "running_mean", "running_var"), 0))
    if hasattr(layer, "num_parameters"):
        return Side("num_parameters", {"weight": 0})
    raise _refusal(layer, "in `through`", "BatchNorm, InstanceNorm and PReLU; a norm over units mixes them")


def _refusal(layer: Module, where: str, can: str) -> UnsupportedError:
    return UnsupportedError(f"{type(layer).__name__} cannot stand {where}; what can: {can}")


class Resized(NamedTuple):
    """A layer's new tensors, worked out and not yet put in."""

    layer: Module
    side: Side
    n_units: int
    tensors: dict[str, Tensor]
    replaced: list[tuple[Tensor, Tensor, Index]]


def _resize(layer: Module, side: Side, units: list[int], silent: bool = False, scale: Any = None) -> Resized:
    """The layer with the units of `side` rearranged; new ones start as in a new layer, or with zeros if `silent`."""
    n_units = getattr(layer, side.size)
    fresh = copy.deepcopy(layer) if -1 in units and not silent else None
    tensors: dict[str, Tensor] = {}
    replaced: list[tuple[Tensor, Tensor, Index]] = []
    indices: dict[str, Index] = {}
    for name, dim in side.dims.items():
        old = getattr(layer, name, None)
        if old is not None:
            indices[name] = (*[None] * dim, units)
            tensors[name] = take_units(old, indices[name])
    if fresh is not None:
        _put_in(Resized(fresh, side, len(units), dict(tensors), []))
        fresh.reset_parameters()
    for name, index in indices.items():
        old = getattr(layer, name)
        if old.shape[side.dims[name]] != n_units:
            raise ShapeError(
                f"{type(layer).__name__}: {side.size} is {n_units}, but {name} has shape {tuple(old.shape)}; "
                "the layer was changed by hand, set the attribute as well"
            )
        filling = 0.0 if fresh is None else getattr(fresh, name).detach()
        value = take_units(old, index, filling)
        if scale is not None:
            value = value * scale.reshape([-1 if d == side.dims[name] else 1 for d in range(value.ndim)])
        if isinstance(old, Parameter):
            value = Parameter(value, old.requires_grad)
            if old.grad is not None:
                value.grad = take_units(old.grad, index)
            replaced.append((old, value, index))
        tensors[name] = value
    return Resized(layer, side, len(units), tensors, replaced)


def _put_in(resized: Resized) -> None:
    for name, value in resized.tensors.items():
        is_parameter = isinstance(getattr(resized.layer, name), Parameter)
        setattr(resized.layer, name, Parameter(value) if is_parameter and not isinstance(value, Parameter) else value)
    setattr(resized.layer, resized.side.size, resized.n_units)


def _change_units(
    layer: Module, units: list[int], through: Iterable[Module], into: Iterable[Module], shares: Tensor | None
) -> None:
    """Give `layer` these units, and every layer that sees them too. `shares`: what part of a unit's effect each has."""
    n_before = getattr(layer, _outputs(layer).size)
    work = [_resize(layer, _outputs(layer), units)]
    for between in through:
        if getattr(between, "num_parameters", n_before) != 1:  # one slope for all units is the same for any number
            _same_number(between, _per_unit(between), n_before)
            work.append(_resize(between, _per_unit(between), units))
    for consumer in into:
        side = _inputs(consumer)
        n_inputs = getattr(consumer, side.size)
        per_unit, rest = divmod(n_inputs, n_before)  # more than one after flattening (channel, height, width)
        if rest or not per_unit:
            raise ShapeError(
                f"{type(consumer).__name__}: {side.size} is {n_inputs}, no multiple of the {n_before} units"
            )
        wide = [u * per_unit + i if u >= 0 else -1 for u in units for i in range(per_unit)]
        scale = None if shares is None else shares.repeat_interleave(per_unit)
        work.append(_resize(consumer, side, wide, silent=True, scale=scale))
    replaced = [entry for resized in work for entry in resized.replaced]
    if len({id(old) for old, _, _ in replaced}) < len(replaced):
        raise UnsupportedError(
            "a parameter is shared by two of these layers, so its dimensions would have to change together; untie it, "
            "change the layers one by one, and tell the optimizer with optimizer.remap"
        )
    for resized in work:
        _put_in(resized)
    _tell(Changes(replaced, [], []))


def _same_number(layer: Module, side: Side, n_units: int) -> None:
    found = getattr(layer, side.size)
    if found != n_units:
        raise ShapeError(f"{type(layer).__name__}: {side.size} is {found}, the layer before it has {n_units} units")


def _tell(changes: Changes) -> None:
    for listener in list(LISTENERS):
        listener(changes)


# ---- the public operations


@no_grad()
def widen(
    layer: Module,
    n_units: int,
    *,
    through: Iterable[Module] = (),
    into: Iterable[Module] = (),
    method: str = "zero",
    generator: Any = None,
) -> None:
    """Give a layer more output units without changing what the model computes.

    `into` are the layers that read its output, `through` those in between that keep something for each unit (BatchNorm,
    PReLU). With `method="zero"` new units start like those of a new layer, without effect: their outgoing weights are
    zero. With `method="split"` each is a copy of an old unit, and the two share its outgoing weights in a random ratio
    (Net2Net, Chen et al., 2016). Optimizers follow: moments of old units are kept bit for bit, copies get a copy.

    >>> first, second = nn.Linear(3, 4), nn.Linear(4, 1)
    >>> optimizer = ex.optim.Adam([*first.parameters(), *second.parameters()])
    >>> x = ex.ones(1, 3)
    >>> before = second(first(x).relu())
    >>> nn.surgery.widen(first, 6, into=[second])
    >>> first.weight.shape, second.weight.shape
    (extempo.Size([6, 3]), extempo.Size([1, 6]))
    >>> ex.allclose(before, second(first(x).relu()))
    True
    >>> optimizer.param_groups[0]["params"][0] is first.weight
    True
    """
    n_before = getattr(layer, _outputs(layer).size)
    if n_units < n_before:
        raise ShapeError(f"widen: the layer has {n_before} units already, asked for {n_units}; prune_units takes away")
    if method not in ("zero", "split"):
        raise ArgumentError(f"widen: method must be 'zero' or 'split', got {method!r}")
    n_new = n_units - n_before
    units = list(range(n_before))
    if method == "zero":
        _change_units(layer, [*units, *[-1] * n_new], through, into, None)
        return
    units += ops.randint(n_before, (n_new,), generator=generator).tolist()
    # Unequal shares: equal ones would give a unit and its copy equal gradients for ever.
    shares = 0.5 + ops.rand(n_units, generator=generator)
    sources = ops.tensor(units, dtype="int64")
    totals = ops.zeros(n_before).index_add(0, sources, shares)
    _change_units(layer, units, through, into, shares / totals[sources])


@no_grad()
def prune_units(
    layer: Module, keep: Sequence[int] | Tensor, *, through: Iterable[Module] = (), into: Iterable[Module] = ()
) -> None:
    """Keep only these output units of a layer, in this order; `through` and `into` as for `widen`.

    >>> first, second = nn.Linear(3, 4), nn.Linear(4, 1)
    >>> nn.surgery.prune_units(first, [0, 2], into=[second])
    >>> first, second
    (Linear(in_features=3, out_features=2, bias=True), Linear(in_features=2, out_features=1, bias=True))
    """
    n_before = getattr(layer, _outputs(layer).size)
    given = keep.tolist() if isinstance(keep, Tensor) else list(keep)
    if given and all(isinstance(unit, bool) for unit in given):
        if len(given) != n_before:
            raise ShapeError(
                f"prune_units: a mask must have one entry for each of the {n_before} units, got {len(given)}"
            )
        given = [unit for unit, kept in enumerate(given) if kept]
    if not all(isinstance(unit, int) for unit in given):
        raise DtypeError(f"prune_units: keep must be a list of unit numbers or a bool mask, got {keep!r}")
    units: list[int] = given
    if len(set(units)) < len(units) or any(not 0 <= unit < n_before for unit in units) or not units:
        raise IndexRangeError(f"prune_units: keep must name different units from 0 to {n_before - 1}, got {units}")
    _change_units(layer, units, through, into, None)


def insert_layer(container: Any, position: int, layer: Module, *, start: str | None = "identity") -> None:
    """Put a layer into a Sequential or ModuleList; its parameters join the optimizer group of those beside it.

    Args:
        container: the Sequential or ModuleList.
        position: where the layer will stand.
        layer: the new one.
        start: "identity" gives it weights with which it passes its input on, so that the model computes what it did
            before, and learns from there: Linear with as many features out as in, convolutions that keep sizes, PReLU,
            ReLU behind ReLU, TransformerEncoderLayer with norm_first, Sequential of such. A warning tells of a layer
            that cannot start so. None leaves the layer as it is.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    >>> optimizer = ex.optim.SGD(model.parameters())
    >>> nn.surgery.insert_layer(model, 1, nn.Linear(2, 2))
    >>> len(model), len(optimizer.param_groups[0]["params"])
    (3, 6)
    >>> model[1].weight.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if start not in ("identity", None):
        raise ArgumentError(f"insert_layer: start must be 'identity' or None, got {start!r}")
    if start is not None:
        why = start_as_identity(layer, list(container)[:position])
        if why:
            warnings.warn(
                f"insert_layer: {type(layer).__name__} cannot start as the identity ({why}), so the model computes "
                "something else from here on; start=None says that this is meant",
                stacklevel=2,
            )
    neighbours: list[Tensor] = list(container.parameters())
    container.insert(position, layer)
    _tell(Changes([], [], [(p, neighbours) for p in layer.parameters()]))


def remove_layer(container: Any, position: int) -> Module:
    """Take a layer out of a Sequential or ModuleList and return it; optimizers drop what only it had.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    >>> optimizer = ex.optim.SGD(model.parameters())
    >>> nn.surgery.remove_layer(model, 0)
    Linear(in_features=2, out_features=2, bias=True)
    >>> len(optimizer.param_groups[0]["params"])
    2
    """
    layer: Module = container[position]
    del container[position]
    _tell(Changes([], _gone(layer, container), []))
    return layer


def replace_layer(parent: Module, name: str | int, layer: Module) -> Module:
    """Put a layer in the place of `parent.name` and return the old one; optimizers swap their parameters.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> optimizer = ex.optim.SGD(model.parameters())
    >>> nn.surgery.replace_layer(model, 1, nn.Linear(3, 5))
    Linear(in_features=3, out_features=1, bias=True)
    >>> optimizer.param_groups[0]["params"][-1] is model[1].bias
    True
    """
    old: Module = getattr(parent, str(name))
    neighbours: list[Tensor] = list(old.parameters()) or list(parent.parameters())
    setattr(parent, str(name), layer)
    _tell(Changes([], _gone(old, parent), [(p, neighbours) for p in layer.parameters()]))
    return old


def _gone(layer: Module, parent: Module) -> list[Tensor]:
    """The parameters of a layer that was taken out, without those that the rest still uses."""
    used = {id(p) for p in parent.parameters()}
    return [p for p in layer.parameters() if id(p) not in used]
