"""state_dict and load_state_dict: a module's values as a flat dict, and back.

Loading has two phases. First every module says what it would take from the state; only when nothing is wrong are values
written, so a state that does not match leaves the module as it was, and one error names all that does not match. Values
may be tensors of Extempo or of PyTorch, or NumPy arrays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from .. import ops
from ..autograd.hooks import RemovableHandle
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import DtypeError, ExtempoError
from .hooks import Hook, add_hook
from .parameter import Buffer, Parameter

EXTRA_STATE = "_extra_state"
_LOADING = "loading"  # where a module's metadata carries the load it is part of


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict(..., strict=False)` could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not any(self):
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    def __str__(self) -> str:
        return repr(self)


class FitReport(NamedTuple):
    """What `load_state_dict(..., strict="fit")` did with each key."""

    loaded: list[str]  # taken over whole
    partly: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]  # (shape in the state, shape in the module)
    skipped: dict[str, str]  # nothing of it fits, and why
    missing_keys: list[str]
    unexpected_keys: list[str]

    def __str__(self) -> str:
        lines = [f"loaded whole: {len(self.loaded)}"]
        lines += [f"loaded in part: {key} {theirs} -> {ours}" for key, (theirs, ours) in self.partly.items()]
        lines += [f"not loaded: {key}, {why}" for key, why in self.skipped.items()]
        lines += [f"not in the state: {key}" for key in self.missing_keys]
        lines += [f"not in the module: {key}" for key in self.unexpected_keys]
        return "\n".join(lines)


class StateHooks:
    """The hooks around saving and loading the state of one module."""

    def __init__(self) -> None:
        self.save_pre: OrderedDict[int, Hook] = OrderedDict()
        self.save_post: OrderedDict[int, Hook] = OrderedDict()
        self.load_pre: OrderedDict[int, Hook] = OrderedDict()
        self.load_post: OrderedDict[int, Hook] = OrderedDict()


class Load:
    """One load under way: what will be written, once it is known that all is well."""

    def __init__(self, assign: bool, fit: bool) -> None:
        self.assign = assign
        self.fit = fit
        self.steps: list[Callable[[], Any]] = []
        self.after: list[tuple[Any, Hook]] = []  # modules and hooks that want to know the end
        self.loaded: list[str] = []
        self.partly: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.skipped: dict[str, str] = {}
        self._assigned: dict[int, Tensor] = {}  # tensors that a module has under several names stay one

    def take(self, module: Any, name: str, key: str, value: Any, errors: list[str]) -> None:
        """Plan to put `value` into the tensor `name` of a module."""
        own: Tensor = getattr(module, name)
        try:
            found = as_own_tensor(value)
        except (TypeError, ValueError, RuntimeError, BufferError) as error:
            self._refuse(key, f"{type(value).__name__} is no tensor ({error})", errors)
            return
        if not own.shape and found.shape == (1,):
            found = found.reshape(())  # how very old versions of PyTorch saved scalars
        if found.shape == own.shape:
            self.loaded.append(key)
            step = self._assign if self.assign else self._copy
            self.steps.append(partial(step, module, name, own, found))
            return
        theirs, ours = tuple(found.shape), tuple(own.shape)
        overlap = tuple(slice(0, min(a, b)) for a, b in zip(theirs, ours, strict=False))
        if not self.fit or len(theirs) != len(ours):
            self._refuse(key, f"size mismatch, the shape is {theirs} in the state and {ours} in the module", errors)
            return
        self.partly[key] = theirs, ours
        self.steps.append(partial(self._copy, module, name, own[overlap], found[overlap]))

    def _refuse(self, key: str, why: str, errors: list[str]) -> None:
        if self.fit:
            self.skipped[key] = why
        else:
            errors.append(f'"{key}": {why}')

    def _copy(self, module: Any, name: str, own: Tensor, found: Tensor) -> None:
        own.copy_(found)

    def _assign(self, module: Any, name: str, own: Tensor, found: Tensor) -> None:
        assigned = self._assigned.get(id(own))
        if assigned is None:
            if isinstance(own, Parameter):
                assigned = found if isinstance(found, Parameter) else Parameter(found.detach(), own.requires_grad)
                assigned.requires_grad_(own.requires_grad)
            elif isinstance(own, Buffer):
                assigned = Buffer(found.detach(), persistent=own.persistent)
            else:
                assigned = found.detach()
            self._assigned[id(own)] = assigned
        setattr(module, name, assigned)

    def carry_out(self) -> None:
        """Write everything that was planned."""
        with no_grad():
            for step in self.steps:
                step()


def as_own_tensor(value: Any) -> Tensor:
    """A tensor of Extempo from anything that holds one: NumPy's, PyTorch's (also on a GPU), or a plain number."""
    if isinstance(value, Tensor):
        return value
    for method in ("detach", "cpu"):
        value = getattr(value, method, lambda kept=value: kept)()
    if not hasattr(value, "__array__") and not hasattr(value, "__dlpack__") and not isinstance(value, int | float):
        raise DtypeError("expected a tensor, an array or a number")
    return ops.asarray(value)


class StateMethods:
    """The part of Module that saves and loads its state."""

    _version: int = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_hooks: StateHooks | None = None

    def _own_state_hooks(self) -> StateHooks:
        if self._state_hooks is None:
            self._state_hooks = StateHooks()
        return self._state_hooks

    def _run_state_hooks(self, kind: str, *args: Any) -> Iterable[Any]:
        hooks = self._state_hooks
        return [] if hooks is None else [hook(self, *args) for hook in list(getattr(hooks, kind).values())]

    def _own_state(self) -> dict[str, Tensor]:
        """This module's own parameters and persistent buffers."""
        temporary = self._non_persistent_buffers_set
        own = {**self._parameters, **{name: b for name, b in self._buffers.items() if name not in temporary}}
        return {name: tensor for name, tensor in own.items() if tensor is not None}

    # ---- saving

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Every parameter and persistent buffer by its dotted name. The tensors share memory with the module.

        keep_vars: the parameters themselves in place of tensors outside the graph.

        >>> list(nn.Linear(2, 3).state_dict())
        ['weight', 'bias']
        """
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined] # where PyTorch keeps versions too
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        self._run_state_hooks("save_pre", prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for changed in self._run_state_hooks("save_post", destination, prefix, metadata):
            if changed is not None:
                destination = changed
        return destination

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put this module's own state, without its submodules', into `destination`. Override to save something else."""
        for name, tensor in self._own_state().items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """What `state_dict` should hold besides tensors. Override it together with `set_extra_state`."""
        raise DtypeError(f"get_extra_state: {type(self).__name__} has none; override it and set_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` returned."""
        raise DtypeError(f"set_extra_state: {type(self).__name__} has none; override it and get_extra_state")

    # ---- loading

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool | str = True, assign: bool = False) -> Any:
        """Copy values from a state, of this library or a PyTorch `state_dict` as it is, into this module.

        strict=True: an error names every missing, unexpected and mis-shaped key, and nothing is changed. strict=False:
        missing and unexpected keys are returned. strict="fit" (beyond PyTorch): load what fits; where sizes differ, the
        leading part that both have; returns a FitReport. assign: take over the tensors in place of copying.

        >>> small, large = nn.Linear(2, 2), nn.Linear(3, 2)
        >>> print(large.load_state_dict(small.state_dict(), strict="fit"))
        loaded whole: 1
        loaded in part: weight (2, 2) -> (2, 3)
        """
        if not isinstance(state_dict, Mapping):
            hint = "its .state_dict()" if isinstance(state_dict, StateMethods) else "what state_dict() returned"
            raise DtypeError(f"load_state_dict: expected a dict, got {type(state_dict).__name__}; pass {hint}")
        if strict not in (True, False, "fit"):
            raise DtypeError(f"load_state_dict: strict is True, False or 'fit', got {strict!r}")
        load = Load(assign, strict == "fit")
        keys = IncompatibleKeys([], [])
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None) or {}
        self._plan_load(dict(state_dict), "", metadata, load, keys, errors)
        # Hooks after the load may forgive missing keys, but want to see the loaded values: then those come first.
        if load.after and not errors:
            load.carry_out()
            for module, hook in load.after:
                hook(module, keys)
        if errors or (strict is True and any(keys)):
            raise ExtempoError(_mismatch_text(self, state_dict, keys, errors))
        if not load.after:
            load.carry_out()
        return FitReport(load.loaded, load.partly, load.skipped, *keys) if strict == "fit" else keys

    def _plan_load(
        self,
        state: dict[str, Any],
        prefix: str,
        metadata: Mapping[str, Any],
        load: Load,
        keys: IncompatibleKeys,
        errors: list[str],
    ) -> None:
        local = {**metadata.get(prefix[:-1], {}), _LOADING: load, "assign_to_params_buffers": load.assign}
        self._load_from_state_dict(state, prefix, local, True, keys.missing_keys, keys.unexpected_keys, errors)
        below: dict[str, dict[str, Any]] = {name: {} for name, child in self._modules.items() if child is not None}
        for key, value in state.items():
            name = key[len(prefix) :].partition(".")[0]
            if name in below and key.startswith(prefix):
                below[name][key] = value
        for name, part in below.items():
            self._modules[name]._plan_load(part, f"{prefix}{name}.", metadata, load, keys, errors)
        if self._state_hooks is not None:
            load.after += [(self, hook) for hook in self._state_hooks.load_post.values()]

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take this module's own state, without its submodules', from `state_dict`.

        Override it to rename or fill in keys of older versions (`local_metadata["version"]`), then call it.
        """
        load = local_metadata.get(_LOADING)
        alone = load is None
        if load is None:
            load = Load(bool(local_metadata.get("assign_to_params_buffers")), fit=False)
        self._run_state_hooks(
            "load_pre", state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        own = self._own_state()
        for name in own:
            key = prefix + name
            if key in state_dict:
                load.take(self, name, key, state_dict[key], error_msgs)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + EXTRA_STATE
        has_extra = type(self).set_extra_state is not StateMethods.set_extra_state
        if has_extra and extra_key in state_dict:
            load.steps.append(partial(self.set_extra_state, state_dict[extra_key]))
            load.loaded.append(extra_key)
        elif has_extra and strict:
            missing_keys.append(extra_key)
        known = {*own, EXTRA_STATE} if has_extra else own.keys()
        if strict:
            unexpected_keys += [
                key for key in state_dict if key.startswith(prefix) and not self._knows(key, prefix, known)
            ]
        if alone:
            load.carry_out()

    def _knows(self, key: str, prefix: str, known: Iterable[str]) -> bool:
        """Whether a key is this module's own, or one that a submodule will judge."""
        first, dot, _ = key[len(prefix) :].partition(".")
        return self._modules.get(first) is not None if dot else first in known

    # ---- hooks

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects this module's state."""
        return add_hook(self._own_state_hooks().save_pre, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` when this module's state is collected."""
        return add_hook(self._own_state_hooks().save_post, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`
        before this module takes its values; it may change `state_dict`, e.g. rename the keys of an older version.
        """
        return add_hook(self._own_state_hooks().load_pre, hook)

    def _register_load_state_dict_pre_hook(self, hook: Hook, with_module: bool = False) -> RemovableHandle:
        return self.register_load_state_dict_pre_hook(hook if with_module else lambda module, *args: hook(*args))

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may take keys out of those lists to forgive them."""
        return add_hook(self._own_state_hooks().load_post, hook)


def _mismatch_text(module: Any, state: Mapping[str, Any], keys: IncompatibleKeys, errors: list[str]) -> str:
    lines = [f"load_state_dict: the state does not match {type(module).__name__}, nothing was loaded:"]
    for title, names in (
        ("Missing key(s), which the module has and the state lacks", keys.missing_keys),
        ("Unexpected key(s), which the state has and the module lacks", keys.unexpected_keys),
    ):
        if names:
            lines.append(f"    {title}: " + ", ".join(f'"{name}"' for name in names))
    lines += [f"    {error}" for error in errors]
    lines.append(f"  {_advice(module, state, errors)}")
    return "\n".join(lines)


def _advice(module: Any, state: Mapping[str, Any], errors: list[str]) -> str:
    first = next(iter(state), "").partition(".")[0] + "."
    own = module.state_dict()
    if state and all(key.startswith(first) and key[len(first) :] in own for key in state):
        return f'every key begins with "{first}": load {{key[{len(first)}:]: value for key, value in state.items()}}'
    if errors:
        return 'pass strict="fit" to load what fits and get a report of the rest'
    return 'pass strict=False to load only what both have, or strict="fit" to get a report as well'
