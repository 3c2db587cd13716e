"""Optimizer: parameter groups, state by parameter, checkpoints, hooks. What every optimizer shares.

State is kept by parameter, options by group; `state_dict` and `load_state_dict` use PyTorch's keys, so a checkpoint of
a PyTorch optimizer loads as it is. Nothing is changed before everything that came in has been checked. Write your own
optimizer as in PyTorch: subclass, pass `defaults`, define `step`.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..autograd.hooks import RemovableHandle
from ..core.absent_names import KeywordSuggestions
from ..core.tensor import Tensor, TensorLike
from ..errors import ArgumentError, DtypeError, ShapeError
from .remapping import LIVE, Follower, copied_value

__all__ = [
    "Optimizer",
    "ParamsT",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict = dict[str, Any]

_before_every_step: dict[int, Any] = OrderedDict()
_after_every_step: dict[int, Any] = OrderedDict()
_HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class _Required:
    """Stands in `defaults` for an option that every parameter group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def number(value: Any) -> Any:
    """An option that may be a tensor with one element, as a Python number."""
    return value.item() if isinstance(value, Tensor) else value


def scalar(group: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """An option of a group, or a pair of them, as numbers; a tensor that the step is differentiated by stays one."""
    value = group.get(key, default)
    keep = group.get("differentiable", False)

    def one(value: Any) -> Any:
        if keep and isinstance(value, Tensor) and value.requires_grad:
            return value.reshape(())
        return number(value)

    return tuple(map(one, value)) if isinstance(value, tuple | list) else one(value)


def options_among(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The options in the `locals()` of a constructor: its arguments besides the parameters, by their names.

    So an optimizer states its options and their defaults once, in its signature.
    """
    return {name: value for name, value in arguments.items() if name not in ("self", "params", "__class__")}


def _hook(hooks: dict[int, Any], hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend and isinstance(hooks, OrderedDict):
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer.

    >>> handle = ex.optim.optimizer.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: print("stepping"))
    >>> ex.optim.SGD([ex.ones(1, requires_grad=True)]).step()
    stepping
    >>> handle.remove()
    """
    return _hook(_before_every_step, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer.

    >>> handle = ex.optim.optimizer.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: print("done"))
    >>> ex.optim.SGD([ex.ones(1, requires_grad=True)]).step()
    done
    >>> handle.remove()
    """
    return _hook(_after_every_step, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` that runs the hooks around it; a step called by a subclass's step does not run them again.

    An optimizer that wraps another one may never have called `Optimizer.__init__`: it has no hooks.
    """

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._stepping:
            return step(self, *args, **kwargs)
        self._stepping = True
        try:
            if _before_every_step or getattr(self, "_optimizer_step_pre_hooks", None):
                args, kwargs = self._before_step(args, kwargs)
            result = step(self, *args, **kwargs)
            self._opt_called = True
            own = getattr(self, "_optimizer_step_post_hooks", {})
            if _after_every_step or own:
                for hook in (*own.values(), *_after_every_step.values()):
                    hook(self, (self, *args), kwargs)
            return result
        finally:
            self._stepping = False

    return hooked


class Optimizer(Follower, KeywordSuggestions):
    """What every optimizer shares: parameter groups, state by parameter, checkpoints and hooks.

    `params` is an iterable of tensors, of `(name, tensor)` pairs, or of dicts with the key `"params"` and options for
    that group; `defaults` are the options of groups that do not give them.

    >>> class Signed(ex.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...
    ...     @ex.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 if p.grad is not None:
    ...                     p.sub_(p.grad.sign(), alpha=group["lr"])
    >>> w = ex.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> Signed([w], lr=0.5).step()
    >>> w
    tensor([ 0.5000, -1.5000], requires_grad=True)
    """

    OptimizerPreHook = OptimizerPostHook = Callable[..., Any]  # for annotations
    defaults: dict[str, Any]
    _optimizer_step_pre_hooks: OrderedDict[int, Any]
    _optimizer_step_post_hooks: OrderedDict[int, Any]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Any]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Any]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Any]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Any]
    _stepping = False
    _opt_called = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        name = type(self).__name__
        if isinstance(params, Tensor):
            raise DtypeError(
                f"{name}: params must be an iterable of tensors or of dicts, got one tensor; pass [tensor]"
            )
        if hasattr(params, "parameters"):
            raise DtypeError(f"{name}: params must be an iterable of tensors, got a module; pass model.parameters()")
        groups: list[Any] = list(params)
        if not groups:
            raise ArgumentError(
                f"{name}: params is empty; was a generator such as model.parameters() used up before, or made before "
                "the model had layers? Layers in a plain list are not seen: use nn.ModuleList"
            )
        self._check_defaults(defaults)
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._begin()
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _begin(self) -> None:
        """What a new or unpickled optimizer starts with besides its state: no hooks, and nothing worked out."""
        for name in _HOOKS:
            setattr(self, name, OrderedDict())
        LIVE.add(self)
        self._forget_layout()

    def _check_defaults(self, defaults: Mapping[str, Any]) -> None:
        name = type(self).__name__
        lr = defaults.get("lr", 0.0)
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ShapeError(f"{name}: a tensor lr must have one element, got shape {tuple(lr.shape)}")
        if lr is not required and not number(lr) >= 0.0:
            raise ArgumentError(f"{name}: lr must not be negative, got {lr}; maximize=True goes uphill")

    # ---- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Train more parameters: `{"params": ..., option: value, ...}`; options left out get their defaults.

        >>> a, b = ex.ones(2, requires_grad=True), ex.ones(3, requires_grad=True)
        >>> optimizer = ex.optim.SGD([a], lr=0.1)
        >>> optimizer.add_param_group({"params": [b], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise DtypeError(
                f"add_param_group: expected a dict with the key 'params', got {type(param_group).__name__}"
            )
        params, names = self._unpack(param_group["params"])
        for i, p in enumerate(params):
            if not isinstance(p, Tensor):
                advice = ", pass x.values() of a ragged one" if isinstance(p, TensorLike) else ""
                raise DtypeError(
                    f"add_param_group: params[{i}] is a {type(p).__name__}; optimizers train tensors{advice}"
                )
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ArgumentError(
                    f"add_param_group: params[{i}] was computed from other tensors, so it has no gradient of its own; "
                    "pass the leaf it came from, or x.detach().requires_grad_()"
                )
        for key, default in self.defaults.items():
            if default is required and key not in param_group:
                raise ArgumentError(f"add_param_group: option {key!r} has no default; give it in the group")
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if not known.isdisjoint(map(id, params)):
            raise ArgumentError("add_param_group: a parameter of this group is in another group already; leave it out")
        if any(("param_names" in group) != bool(names) for group in self.param_groups):
            kind = "with names to others without" if names else "without names to others with"
            raise ArgumentError(f"add_param_group: cannot add one {kind}; use named_parameters() for all or for none")
        if len(set(map(id, params))) < len(params):
            warnings.warn(
                "add_param_group: a parameter stands in this group more than once and will be updated as often",
                UserWarning,
                stacklevel=3,
            )
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for key, default in self.defaults.items():
            param_group.setdefault(key, default)
        self.param_groups.append(param_group)
        self._forget_layout()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
            lines.append("")
        return "\n".join(lines).rstrip("\n") + "\n)"

    # ---- stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient. `closure` computes the loss again and is called first."""
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def _before_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for hook in (*_before_every_step.values(), *self._optimizer_step_pre_hooks.values()):
            changed = hook(self, (self, *args), kwargs)
            if changed is None:
                continue
            if not isinstance(changed, tuple) or len(changed) != 2:
                raise DtypeError(f"step pre-hook: expected None or (args, kwargs), got {changed!r}")
            args, kwargs = changed[0][1:], changed[1]
        return args, kwargs

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """The step of a subclass itself: hooks and the profiler find it without."""
        return func

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros.

        >>> w = ex.ones(2, requires_grad=True)
        >>> optimizer = ex.optim.SGD([w])
        >>> w.sum().backward()
        >>> optimizer.zero_grad()
        >>> w.grad is None
        True
        """
        for group in self.param_groups:
            for p in group["params"]:
                if not set_to_none:
                    if p.grad is not None:
                        p.grad = p.grad.detach().zero_()
                elif (node := p._history) is not None and (extra := node.extra) is not None:
                    extra.grad = None  # what p.grad = None does, without the call

    # ---- checkpoints

    def state_dict(self) -> StateDict:
        """State and options, with parameters numbered in the order of their groups.

        >>> w = ex.ones(2, requires_grad=True)
        >>> optimizer = ex.optim.SGD([w], momentum=0.9)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> optimizer.state_dict()["state"]
        {0: {'momentum_buffer': tensor([1., 1.])}}
        """
        for pre_hook in self._optimizer_state_dict_pre_hooks.values():
            pre_hook(self)
        positions: dict[int, int] = {}
        groups = []
        n_before = 0
        for group in self.param_groups:
            for i, p in enumerate(group["params"], n_before):
                positions.setdefault(id(p), i)
            n_before += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            groups.append(packed | {"params": [positions[id(p)] for p in group["params"]]})
        state = {positions[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        result: StateDict = {"state": state, "param_groups": groups}
        for post_hook in self._optimizer_state_dict_post_hooks.values():
            result = _or(post_hook(self, result), result)
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over a state from `state_dict()`, of this library or of PyTorch; tensors and NumPy arrays are copied.

        >>> w, v = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
        >>> w.sum().backward()
        >>> first, second = ex.optim.Adam([w]), ex.optim.Adam([v])
        >>> first.step()
        >>> second.load_state_dict(first.state_dict())
        >>> second.state[v]["step"]
        tensor(1.)
        """
        given = state_dict.copy()
        for pre_hook in self._optimizer_load_state_dict_pre_hooks.values():
            given = _or(pre_hook(self, given), given)
        groups = [copied_value(group) for group in given["param_groups"]]
        sizes = [len(group["params"]) for group in groups], [len(group["params"]) for group in self.param_groups]
        if sizes[0] != sizes[1]:
            raise ShapeError(
                f"load_state_dict: the state has groups of {sizes[0]} parameters, this optimizer of {sizes[1]}; build "
                "the optimizer with the same groups, or adapt the state in a load_state_dict pre-hook"
            )
        positions = [i for group in groups for i in group["params"]]
        by_position = dict(zip(positions, self._parameters(), strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in given["state"].items():
            if key in by_position:
                state[by_position[key]] = self._fitted(by_position[key], value, f"state[{key!r}]")
            else:
                state[key] = copied_value(value)
        self._check_state(by_position, state)
        for group, own in zip(groups, self.param_groups, strict=True):
            group["params"] = own["params"]
            if "param_names" in own:
                group.setdefault("param_names", own["param_names"])
        self._restore({"state": state, "param_groups": groups})
        for post_hook in self._optimizer_load_state_dict_post_hooks.values():
            post_hook(self)

    def _fitted(self, p: Tensor, value: Any, path: str, key: Any = None) -> Any:
        """A copy of one loaded value: floating arrays get the parameter's dtype, numbers of their own keep theirs."""
        if isinstance(value, Mapping):
            return {k: self._fitted(p, v, f"{path}[{k!r}]", k) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._fitted(p, v, f"{path}[{i}]") for i, v in enumerate(value))
        loaded = copied_value(value)
        if isinstance(loaded, Tensor) and loaded.ndim and loaded.dtype.is_floating_point and key != "step":
            return loaded.to(p.dtype)
        return loaded

    def _check_state(self, parameters: Mapping[Any, Tensor], state: Mapping[Any, Any]) -> None:
        """Refuse a loaded state that does not fit; an optimizer that knows its state's shapes compares them."""

    def _restore(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)
        for group in self.param_groups:
            for key, default in self.defaults.items():
                group.setdefault(key, default)  # checkpoints of older versions lack newer options
        self._forget_layout()

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._begin()
        self._restore(state)

    # ---- hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other `(args, kwargs)`."""
        return _hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return _hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return _hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another one."""
        return _hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; it may return another one."""
        return _hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return _hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _or(changed: Any, otherwise: Any) -> Any:
    return otherwise if changed is None else changed
