"""DistributedDataParallel: every process has the model, each its own data, and all the mean of their gradients.

The wrapper hands calls on to the model and has `autograd.waiting` call the reducer after the next backward, be it
eager, compiled or batched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...autograd.waiting import WAITING
from ...core.context import is_grad_enabled
from ...distributed.groups import ProcessGroup, current_world
from ...errors import ArgumentError
from ..module import Module

if TYPE_CHECKING:
    from ...distributed.reducer import GradBucket, Reducer


class DistributedDataParallel(Module):
    """A model whose gradients are, after each backward, the mean over all processes.

    Processes may run different graphs: a parameter that one has not used counts as zero there, and one that nobody has
    used keeps its `.grad`. With one process it does nothing at all.

    module: the model; rank 0's weights are sent to all when it is wrapped.
    device_ids: there is one device.
    output_device: there is one device.
    dim: not needed.
    broadcast_buffers: buffers are those of the first rank after each step.
    process_group: of all processes, unless given.
    bucket_cap_mb: gradients travel in pieces of about this many megabytes; 25 if left out.
    find_unused_parameters: always the case.
    check_reduction: not needed.
    gradient_as_bucket_view: `.grad` looks into the piece that has travelled, which saves a copy; do not keep it.
    static_graph: makes no difference: graphs may change.

    >>> from extempo.nn.parallel import DistributedDataParallel as DDP
    >>> ex.distributed.init_process_group()
    >>> model = DDP(nn.Linear(2, 1))
    >>> model(ex.ones(3, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[3., 3.]])
    >>> ex.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        super().__init__()
        if not any(p.requires_grad for p in module.parameters()):
            raise ArgumentError("DistributedDataParallel: no parameter of the module requires grad; call it itself")
        self.module = module
        self.require_backward_grad_sync = True
        group = process_group if process_group is not None else current_world()
        self._reducer: Reducer | None = None
        if group is not None and group.size() > 1:
            from ...distributed.reducer import Reducer  # it knows modules itself

            limit = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
            self._reducer = Reducer(module, group, limit, gradient_as_bucket_view)
            self._reducer.broadcast_buffers = broadcast_buffers
            self._reducer.check()
            self._reducer.share()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module; the next backward ends with the exchange of gradients."""
        if self._reducer is not None and is_grad_enabled() and self.training:
            self._reducer.prepare()
            if self.require_backward_grad_sync:
                WAITING[self._reducer.number] = self._reducer.reduce
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block, gradients stay with each process and add up; the next backward after it exchanges them."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Processes may have different numbers of batches: one that is done takes part without data until all are.

        At the end all have the weights of one that was done last.

        divide_by_initial_world_size: the mean is over all processes; if not, over those that still have data.
        enable: False: the block changes nothing.
        throw_on_early_termination: raise on all ranks as soon as one is done.
        """
        reducer = self._reducer
        if reducer is None or not enable:
            yield
            return
        reducer.divide_by_all = divide_by_initial_world_size
        reducer.throws = throw_on_early_termination
        try:
            yield
            WAITING.pop(reducer.number, None)
            n_steps = reducer.n_steps
            while reducer.reduce(joined=True):
                pass
            reducer.share_from_last(n_steps)
        finally:
            reducer.divide_by_all, reducer.throws = True, False

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Let a function carry the gradients: `hook(state, bucket)` returns the mean of the bucket, or a future of it.

        state: handed to the hook.
        hook: such as those of `ex.distributed.comm_hooks`.
        """
        if not callable(hook):
            raise ArgumentError(f"register_comm_hook: hook must be a function of (state, bucket), got {hook!r}")
        if self._reducer is not None:
            if self._reducer.hook is not None:
                raise ArgumentError("register_comm_hook: there is one already; it can be registered once")
            self._reducer.hook = lambda bucket: hook(state, bucket)
