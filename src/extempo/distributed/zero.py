"""ZeroRedundancyOptimizer: each rank keeps the optimizer's state of its own share of the parameters, and updates it.

After a step ranks send each other the parameters that they have updated. Parameters are shared out by size, the largest
first, the same on all ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.active_traces import before_write
from ..core.storage import Array
from ..core.tensor import Tensor
from ..errors import DistributedError, RankLostError
from ..optim.optimizer import Optimizer
from .groups import ProcessGroup, current_world, n_losses
from .objects import exchanged


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose state is divided among processes; in one process, the optimizer itself.

    params: of the model, in groups or not.
    optimizer_class: such as `ex.optim.Adam`.
    process_group: of all processes, unless given.
    parameters_as_bucket_view: makes no difference.
    overlap_with_ddp: makes no difference.
    defaults: options of the optimizer, such as lr.

    >>> layer = nn.Linear(2, 1)
    >>> adam = ex.distributed.ZeroRedundancyOptimizer(layer.parameters(), ex.optim.Adam, lr=0.1)
    >>> layer(ex.ones(1, 2)).sum().backward()
    >>> adam.step()
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: Callable[..., Any],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        super().__init__(params, dict(defaults))
        self._group = process_group if process_group is not None else current_world()
        self._n_losses = n_losses()
        self._all: dict[int, Any] | None = None  # the state of all ranks, where it was gathered
        size, rank = (1, 0) if self._group is None else (self._group.size(), self._group.rank())
        self.shares = self._divided(size)
        mine = set(map(id, self.shares[rank]))
        groups = [{**group, "params": [p for p in group["params"] if id(p) in mine]} for group in self.param_groups]
        self._where = [i for i, group in enumerate(groups) if group["params"]]
        kept = [groups[i] for i in self._where]
        self.optim = optimizer_class(kept, **defaults) if kept else None
        for i, own in zip(self._where, self.optim.param_groups if self.optim is not None else (), strict=True):
            for name, value in own.items():
                self.param_groups[i].setdefault(name, value)

    def _divided(self, size: int) -> list[list[Tensor]]:
        shares: list[list[Tensor]] = [[] for _ in range(size)]
        work = [0] * size
        parameters = [p for group in self.param_groups for p in group["params"]]
        for p in sorted(parameters, key=lambda p: -p.numel()):
            least = work.index(min(work))
            shares[least].append(p)
            work[least] += p.numel()
        return shares

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the share of this rank, then have the parameters of all.

        closure: computes the loss anew, for optimizers that need it.
        """
        if n_losses() != self._n_losses:
            raise RankLostError(
                "ZeroRedundancyOptimizer.step: a rank is lost, and with it its share of the optimizer's state; go back "
                "to the last checkpoint: load_state_dict on a new ZeroRedundancyOptimizer"
            )
        loss = None
        if self.optim is not None:
            for i, own in zip(self._where, self.optim.param_groups, strict=True):
                own.update({name: value for name, value in self.param_groups[i].items() if name != "params"})
            loss = self.optim.step() if closure is None else self.optim.step(closure)
        if self._group is not None and self._group.size() > 1:
            self._group.together("ZeroRedundancyOptimizer.step", self._exchange, repeatable=False)
        return loss

    def _exchange(self, _: Array) -> None:
        assert self._group is not None
        engine = self._group.engine
        for root, share in enumerate(self.shares):
            for p in share:
                values = np.ascontiguousarray(p._values())
                engine.broadcast(values.reshape(-1).view(np.uint8), root)
                if root != engine.rank:
                    before_write((p._storage,))
                    if values is not p._array:
                        np.copyto(p._array, values)
                    p._storage.version += 1

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state of all ranks on one, for `state_dict`. All ranks call it.

        to: which one.
        """
        own = {} if self.optim is None else {self._number(p): state for p, state in self.optim.state.items()}
        found = [own]
        if self._group is not None and self._group.size() > 1:
            group = self._group
            found = group.together("consolidate_state_dict", lambda _: exchanged(group.engine, own), repeatable=False)
        rank = 0 if self._group is None else self._group.rank()
        self._all = {key: value for part in found for key, value in part.items()} if rank == to else None

    def _number(self, wanted: Tensor) -> int:
        parameters = [p for group in self.param_groups for p in group["params"]]
        return next(i for i, p in enumerate(parameters) if p is wanted)

    def state_dict(self) -> dict[str, Any]:
        """The whole state, in the form of the optimizer's own; call `consolidate_state_dict` on all ranks before."""
        if self._group is None or self._group.size() == 1:
            self.consolidate_state_dict()
        if self._all is None:
            raise DistributedError(
                "ZeroRedundancyOptimizer.state_dict: call consolidate_state_dict(to=rank) on all ranks first, and "
                "state_dict on that rank"
            )
        found = super().state_dict()
        found["state"] = dict(sorted(self._all.items()))
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the share of this rank from a whole state.

        state_dict: what `state_dict` gave, with any number of ranks.
        """
        for group, kept in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({name: value for name, value in kept.items() if name != "params"})
        if self.optim is None:
            return
        own = self.optim.state_dict()
        numbers = [self._number(p) for group in self.optim.param_groups for p in group["params"]]
        own["state"] = {i: state_dict["state"][n] for i, n in enumerate(numbers) if n in state_dict["state"]}
        self.optim.load_state_dict(own)
