"""Optimizers that go along when a model changes while it trains.

A parameter that is replaced hands its state on: moments of kept rows stay bit for bit what they were. The functions of
`nn.surgery` tell every optimizer alive; `optimizer.follow(model)` follows a module through changes by plain assignment;
`optimizer.remap(...)` tells of a single one.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..core.tensor import Tensor
from ..core.weak import WeakMembers
from ..errors import ArgumentError, DtypeError, ExtempoError, ShapeError
from ..nn.surgery import LISTENERS, Changes, Index, take_units

__all__ = ["Followed", "Follower"]


class Followed(NamedTuple):
    """What `Optimizer.follow` did: the parameters that joined and those that were dropped."""

    joined: list[Tensor]
    dropped: list[Tensor]


class Follower:
    """The parameters and state of an optimizer, as something that can follow a model."""

    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]

    @staticmethod
    def _unpack(params: Any) -> tuple[list[Any], list[str]]:
        """The parameters of a group, and their names if they came with names."""
        if isinstance(params, Tensor):
            return [params], []
        if isinstance(params, set):
            raise DtypeError("add_param_group: the order of a set changes from run to run; pass a list")
        items = list(params)
        names = [item[0] for item in items if isinstance(item, tuple)]
        if names and len(names) < len(items):
            raise ArgumentError("add_param_group: some parameters have names and some have not; name all or none")
        return [item[1] if isinstance(item, tuple) else item for item in items], names

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]

    def _forget_layout(self) -> None:
        """Parameters or state have been changed from outside `step`; an optimizer that keeps something forgets it."""

    def remap(self, changes: Mapping[Tensor, Any]) -> None:
        """Put parameters in the place of others. `{old: new}` keeps the state, `{old: (new, index)}` rearranges it.

        `index` says for each dimension of `new` where it comes from: None for "as it was", or a list with the old
        position of each new one and -1 for what is new. Moments of kept rows stay bit for bit what they were, new ones
        start as in a new optimizer. `{old: None}` drops a parameter. `nn.utils.widen` and its kin do all this.

        >>> old = ex.ones(2, 3, requires_grad=True)
        >>> optimizer = ex.optim.SGD([old], momentum=0.9)
        >>> old.sum().backward()
        >>> optimizer.step()
        >>> new = ex.ones(3, 3, requires_grad=True)
        >>> optimizer.remap({old: (new, ([0, 1, -1], None))})
        >>> optimizer.state[new]["momentum_buffer"]
        tensor([[1., 1., 1.],
                [1., 1., 1.],
                [0., 0., 0.]])
        """
        known = {id(p): group for group in self.param_groups for p in group["params"]}
        replacements: dict[int, Tensor | None] = {}
        states: list[tuple[Tensor, Any]] = []
        for i, (old, change) in enumerate(changes.items()):
            new, index = change if isinstance(change, tuple) else (change, None)
            if id(old) not in known:
                raise ShapeError(f"remap: parameter {i}, of shape {tuple(old.shape)}, is not one of this optimizer")
            if new is not None and new is not old and id(new) in known:
                raise ShapeError(
                    f"remap: the replacement of parameter {i} is one of this optimizer's parameters already"
                )
            replacements[id(old)] = new
            if new is not None and old in self.state:
                states.append((new, self._remapped(old, new, index, known[id(old)])))
        for old in changes:
            self.state.pop(old, None)
        self.state.update(states)
        for group in self.param_groups:
            pairs = list(zip(group["params"], group.get("param_names", [None] * len(group["params"])), strict=True))
            kept = [(replacements.get(id(p), p), name) for p, name in pairs]
            group["params"] = [p for p, _ in kept if p is not None]
            if "param_names" in group:
                group["param_names"] = [name for p, name in kept if p is not None]
        self._forget_layout()

    def _remapped(self, old: Tensor, new: Tensor, index: Index | None, group: dict[str, Any]) -> dict[str, Any]:
        """The state of `old` for `new`: what is shaped like the parameter is rearranged, all else is kept."""
        state = {}
        for key, value in self.state[old].items():
            if isinstance(value, Tensor) and value.shape == old.shape and old.ndim:
                rearranged = take_units(value, index, self._initial_state(key, group)).to(new.dtype)
                if rearranged.shape != new.shape:
                    raise ShapeError(
                        f"remap: the index makes {tuple(rearranged.shape)} of {tuple(old.shape)}, the new parameter "
                        f"has shape {tuple(new.shape)}; give one list (or None) for each dimension"
                    )
                state[key] = rearranged
            else:
                state[key] = copied_value(value)
        return state

    def _initial_state(self, key: str, group: dict[str, Any]) -> float:
        """What a piece of state starts with."""
        return 0.0

    def follow(self, parameters: Any, group: int = 0) -> Followed:
        """Train exactly the parameters of a module (or of an iterable): drop those that are gone, add the new ones.

        New parameters join the group of that number; kept ones stay where they are, with their state. A module is
        followed from now on: layers that are replaced, added or removed by plain assignment, also within `forward`,
        are noticed at the next `step`.

        >>> old, kept, new = (ex.ones(2, requires_grad=True) for _ in range(3))
        >>> optimizer = ex.optim.Adam([old, kept])
        >>> joined, dropped = optimizer.follow([kept, new])
        >>> len(joined), len(dropped), len(optimizer.param_groups[0]["params"])
        (1, 1, 2)
        """
        done = self._follow_now(parameters, group)
        if hasattr(parameters, "named_parameters"):
            self._follow_from_now_on(parameters, group)
        return done

    def _follow_from_now_on(self, module: Any, group: int) -> None:
        followed = weakref.ref(module)

        def look(optimizer: Any, args: Any, kwargs: Any) -> None:
            model = followed()
            if model is not None and {id(p) for p in model.parameters()} != {id(p) for p in optimizer._parameters()}:
                optimizer._follow_now(model, group)

        if self._following is not None:
            self._following.remove()
        optimizer: Any = self  # the whole of it: hooks are the optimizer's part
        self._following = optimizer.register_step_pre_hook(look)

    _following: Any = None  # the handle of the hook that follows a module

    def _follow_now(self, parameters: Any, group: int) -> Followed:
        named = "param_names" in self.param_groups[group]
        if hasattr(parameters, "named_parameters"):
            parameters = parameters.named_parameters() if named else parameters.parameters()
        wanted, names = self._unpack(parameters)
        if not wanted or not all(isinstance(p, Tensor) for p in wanted):
            got = "nothing" if not wanted else next(type(p).__name__ for p in wanted if not isinstance(p, Tensor))
            raise DtypeError(f"follow: expected a module or its parameters, got {got}; the optimizer is as it was")
        if named and not names:
            raise ArgumentError(
                "follow: this optimizer's parameters have names; pass the module or its named_parameters()"
            )
        known = {id(p) for p in self._parameters()}
        ids = set(map(id, wanted))
        dropped = [p for p in self._parameters() if id(p) not in ids]
        joined = list({id(p): p for p in wanted if id(p) not in known}.values())
        self.remap(dict.fromkeys(dropped))
        by_id = dict(zip(map(id, wanted), names, strict=False))
        self._join(joined, self.param_groups[group], [by_id[id(p)] for p in joined] if named else None)
        return Followed(joined, dropped)

    def _join(self, parameters: list[Tensor], group: dict[str, Any], names: Sequence[str] | None = None) -> None:
        group["params"] = [*group["params"], *parameters]
        if "param_names" in group:
            group["param_names"] = [*group["param_names"], *(names or [""] * len(parameters))]
        self._forget_layout()


def copied_value(value: Any) -> Any:
    """A copy of a loaded value; arrays of NumPy and of other libraries become tensors."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return ops.tensor(value)
    if hasattr(value, "__dlpack__"):
        return ops.from_dlpack(value.detach() if hasattr(value, "detach") else value).clone()
    if isinstance(value, dict):
        return {k: copied_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copied_value(v) for v in value)
    return deepcopy(value)


LIVE: WeakMembers[Follower] = WeakMembers()


def _follow_changes(changes: Changes) -> None:
    """A module has changed shape: every optimizer that trains its parameters goes along."""
    for optimizer in LIVE:
        known = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        remapped: dict[Tensor, Any] = {old: (new, index) for old, new, index in changes.replaced if id(old) in known}
        remapped |= {p: None for p in changes.removed if id(p) in known}
        try:
            if remapped:
                optimizer.remap(remapped)
        except ExtempoError as error:
            raise type(error)(f"{type(optimizer).__name__} could not follow the change: {error}") from error
        for p, neighbours in changes.joined:
            groups = [known[id(n)] for n in neighbours if id(n) in known]
            if groups and id(p) not in known:
                optimizer._join([p], groups[-1])


LISTENERS.append(_follow_changes)
